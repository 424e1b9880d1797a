"""Why preempt and reclaim made no room for a job: every running pod that they look at is counted once, and truly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pumice import Job, Plugin, Session, Task
from pumice.config import from_data
from pumice.framework.explaining import explain_evictions
from pumice.framework.explaining.explain import Explanation, explain
from pumice.framework.registry import Registry
from pumice.framework.session.rounds import Turn
from pumice.model.api import PodSpec, decode
from pumice.model.status import TaskStatus
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.testing import Scenario, queue

POLICY: Sequence[str | type[Plugin]] = ("priority", "gang", "predicates")


def why(scenario: Scenario, job: str, *plugins: str | type[Plugin], actions: str) -> Explanation:
    """Run one cycle, which evicts nobody, and explain a job."""
    registry = Registry()
    for plugin in plugins:
        if not isinstance(plugin, str):
            registry.register(plugin.name, plugin)
    names = [{"name": plugin if isinstance(plugin, str) else plugin.name} for plugin in plugins]
    conf = from_data({"actions": actions, "tiers": [{"plugins": names}]}, catalogue_of(registry)).conf
    found: list[Explanation] = []

    def inspect(ssn: Session) -> None:
        before = len(ssn.outcome.intents)
        found.append(explain(ssn, ssn.state.jobs[f"default/{job}"]))
        assert len(ssn.outcome.intents) == before

    report = run_cycle(scenario.state, assemble(conf, registry), scenario.runtime, inspect=inspect)
    assert not report.evictions
    return found[0]


def preempt(scenario: Scenario, *plugins: str | type[Plugin]) -> str:
    """The line on preempt for the job ``high``; its numbers add up."""
    (line,) = why(scenario, "high", *(plugins or POLICY), actions="enqueue, allocate, preempt").evictions
    running = sum(
        len(job.with_status(status))
        for job in scenario.state.jobs.values()
        for status in (TaskStatus.RUNNING, TaskStatus.BOUND)
        if job.queue == "default" and job.name != "high"
    )
    if " of queue default " in line and "no other job" not in line:
        whole, _, parts = line.partition(" of queue default ")
        assert whole.endswith(f" {running} running pods")
        if " all " not in whole:
            assert sum(int(n) for n in re.findall(r"(?:^|, )(\d+) ", parts)) == running
    return line.removeprefix("preempt ")


def test_who_is_kept_by_whom_is_counted_pod_by_pod(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=4)
    for n in range(4):
        scenario.job(f"low{n}", on="n1", priority=1 if n else 20)
    scenario.job("gang", tasks=4, on="n2", priority=1).job("high", cpu=4, priority=10)
    found = preempt(scenario)
    reasons = "4 are kept by gang, 1 is kept by priority, 3 would not make room enough"
    assert found == f"found nobody to evict: of 8 running pods of queue default {reasons}"


def _spec(**fields: Any) -> PodSpec:
    return decode("Pod", {"spec": {"containers": [], **fields}}).spec  # type: ignore[attr-defined, no-any-return]


def _budget(scenario: Scenario) -> None:
    scenario.job("web", tasks=2, min_available=0, cpu=1, on="n1", task_labels={"app": "web"})
    about = {"metadata": {"name": "web", "namespace": "default"}, "status": {"disruptionsAllowed": 0}}
    scenario.add(
        decode("PodDisruptionBudget", {**about, "spec": {"selector": {"matchLabels": {"app": "web"}}}}),
    )


def _turns(scenario: Scenario) -> None:
    scenario.job("web", tasks=2, min_available=0, on="n1")
    scenario.runtime.turns["default/high"] = {"default/web": Turn(scenario.state.now)}


def _one(name: str, **fields: Any) -> Callable[[Scenario], None]:
    return lambda scenario: void(scenario.job(name, tasks=2, min_available=0, on="n1", **fields))


def void(_: object) -> None:
    """Nothing."""


ALL = "found nobody to evict: all 2 running pods of queue default "
CASES: dict[str, tuple[Callable[[Scenario], None], str]] = {
    "nobody": (lambda scenario: None, "found nobody to evict: no other job of queue default runs"),
    "priority": (_one("web", priority=10), ALL + "are kept by priority"),
    "not preemptable": (
        _one("web", task_annotations={"volcano.sh/preemptable": "false"}),
        ALL + "are not preemptable",
    ),
    "budget": (_budget, ALL + "have a disruption budget that is spent"),
    "turns": (_turns, ALL + "are of jobs for which it was evicted itself lately"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_reason_for_which_pods_stay_is_told(case: str) -> None:
    scenario = Scenario(queue("default"), queue("other")).node("n1", cpu=2)
    if case == "nobody":
        scenario.job("theirs", tasks=2, queue="other", on="n1")
    CASES[case][0](scenario)
    scenario.job("high", cpu=2, priority=10)
    assert preempt(scenario) == CASES[case][1]


def test_pods_on_nodes_that_never_take_it_are_told_apart(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).node("n2", cpu=2, labels={"disk": "ssd"})
    scenario.job("a", on="n1", cpu=2).job("b", on="n2", cpu=2, priority=20)
    scenario.job("high", cpu=2, priority=10, spec=_spec(nodeSelector={"disk": "ssd"}))
    reasons = "1 is kept by priority, 1 runs on nodes that do not take it whoever goes"
    assert preempt(scenario) == f"found nobody to evict: of 2 running pods of queue default {reasons}"


def test_a_users_plugin_is_named_as_who_keeps_pods(scenario: Scenario) -> None:
    class Guardian(Plugin):
        name = "guardian"

        def preemptable(self, preemptor: Task, tasks: Sequence[Task]) -> list[Task]:
            return [t for t in tasks if t.name.endswith("-1")]

    scenario.node("n1", cpu=2).job("web", tasks=2, min_available=0, on="n1").job("high", cpu=2, priority=10)
    found = preempt(scenario, "priority", "gang", Guardian)
    reasons = "1 is kept by guardian, 1 would not make room enough"
    assert found == f"found nobody to evict: of 2 running pods of queue default {reasons}"


def test_a_filter_of_victims_is_named(scenario: Scenario) -> None:
    class Wall(Plugin):
        name = "wall"

        def victim_filter(self, job: Job, victim: Job) -> bool:
            return False

    scenario.node("n1", cpu=2).job("web", tasks=2, min_available=0, on="n1").job("high", cpu=2, priority=10)
    assert preempt(scenario, "priority", "gang", Wall) == ALL + "are kept by wall"


@pytest.mark.parametrize(
    ("plugins", "fields", "text"),
    [
        (("predicates",), {}, "no plugin of the conf says which jobs starve"),
        (POLICY, {"spec": _spec(preemptionPolicy="Never")}, "its pods have the preemptionPolicy Never"),
    ],
)
def test_a_job_for_which_nobody_is_evicted_is_told_why(plugins: Any, fields: dict[str, Any], text: str) -> None:
    scenario = Scenario(queue("default")).node("n1", cpu=2).job("web", cpu=2, on="n1")
    scenario.job("high", cpu=2, priority=10, **fields)
    assert preempt(scenario, *plugins) == f"evicts nobody for it: {text}"


def test_reclaim_looks_at_other_queues_that_may_be_reclaimed() -> None:
    scenario = Scenario(queue("a", deserved={"cpu": 4}), queue("b", deserved={"cpu": 4}))
    scenario.add(queue("kept", reclaimable=False)).node("n1", cpu=4).node("n2", cpu=4)
    scenario.job("theirs", tasks=4, queue="b", on="n1", cpu=1).job("kept", tasks=4, queue="kept", on="n2", cpu=1)
    scenario.job("own", queue="a", cpu=2)
    found = why(scenario, "own", *POLICY, "capacity", actions="enqueue, allocate, reclaim").evictions
    assert found == [
        "reclaim found nobody to evict: all 4 running pods of queues that may be reclaimed are kept by gang"
    ]


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        (0, "nothing of another queue runs"),
        (1, "the one running pod of other queues is of such that may not be reclaimed"),
        (4, "all 4 running pods of other queues are of such that may not be reclaimed"),
    ],
)
def test_queues_that_may_not_be_reclaimed_are_told(tasks: int, text: str) -> None:
    scenario = Scenario(queue("a", deserved={"cpu": 4}), queue("kept", reclaimable=False)).node("n1", cpu=4)
    scenario.job("theirs", tasks=tasks, queue="kept", on="n1").job("mine", tasks=4 - tasks, queue="a", on="n1")
    scenario.job("own", queue="a", cpu=2 if tasks else 1)
    found = why(scenario, "own", *POLICY, "capacity", actions="enqueue, allocate, reclaim").evictions
    assert [line for line in found if "evicts nobody" not in line] in ([f"reclaim found nobody to evict: {text}"], [])


def test_without_an_action_that_evicts_nothing_is_said(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("web", cpu=2, on="n1").job("high", cpu=2, priority=10)
    assert why(scenario, "high", *POLICY, actions="enqueue, allocate").evictions == []


@pytest.mark.parametrize("what", ["cordoned", "affinity", "claim", "closed"])
def test_where_it_is_not_room_that_is_missing_evictions_are_no_matter(what: str) -> None:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}
    host = {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}
    scenario = Scenario(queue("default")).add(
        decode("Node", {"metadata": host, "spec": {"unschedulable": what == "cordoned"}, "status": status}),
        decode("Queue", {"metadata": {"name": "shut"}, "spec": {"weight": 1}, "status": {"state": "Closed"}}),
    )
    near = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    specs = {
        "affinity": _spec(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}),
        "claim": _spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]),
    }
    scenario.job("web", on="n1", min_available=0)
    scenario.job("high", priority=10, queue="shut" if what == "closed" else "default", spec=specs.get(what))
    assert why(scenario, "high", *POLICY, "proportion", actions="enqueue, allocate, preempt").evictions == []


def test_in_a_large_cluster_some_nodes_are_looked_at_and_the_line_says_so(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_evictions, "_NODES", 2)
    for n in range(5):
        scenario.node(f"n{n}", cpu=2).job(f"gang{n}", tasks=2, on=f"n{n}")
    scenario.job("high", cpu=2, priority=10)
    (line,) = why(scenario, "high", *POLICY, actions="enqueue, allocate, preempt").evictions
    whom = "all 4 running pods of queue default on 2 of 5 nodes"
    assert line == f"preempt found nobody to evict: {whom} are kept by gang"
