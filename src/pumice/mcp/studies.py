"""Questions that are answered by playing: two confs compared, how many nodes a goal needs. In a bounded process.

The owner of the server decides what is played: scenarios, by their names. A question is given some seconds; what was
played in them is remembered, so that asking it again goes on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from pumice.answers.what_if import NOT_ASKED, NotNow, without_extenders
from pumice.config import SchedulerConf
from pumice.config.problems import nearest
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.registry import Registry
from pumice.mcp.arguments import ConfsArguments, GoalArguments
from pumice.mcp.knowledge import NotKnown
from pumice.sim.planning import Variant, VariantPlayer, answer_in_words, parse_goal, remarks, size
from pumice.sim.planning.variants import groups_of, nodes_of, play_variant
from pumice.sim.results.intervals import FEWEST, SURE
from pumice.sim.results.seeds import SeedRow, compare_seeds
from pumice.sim.results.summary import Summary
from pumice.sim.scenario import SimScenario
from pumice.sim.study.running import Played, StudyRun
from pumice.subprocess_runner import IsolatedProcess, NotInTime
from pumice.words import counted

SECONDS: Final = 15.0
"""For which a question plays."""
AGAIN: Final = 1.0
"""Seconds after which one that has not come to its end may be asked again."""
MOST_KNOWN: Final = 5000
"""Runs that are remembered."""
FIGURES: Final = (
    *("unfinished", "wait.mean", "wait.p95", "jct.mean", "utilisation.gpu", "utilisation.cpu"),
    *("evictions", "lost_gpu_hours", "fairness.share"),
)
"""The figures by which two confs are compared."""
NO_SCENARIO: Final = "there is nothing to play here: start with --scenario FILE; `pumice trace` makes one of a history"


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure under both confs, and what the second changes about it."""

    figure: str
    unit: str
    a: float | None
    b: float | None
    change: float | None
    """For times and ratios the part by which it grows (-0.4: 40 % less), else the difference."""
    low: float | None
    high: float | None
    """The 95 % interval of the change."""
    better_on: str
    """In how many pairs the second was better."""
    verdict: str


class ConfsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Two confs on the same runs, pair by pair."""

    text: str
    scenario: str
    jobs: int
    """Of one run."""
    seeds: int
    """Pairs that were played."""
    wanted: int
    figures: list[ComparedFigure]
    driven_by: list[str]
    """The cause of the difference in waiting, if it is one place."""
    notes: list[str]
    assumes: list[str]
    retry_after: float | None = None
    """Asked again after so many seconds, it goes on with the pairs that are not played yet."""


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes a goal needs."""

    text: str
    scenario: str
    goal: str
    seeds: int
    plan: dict[str, Any]
    remarks: list[str]
    assumes: list[str]


class _Known(OrderedDict[Hashable, Played]):
    """Runs, of which the oldest are forgotten."""

    def __setitem__(self, key: Hashable, value: Played) -> None:
        super().__setitem__(key, value)
        while len(self) > MOST_KNOWN:
            self.popitem(last=False)


class _Stage(NamedTuple):
    """A scenario under one conf."""

    scenario: SimScenario
    conf: str
    """The name of the configuration."""
    about: Hashable
    """The key of the memory."""


ReadConf = Callable[[str, Registry, str], SchedulerConf]
"""The conf that a text is, or the one that decides here; with what it may name, and what it is called."""


