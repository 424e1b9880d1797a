"""What plugins registered stands in the next session where they say so, and nowhere else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pumice import Action, Arguments, EventHandler, Job, Plugin, Session
from pumice.config import from_data
from pumice.engine.views import ViewCache
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import PodSpec
from pumice.model.events import Gone, Seen
from pumice.model.reason import PASS
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, node, queue

told: Counter[str] = Counter()


class Goes(Plugin):
    """Goes on with what it registered."""

    name = "goes"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        told["built"] += 1

    def on_session_open(self, ssn: Session) -> None:
        told["opened"] += 1
        ssn.add_job_valid_fn(self.name, self._valid)

    def on_session_reopen(self, ssn: Session) -> bool:
        told["reopened"] += 1
        return True

    def _valid(self, job: Job) -> bool:
        told[f"{type(self).__name__} asked"] += 1
        return True


class Made(Goes):
    """Made of one that goes on, and says nothing itself."""

    name = "made"


class Handles(Goes):
    """Says that it goes on, and registers what is there for one session."""

    name = "handles"

    def on_session_open(self, ssn: Session) -> None:
        super().on_session_open(ssn)
        ssn.add_event_handler(EventHandler(allocate=lambda event: told.update(["handled"])))

    def on_session_reopen(self, ssn: Session) -> bool:
        raise AssertionError("nobody asks")


class Replaces(Goes):
    """Registers under another plugin's name."""

    name = "replaces"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_valid_fn("goes", self._valid)

    def on_session_reopen(self, ssn: Session) -> bool:
        return True


class Fails(Goes):
    """Fails when it is asked to go on."""

    name = "fails"

    def on_session_reopen(self, ssn: Session) -> bool:
        raise RuntimeError("no more")


def assembly(*plugins: type[Plugin], actions: str = "") -> Assembly:
    registry: Registry = default_registry().copy()
    for plugin in plugins:
        registry.register(plugin.name, plugin)
    registry.actions["acts"] = Acts
    names = [{"name": n} for n in ("priority", "gang", "predicates", "proportion", "nodeorder", "binpack")]
    conf: dict[str, Any] = {
        "actions": f"enqueue, allocate, backfill{actions}",
        "tiers": [{"plugins": [*names, *({"name": p.name} for p in plugins)]}],
    }
    return assemble(from_data(conf, catalogue_of(registry)).conf, registry)


class Cluster:
    """Three nodes; each cycle brings a job."""

    def __init__(self, made: Assembly) -> None:
        self.state, self.runtime, self.assembly, self.cycles = ClusterState(), Runtime(), made, 0
        for obj in [queue("default"), *cluster("3x8gpu")]:
            self.state.apply(Seen(obj))
        told.clear()

    def cycle(self) -> CycleReport:
        self.cycles += 1
        for obj in job(f"j{self.cycles}", tasks=2, gpu=1):
            self.state.apply(Seen(obj))
        return run_cycle(self.state, self.assembly, self.runtime)


def test_a_plugin_that_says_so_serves_the_next_sessions_too() -> None:
    world = Cluster(assembly(Goes))
    binds = [len(world.cycle().binds) for _ in range(3)]
    assert binds == [2, 2, 2]
    assert (told["built"], told["opened"], told["reopened"]) == (1, 1, 2)
    assert told["Goes asked"] >= 3


@pytest.mark.parametrize("plugin", [Made, Handles])
def test_a_plugin_is_built_anew_whose_own_class_does_not_say_so_or_that_handles_events(plugin: type[Plugin]) -> None:
    world = Cluster(assembly(plugin))
    assert [len(world.cycle().binds) for _ in range(3)] == [2, 2, 2]
    assert (told["built"], told["opened"], told["reopened"]) == (3, 3, 0)
    assert told["handled"] == (6 if plugin is Handles else 0)


def test_a_plugin_that_is_built_anew_leaves_what_the_others_registered() -> None:
    world = Cluster(assembly(Goes, Made))
    for _ in range(3):
        world.cycle()
    assert (told["built"], told["reopened"]) == (1 + 3, 2)
    assert told["Goes asked"] == told["Made asked"] >= 3


def test_nothing_stands_where_one_plugin_registers_in_the_place_of_another() -> None:
    world = Cluster(assembly(Goes, Replaces))
    for _ in range(3):
        assert len(world.cycle().binds) == 2
    assert (told["built"], told["reopened"]) == (6, 0)
    assert not told["Goes asked"]
    assert told["Replaces asked"] >= 3


def test_a_plugin_that_fails_to_go_on_is_told_and_built_anew() -> None:
    world = Cluster(assembly(Goes, Fails))
    world.cycle()
    report = world.cycle()
    assert ["no more" in error and "on_session_reopen" in error for error in report.errors] == [True]
    assert len(report.binds) == 2
    assert told["opened"] == 3
    world.cycle()  # after a failure all are built anew
    assert told["opened"] == 5


def test_nothing_stands_on_another_state_or_under_another_configuration() -> None:
    world = Cluster(assembly(Goes))
    world.cycle()
    world.assembly = assembly(Goes)
    told.clear()
    world.cycle()
    assert (told["opened"], told["reopened"]) == (1, 0)
    other = Cluster(world.assembly)
    other.runtime = world.runtime
    other.cycle()
    assert (told["opened"], told["reopened"]) == (1, 0)


