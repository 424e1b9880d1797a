"""An eviction that the cluster refuses stops its plan; what was freed stays with those it was freed for."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import pytest

from pumice import saved
from pumice.config import from_data
from pumice.framework.explaining.explain import Explanation, explain
from pumice.framework.registry import default_registry
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.events import EvictFailed, Seen
from pumice.model.intents import Bind, Evict, Nominate, Note, StatusUpdate
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, replay
from pumice.scheduler.report import CycleReport
from pumice.state.invariants import violations
from pumice.testing import Scenario, pod

REGISTRY = default_registry()
CONF = from_data(
    {"actions": "allocate, preempt", "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}]},
    catalogue_of(REGISTRY),
    source="test",
).conf
NO = "429 Cannot evict pod as it would violate the pod's disruption budget."


class Cluster:
    """Carries out what cycles decide, but refuses to evict some pods."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.state, self.runtime = scenario, scenario.state, scenario.runtime
        self.refuses: Collection[str] = ()
        self.why: Explanation | None = None

    def cycle(self, job: str = "default/train") -> CycleReport:
        """One cycle, which must be replayed to the same decisions."""

        def look(ssn: Session) -> None:
            self.why = explain(ssn, ssn.state.jobs[job])

        begun = saved.parse(saved.dump(record(self.state, CONF, self.runtime)))
        report = run_cycle(self.state, assemble(CONF, REGISTRY), self.runtime, inspect=look)
        assert replay(begun, REGISTRY).decisions == decisions_of(report.intents)
        assert violations(self.state) == []
        self._carry_out(report)
        return report

    def _carry_out(self, report: CycleReport) -> None:
        freed: set[str] = set()
        refused = False
        for intent in report.intents:
            if isinstance(intent, Bind):
                self.state.apply(
                    Seen(pod(intent.pod.partition("/")[2], group=intent.job.partition("/")[2], on=intent.node))
                )
            elif isinstance(intent, Evict) and (refused or intent.pod in self.refuses):
                said = (intent.pod, intent.uid, NO, intent.node, intent.beneficiary)
                self.state.apply(EvictFailed(*said, tried=not refused, freed=intent.node in freed))
                refused = True
            elif isinstance(intent, Evict):
                freed.add(intent.node)
                self.scenario.remove(intent.pod)

    def pass_time(self, seconds: float) -> None:
        self.state.now += seconds


@pytest.fixture
def cluster() -> Cluster:
    """A gang of two needs the room of one pod on each of two nodes."""
    scenario = Scenario().node("n1", cpu=1).node("n2", cpu=1)
    scenario.job("web", tasks=2, min_available=0, on=["n1", "n2"], priority=1).job("train", tasks=2, priority=5)
    return Cluster(scenario)


def nominations(cluster: Cluster) -> set[str]:
    return {nomination.node for nomination in cluster.runtime.nominations.values() if nomination.node}


def plan(report: CycleReport) -> list[str]:
    return [e.pod for e in report.intents if isinstance(e, Evict)]


def test_only_the_nominations_for_what_was_freed_stand(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    assert plan(cluster.cycle()) == ["default/web-0", "default/web-1"]
    report = cluster.cycle()
    assert nominations(cluster) == {"n1"}
    assert [n.node for n in report.intents if isinstance(n, Nominate)] == [""]


def test_no_nomination_stands_when_the_first_eviction_is_refused(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-0"}
    cluster.cycle()
    cluster.cycle()
    assert nominations(cluster) == set()


def test_nobody_else_takes_the_room_that_was_freed(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    cluster.scenario.job("quick", cpu=1, priority=5)
    assert cluster.cycle().binds == {}


def test_a_partly_freed_node_stays_with_its_task() -> None:
    scenario = Scenario().node("n1", cpu=2)
    scenario.job("web", tasks=2, min_available=0, on="n1", priority=1).job("train", cpu=2, priority=5)
    cluster = Cluster(scenario)
    cluster.refuses = {"default/web-0"}
    assert plan(cluster.cycle()) == ["default/web-1", "default/web-0"]
    cluster.scenario.job("quick", cpu=1, priority=5)
    assert cluster.cycle().binds == {}
    assert nominations(cluster) == {"n1"}


@pytest.mark.slow
def test_the_refused_pod_is_no_victim_for_a_while_and_longer_each_time(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    plans = []
    for _ in range(70):
        plans.append(plan(cluster.cycle()))
        cluster.pass_time(1)
    tries = [second for second, pods in enumerate(plans) if pods == ["default/web-1"]]
    assert [b - a for a, b in pairwise(tries)] == [4, 8, 16, 32]
    assert sum(map(bool, plans)) == len(tries)


def test_the_gang_starts_when_the_refused_eviction_is_allowed(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    cluster.refuses = ()
    cluster.pass_time(2)
    assert plan(cluster.cycle()) == ["default/web-1"]
    assert set(cluster.cycle().binds) == {"default/train-0", "default/train-1"}


def test_another_plan_is_made_where_there_is_one(cluster: Cluster) -> None:
    cluster.scenario.node("n3", cpu=1).job("spare", min_available=0, on="n3", priority=2)
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    assert plan(cluster.cycle()) == ["default/spare-0"]


def test_the_refusal_is_told_on_the_pod_group_and_explained(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    report = cluster.cycle()
    said = f"the eviction of default/web-1 was refused: {NO}"
    assert Note("PodGroup", "default/train", "Warning", ReasonCode.EVICTION_REFUSED, said) in report.intents
    (status,) = (i.status for i in report.intents if isinstance(i, StatusUpdate) and i.key == "default/train")
    assert said in status["conditions"][0]["message"]
    assert cluster.why is not None
    assert said in cluster.why.text
    assert not [i for i in cluster.cycle().intents if isinstance(i, Note)]


def test_a_pod_that_goes_by_itself_is_forgotten(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    cluster.scenario.remove("default/web-1")
    cluster.cycle()
    assert cluster.state.refused == {}


def test_an_old_refusal_is_forgotten(cluster: Cluster) -> None:
    cluster.refuses = {"default/web-1"}
    cluster.cycle()
    cluster.scenario.remove("default/train-0").remove("default/train-1")
    cluster.pass_time(700)
    cluster.cycle()
    assert cluster.state.refused == {}
