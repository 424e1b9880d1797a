"""``simulate``, ``sweep``, ``tune``, ``plan``: the simulator from Python. Scenarios are files, data or objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pumice import yamls
from pumice.config import DEFAULT_CONF, SchedulerConf, from_data, load
from pumice.config.durations import SECOND, parse_duration
from pumice.config.loader import TOP_KEYS
from pumice.errors import InvalidInput
from pumice.framework.plugin import Plugin
from pumice.framework.registry import classes_of
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.planning import DAYS, ClusterPlan, Variant, VariantPlayer, parse_goal, size
from pumice.sim.planning.variants import groups_of, nodes_of
from pumice.sim.results.metrics import metric
from pumice.sim.results.seeds import PRIMARY
from pumice.sim.scenario import BUILT_IN, SimScenario, load_conf_file, open_scenario
from pumice.sim.study import Study
from pumice.sim.study.running import MOST_SEEDS, parse_length, parse_seeds, parse_sure, run_all, seeds_from
from pumice.sim.study.sweeping import Varied, grid
from pumice.sim.study.workers import LocalExecutor
from pumice.sim.traces import read_table
from pumice.sim.tuning import BASE
from pumice.sim.tuning.evaluations import Objectives, by_seed, by_time
from pumice.sim.tuning.knobs import knobs_of, knobs_over
from pumice.sim.tuning.told import TuningAccount, tuned

Policy = str | Path | type[Plugin] | Mapping[str, Any] | SchedulerConf
"""A configuration to play: the name of one of the scenario, ``default`` or ``helm``, a file, conf data (a plugin in it
may be a class), or a plugin class: then the default configuration with that plugin first."""
Policies = Policy | Sequence[Policy] | Mapping[str, Policy]
DEFAULT_SEEDS = 20
Seeds = int | str | Iterable[int]
"""``20`` and ``"1..20"`` are the seeds from 1 to 20."""
Source = str | Path | Mapping[str, Any] | SimScenario
"""A scenario: a file, the same data, or one that was read before."""


def read_scenario(
    scenario: Source,
    *,
    jobs: Any = None,
    horizon: str | None = None,
    data: Path | str | None = None,
    plugins_dir: Path | str | None = None,
) -> SimScenario:
    """Return a scenario with its plugins, checked and ready to be played.

    :param scenario: a file, or the same as data: then paths in it are relative to the working directory.
    :param jobs: more jobs: a DataFrame, an Arrow table or columns by name, with the columns of a trace
        (``job``, ``submit_s``, ``duration_s``, ``tasks``, ``gpu``, …).
    :param horizon: another end than the scenario's: ``12h``.
    :param data: the folder of the traces and node lists that it names.
    :param plugins_dir: plugins from here, in the place of the scenario's ``pluginsDir``.
    :raises InvalidInput: the scenario breaks a rule; says which and where.
    """
    if isinstance(scenario, SimScenario):
        if any(given is not None for given in (jobs, data, plugins_dir)):
            raise InvalidInput("scenario: was read already; say jobs, data and plugins_dir where it is read")
        found = scenario
    else:
        found = open_scenario(
            dict(scenario) if isinstance(scenario, Mapping) else Path(scenario),
            plugins_dir=None if plugins_dir is None else Path(plugins_dir),
            data=None if data is None else Path(data),
            jobs=None if jobs is None else read_table(jobs),
        )
    return found if horizon is None else found.with_horizon(parse_duration(horizon, days=True) / SECOND)


def simulate(
    scenario: Source,
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    *,
    jobs: Any = None,
    figure: str = PRIMARY,
    until_sure: str | None = None,
    split: str | None = None,
    horizon: str | None = None,
    data: Path | str | None = None,
    plugins_dir: Path | str | None = None,
    executor: Executor | None = None,
    processes: int = 1,
    keep_records: bool = True,
) -> Study:
    """Play a scenario under several policies on many seeds, and return what came of it.

    Policies of one seed see the same jobs, faults and refused binds; traces are shaken by the seed. Ctrl-C ends the
    study and keeps what is done; a run that fails or whose process dies is lost and named in ``lost``.

    :param scenario: a file, the same data, or what `read_scenario` returned.
    :param policies: one or several, or a mapping from names to them; else all configurations of the scenario. The
        first is the one that the others are compared with.
    :param seeds: ``20``, ``"1..20"`` or numbers; else 20, or one if nothing is drawn.
    :param jobs: more jobs, as a DataFrame, played as they are; see `read_scenario`.
    :param figure: the figure to judge by; the others are exploratory.
    :param until_sure: play 20, 40 or 80 seeds, until the figure is known to within so much: ``5%``.
    :param split: of a trace, play its parts of this length, each once, in the place of seeds: ``7d``.
    :param executor: where runs are played: any ``concurrent.futures.Executor`` (Dask's ``client.get_executor()``, a
        pool of your own). It stays open.
    :param processes: else, on so many processes of this machine.
    :param keep_records: keep every job of every run, for ``jobs`` and plots; without, figures only.
    :raises InvalidInput: the scenario or a policy breaks a rule.
    """
    read = read_scenario(scenario, jobs=jobs, horizon=horizon, data=data, plugins_dir=plugins_dir)
    read = read if policies is None else under(read, policies)
    return _played(read, seeds, figure, until_sure, split, executor, processes, keep_records)


def sweep(
    scenario: Source,
    policy: Policy | None = None,
    vary: Mapping[str, Sequence[Any]] = {},
    seeds: Seeds | None = None,
    *,
    jobs: Any = None,
    figure: str = PRIMARY,
    executor: Executor | None = None,
    processes: int = 1,
    keep_records: bool = True,
) -> Study:
    """Play one policy as it is and with every combination of other arguments; parameters as of `simulate`.

    :param policy: else the first configuration of the scenario.
    :param vary: values by argument: ``{"binpack.weight": [1, 5]}``.
    """
    read = _one(read_scenario(scenario, jobs=jobs), policy)
    split = [(name.partition("."), values) for name, values in vary.items()]
    varied = [Varied(plugin, argument, tuple(values)) for (plugin, _, argument), values in split if argument]
    if not varied or len(varied) < len(vary):
        raise InvalidInput(f"vary: needs values by PLUGIN.ARGUMENT, such as binpack.weight, got {', '.join(vary)!r}")
    confs = grid(next(iter(read.configurations.values())), varied, catalogue_of(read.registry))
    return _played(_checked(read.under(confs)), seeds, figure, None, None, executor, processes, keep_records)


def tune(
    scenario: Source,
    policy: Policy | None = None,
    over: Sequence[str] | Mapping[str, str] = (),
    improve: str | Sequence[str] = PRIMARY,
    *,
    runs: int = 200,
    seeds: Seeds | None = None,
    split: str | None = None,
    queue_loss: float | None = 0.05,
    search_seed: int = 0,
    study: Path | str | None = None,
    jobs: Any = None,
    executor: Executor | None = None,
    processes: int = 1,
) -> TuningAccount:
    """Search the arguments of a policy, and return what is recommended: judged on days that had no part in the search.

    :param policy: else the first configuration of the scenario.
    :param over: what is searched: ``["binpack.weight=0..10"]`` or ``{"binpack.weight": "0..10"}``; else every number
        that its plugins read, and the plugins that only rank nodes.
    :param improve: the figures to improve; the first must.
    :param seeds: seeds to search on, choose on and judge on; else 1 to 40, or of a trace its parts.
    :param split: of a trace, the length of its parts: ``7d``.
    :param queue_loss: no queue may wait longer by more than this part; ``None``: it may.
    :param study: a file that remembers every run, and counts how often the days held out were looked at.
    :raises MissingExtra: Optuna is not there (the extra ``tune``).
    """
    opened = _one(read_scenario(scenario, jobs=jobs), policy)
    base = next(iter(opened.configurations.values()))
    traces = bool(opened.traces) and not opened.generators and not opened.manifests
    if split is None and (seeds is not None or not traces):
        days, read = by_seed(_numbers(40 if seeds is None else seeds)), opened
    else:
        days, read = by_time(opened, parse_length(split or "7d"))
    named = [improve] if isinstance(improve, str) else improve
    wanted = Objectives(tuple(metric(name) for name in dict.fromkeys(named)), queue_loss)
    texts = [f"{name}={values}" for name, values in over.items()] if isinstance(over, Mapping) else list(over)
    played = read.under({BASE: base})
    knobs = knobs_over(texts, base, played.queue_weights, read.registry) if texts else knobs_of(base, read.registry)
    with _executor(executor, processes) as where:
        return tuned(
            played,
            knobs,
            days,
            wanted,
            runs=runs,
            seed=search_seed,
            executor=where,
            path=None if study is None else Path(study),
        )


def plan(
    scenario: Source,
    policy: Policy | None = None,
    goal: str = "wait.p95 < 10m",
    group: str | None = None,
    between: tuple[int, int] | None = None,
    *,
    seeds: Seeds = DAYS,
    jobs: Any = None,
    executor: Executor | None = None,
    processes: int = 1,
) -> ClusterPlan:
    """Return how many nodes a goal needs, by the days that are played and with confidence.

    More load is ``scenario.with_load(1.3)`` of a scenario that was read before.

    :param policy: else the first configuration of the scenario.
    :param goal: ``wait.p95 < 10m``, or ``wait.mean < 10m on 9 of 10 days``.
    :param group: the nodes that are counted; else the first of the cluster.
    :param between: the fewest and the most nodes; else from 1 to four times as many as there are.
    :raises InvalidInput: the goal or the group is none.
    """
    read = _one(read_scenario(scenario, jobs=jobs), policy)
    wanted, numbers = parse_goal(goal), _numbers(seeds)
    group = group or next(iter(groups_of(read)))
    low, high = between or (1, 4 * len(nodes_of(read, group)))
    if not 1 <= low < high:
        raise InvalidInput(f"between: must be two numbers of at least 1, the fewest and the most, got {between}")
    with _executor(executor, processes) as where:
        player = VariantPlayer(read, next(iter(read.configurations)), numbers, where)
        return ClusterPlan(read.name, size(player, Variant(), group, wanted, low, high), wanted, len(numbers))


# -- what they share ------------------------------------------------------------------------------------------------
def under(scenario: SimScenario, policies: Policies) -> SimScenario:
    """Return the scenario under other configurations, whatever they were given as.

    :raises InvalidInput: one is neither a name, nor a file, nor a conf, nor a plugin; or two have one name.
    """
    reader = _PolicyReader(scenario)
    if isinstance(policies, Mapping) and not any(key in TOP_KEYS for key in policies):
        named: Mapping[str, Any] = policies
    else:
        listed = [policies] if isinstance(policies, (str, Path, type, Mapping, SchedulerConf)) else list(policies)
        names = [reader.name_of(policy, at) for at, policy in enumerate(listed, 1)]
        if len(set(names)) < len(names):
            raise InvalidInput(f"policies: every one needs a name of its own, got {', '.join(names)}; give a mapping")
        named = dict(zip(names, listed, strict=True))
    if not named:
        raise InvalidInput("policies: at least one is needed")
    confs = {name: reader.conf(policy) for name, policy in named.items()}
    return _checked(replace(scenario.under(confs), classes=tuple(reader.classes)))


class _PolicyReader:
    """Reads policies, and notes the plugin classes among them."""

    def __init__(self, scenario: SimScenario) -> None:
        self._scenario, self._registry = scenario, scenario.registry.copy()
        self.classes = dict.fromkeys(scenario.classes)

    def name_of(self, policy: Policy, at: int) -> str:
        """The name of a policy that was given without one."""
        if isinstance(policy, type):
            return policy.name or policy.__name__
        if isinstance(policy, (Mapping, SchedulerConf)):
            return f"policy {at}"
        known = str(policy) in {*self._scenario.configurations, *BUILT_IN}
        return str(policy) if known else Path(policy).stem

    def conf(self, policy: Policy) -> SchedulerConf:
        """The configuration that a policy is."""
        if isinstance(policy, SchedulerConf):
            return policy
        if isinstance(policy, type):
            data = yamls.load(DEFAULT_CONF, "<default>")
            data["tiers"][0]["plugins"].insert(0, policy)
            policy = data
        if isinstance(policy, Mapping):
            self.classes.update(dict.fromkeys(classes_of(policy)))
            return from_data(self._registry.with_names(policy), catalogue_of(self._registry)).conf
        assert isinstance(policy, (str, Path))
        name = str(policy)
        if name in self._scenario.configurations:
            return self._scenario.configurations[name]
        if name in BUILT_IN and not Path(policy).exists():
            return load(BUILT_IN[name], catalogue_of(self._registry), f"<{name}>").conf
        return load_conf_file(Path(policy), catalogue_of(self._registry)).conf


def _one(scenario: SimScenario, policy: Policy | None) -> SimScenario:
    """The scenario under one policy, or the first of its own."""
    if policy is None:
        return scenario.under(dict([next(iter(scenario.configurations.items()))]))
    return under(scenario, [policy])


def _checked(scenario: SimScenario) -> SimScenario:
    for conf in scenario.configurations.values():
        assemble(conf, scenario.registry)
    return scenario


def _numbers(seeds: Seeds) -> list[int]:
    if isinstance(seeds, (int, str)):
        return parse_seeds(str(seeds))
    return list(seeds)


@contextmanager
def _executor(given: Executor | None, processes: int) -> Iterator[Executor | None]:
    if given is not None or processes <= 1:
        yield given
        return
    own = LocalExecutor(processes)
    try:
        yield own
    finally:
        own.shutdown(cancel_futures=True)


def _played(
    scenario: SimScenario,
    seeds: Seeds | None,
    figure: str,
    until_sure: str | None,
    split: str | None,
    executor: Executor | None,
    processes: int,
    keep_records: bool,
) -> Study:
    made = scenario.bundle
    if made is not None and seeds is None and split is None and until_sure is None:
        seeds, split, until_sure = made.seeds if made.seed is None else [made.seed], made.split, made.until_sure
    primary = metric(figure).key
    sure = None if until_sure is None else parse_sure(until_sure, primary)
    if split is not None:
        scenario = scenario.split_into(parse_length(split))
    if seeds is None:
        seeds = DEFAULT_SEEDS if scenario.is_drawn else [scenario.setting.seed]
    numbers = list(scenario.split.numbers) if scenario.split is not None else _numbers(seeds)
    with _executor(executor, processes) as where:
        runs = run_all(
            scenario,
            numbers if sure is None else seeds_from(numbers[0]),
            executor=where,
            keep=lambda task: keep_records,
            enough=sure,
            most=None if sure is None else MOST_SEEDS,
        )
    return Study(scenario.name, runs, primary, sure)