def test_what_pods_use_for_the_first_time_is_looked_at_although_registrations_stand() -> None:
    world = Cluster(assembly(Goes))
    world.cycle()
    world.state.apply(Seen(node("special", gpu=8, labels={"pool": "special"})))
    for obj in job("picky", gpu=1, spec=PodSpec(node_selector={"pool": "special"})):
        world.state.apply(Seen(obj))
    assert world.cycle().binds["default/picky-0"] == "special"
    world.state.apply(Gone("Pod", "default/picky-0"))
    assert len(world.cycle().binds) == 2


def test_a_class_whose_view_had_to_go_is_looked_at_again_in_the_same_session() -> None:
    """The cache of views holds 32 at least; here it holds no more, and 40 classes are looked at twice."""
    world = Cluster(assembly())
    world.runtime.cache = ViewCache(max_bytes=1)
    for n in range(40):
        for obj in job(f"odd-{n}", cpu=1000 + n, tasks=2, min_available=1):
            world.state.apply(Seen(obj))

    def look(ssn: Session) -> None:
        for _ in range(2):
            for n in range(40):
                task = next(iter(ssn.jobs[f"default/odd-{n}"].tasks.values()))
                assert not ssn.search.evaluator.view(task).idle_ok.any()

    run_cycle(world.state, world.assembly, world.runtime, inspect=look)


class Leaves(Goes):
    """Leaves behind whatever can be left, in its first session, and looks whether it is there in the others."""

    name = "leaves"

    def on_session_open(self, ssn: Session) -> None:
        super().on_session_open(ssn)
        self._fill(ssn)

    def on_session_reopen(self, ssn: Session) -> bool:
        told["found"] += hasattr(ssn, "_mine")
        return True

    def _fill(self, ssn: Session) -> None:
        ssn._mine = 1  # type: ignore[attr-defined]
        ssn.metrics.gauge("mine", 1)
        ssn.warnings.append("mine")
        ssn.view(lambda _: object())
        _ = ssn.budgets
        ssn.domain, ssn.simulates, ssn.forgot_turns = ssn.hyper_nodes.top, True, True
        ssn._preemptive["mine"], ssn._preemptive_at = PASS, 7


OF_REGISTRATIONS = {"_bound", "_chains", "_entries", "_facts", "_keys", "_left", "_registered", "_steady", "_tiers"}
"""What was made of registrations, and stands with them."""
PARTS = {"_own", "failures", "metrics", "binds", "handlers", "orders", "search", "outcome"}


def test_nothing_of_one_cycle_is_found_by_the_next_but_what_was_made_of_registrations() -> None:
    world = Cluster(assembly(Leaves))
    first = world.cycle()
    gauges, refusals = dict(first.gauges), dict(first.refusals)
    seen: list[dict[str, Any]] = []
    world.runtime.metered = not world.runtime.metered
    world.runtime.opened[2].again(None, None, thorough=False, tells=True)  # type: ignore[index]
    gone_on = world.runtime.opened[2]  # type: ignore[index]
    anew = Session(
        world.state,
        tiers=world.assembly.tiers(),
        actions=world.assembly.conf.actions,
        action_arguments=world.assembly.action_arguments,
        runtime=world.runtime,
        signature=world.assembly.conf.digest,
    )
    for ssn in (gone_on, anew):
        compared = vars(ssn).keys() - OF_REGISTRATIONS - PARTS - vars(ssn)["_attributes"].keys() - {"_attributes"}
        assert {"domain", "simulates", "_views", "_preemptive", "warnings", "timings"} <= compared
        seen.append({name: vars(ssn)[name] for name in compared})
    assert seen[0] == seen[1]
    for part in ("handlers", "binds"):
        assert not getattr(gone_on, part)
    assert gone_on.metrics == anew.metrics
    assert not gone_on.failures.errors
    assert not gone_on.orders._job_keys
    assert {k: v for k, v in vars(gone_on.outcome).items() if not k.startswith("_")}.keys() == {
        k: v for k, v in vars(anew.outcome).items() if not k.startswith("_")
    }.keys()
    assert not (gone_on.outcome.intents or gone_on.outcome.promises or gone_on.outcome.refusals)
    second = world.cycle()
    assert told["found"] == 0
    assert "mine" in [name for name, _ in gauges]
    assert "mine" not in [name for name, _ in second.gauges]
    assert (dict(first.gauges), dict(first.refusals)) == (gauges, refusals)


class Acts(Action):
    """An action of one's own."""

    name = "acts"

    def execute(self, ssn: Session) -> None:
        pass


@pytest.mark.parametrize(("plugins", "actions", "helps"), [((), "", False), ((Goes,), "", True), ((), ", acts", True)])
def test_where_others_than_we_ask_a_session_says_what_was_meant(
    plugins: tuple[type[Plugin], ...], actions: str, helps: bool
) -> None:
    found: list[str] = []

    def look(ssn: Session) -> None:
        try:
            ssn.Jobs  # type: ignore[attr-defined]  # noqa: B018
        except AttributeError as exc:
            found.append(str(exc))

    world = Cluster(assembly(*plugins, actions=actions))
    for _ in range(2):
        run_cycle(world.state, world.assembly, world.runtime, inspect=look, details=True)
    helped = "the session has no 'Jobs'; here it is 'jobs'"
    assert found == [helped if helps else "'Session' object has no attribute 'Jobs'"] * 2