class RememberingExecutor(Executor):
    """Has runs played by a process, each at once, unless its outcome is known.

    *known* is added to; a call is known by *about*, which stands for its first argument, the world, and by the others.
    """

    def __init__(self, process: IsolatedProcess, known: MutableMapping[Hashable, Played], about: Hashable) -> None:
        self._process, self._known, self._about = process, known, about

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A call that is answered, or failed, when this returns."""
        future: Future[Any] = Future()
        key = (self._about, fn.__name__, *args[1:])
        try:
            if key not in self._known:
                self._known[key] = self._process.call(partial(fn, **kwargs), *args, returns=Played)
            future.set_result(self._known[key])
        except PumiceError as exc:
            future.set_exception(exc)
        return future


class Studies:
    """Plays scenarios under confs, one question at a time."""

    def __init__(self, scenarios: Mapping[str, SimScenario], read_conf: ReadConf) -> None:
        self._scenarios, self._read_conf = scenarios, read_conf
        self._known = _Known()
        self._one = threading.Lock()

    def compare(self, asked: ConfsArguments) -> ConfsAnswer:
        """Two confs, on as many pairs of runs as there is time for.

        :raises PumiceError: there is nothing to play, a conf is none, or not one pair was played in time.
        """
        name, scenario = self._scenario(asked.scenario)
        assumes: list[str] = []
        stages = [self._stage(name, scenario, conf, text, assumes) for conf, text in (("a", asked.a), ("b", asked.b))]
        played: dict[str, dict[int, Summary]] = {stage.conf: {} for stage in stages}
        with self._process() as process, suppress(NotInTime):
            packed = [stage.scenario.packed() for stage in stages]
            for seed in range(1, asked.seeds + 1):
                for stage, content in zip(stages, packed, strict=True):
                    executor = RememberingExecutor(process, self._known, stage.about)
                    run = executor.submit(play_variant, content, Variant(), StudyRun(stage.conf, seed)).result()
                    played[stage.conf][seed] = run.summary
        pairs = len(played["a"].keys() & played["b"].keys())
        if not pairs:
            raise NotInTime(f"no pair of runs of {name} was played within {SECONDS:g} s; ask again to go on")
        compared = compare_seeds(played)
        figures = [figure for row in compared.overall if (figure := _figure(row)) is not None]
        return ConfsAnswer(
            text=_in_words(figures, len(compared.seeds)),
            scenario=name,
            jobs=next(iter(played["a"].values())).total.jobs,
            seeds=pairs,
            wanted=asked.seeds,
            figures=figures,
            driven_by=[
                f"{one.kind} {one.name}: {one.part:.0%} of the difference in waiting" for one in compared.drivers
            ],
            notes=[*compared.notes, *compared.warnings],
            assumes=assumes,
            retry_after=AGAIN if pairs < asked.seeds else None,
        )

    def plan(self, asked: GoalArguments) -> PlanAnswer:
        """How many nodes of a group the goal needs, from one to four times as many as now.

        :raises PumiceError: there is nothing to play, the goal or the conf is none, or it needs more time.
        """
        goal = parse_goal(asked.goal)
        name, scenario = self._scenario(asked.scenario)
        group = asked.group or next(iter(groups_of(scenario)))
        most = 4 * len(nodes_of(scenario, group))
        assumes: list[str] = []
        stage = self._stage(name, scenario, "conf", asked.conf, assumes)
        seeds = range(1, asked.seeds + 1)
        with self._process() as process:
            player = VariantPlayer(
                stage.scenario, stage.conf, seeds, RememberingExecutor(process, self._known, stage.about)
            )
            try:
                sized = size(player, Variant(load=asked.load), group, goal, 1, most)
            except NotInTime:
                many = counted(len(player.known), "size")
                raise NotInTime(
                    f"{many} of {group} played so far, {asked.seeds} runs each; ask again to go on"
                ) from None
        return PlanAnswer(
            text=answer_in_words(sized, goal),
            scenario=name,
            goal=goal.text,
            seeds=asked.seeds,
            plan=sized.told(),
            remarks=remarks(sized, goal, asked.seeds),
            assumes=assumes,
        )

    # -- what is played -----------------------------------------------------------------------------------------------
    def _scenario(self, name: str) -> tuple[str, SimScenario]:
        if not self._scenarios:
            raise NotKnown(NO_SCENARIO)
        if not name:
            return next(iter(self._scenarios.items()))
        if name not in self._scenarios:
            near = nearest(name, self._scenarios)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(self._scenarios)}"
            raise InvalidInput(f"no scenario named {name!r}{hint}")
        return name, self._scenarios[name]

    def _stage(self, name: str, scenario: SimScenario, called: str, text: str, assumes: list[str]) -> _Stage:
        """A scenario under a conf of an agent: one that asks nobody outside."""
        registry = scenario.registry
        given = self._read_conf(text, registry, called)
        conf = without_extenders(given, registry)
        if conf is not given and NOT_ASKED not in assumes:
            assumes.append(NOT_ASKED)
        return _Stage(scenario.under({called: conf}), called, (name, called, conf.digest))

    @contextmanager
    def _process(self) -> Iterator[IsolatedProcess]:
        """A process to play in.

        :raises NotNow: another question plays.
        """
        if not self._one.acquire(blocking=False):
            raise NotNow("another question is being played; ask again in a moment")
        try:
            with IsolatedProcess(SECONDS) as process:
                yield process
        finally:
            self._one.release()


def _figure(row: SeedRow) -> ComparedFigure | None:
    effect = row.effects[1]
    if row.key not in FIGURES or effect is None:
        return None
    a, b = row.values
    return ComparedFigure(
        figure=row.key,
        unit=row.unit,
        a=None if a is None else _rounded(a.estimate),
        b=None if b is None else _rounded(b.estimate),
        change=_rounded(effect.change.estimate),
        low=_rounded(effect.change.low),
        high=_rounded(effect.change.high),
        better_on=f"{effect.better} of {effect.pairs}",
        verdict=effect.verdict,
    )


def _rounded(value: float | None) -> float | None:
    """To four digits: more of them are not known."""
    return None if value is None else float(f"{value:.4g}")


def _in_words(figures: list[ComparedFigure], pairs: int) -> str:
    if all(one.verdict == "no difference seen" for one in figures):
        return "both confs come to the same in every run"
    if pairs < FEWEST:
        return f"{counted(pairs, 'pair')} of runs cannot tell a difference from chance; at least {FEWEST} are needed"
    said = [f"{one.figure} is {one.verdict}" for one in figures if one.verdict in SURE]
    rest = "; of the others these runs cannot tell, or nothing changes" if len(said) < len(figures) else ""
    return f"under b: {', '.join(said)}{rest}" if said else "these runs show no difference that is more than chance"
