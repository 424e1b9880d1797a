"""Times that outlive a scheduler: when a job started, lost pods and became stale is written on its PodGroup."""

from __future__ import annotations

from typing import Any

from kai_cases import cluster, job, node, queue
from pumice_conformance.cases import Case
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.intents import StatusUpdate
from pumice.scheduler.cycle import run_cycle

NOW = "2026-01-01T00:00:00Z"
STARTED, EVICTED, STALE = (
    f"kai.scheduler/{name}-timestamp" for name in ("last-start", "last-eviction", "stale-podgroup")
)


def written(case: Case) -> dict[str, list[dict[str, str | None]]]:
    """PodGroup -> what a cycle has written on it, write by write."""
    state = state_of(case, case.data["objects"])
    found: dict[str, list[dict[str, str | None]]] = {}
    for intent in run_cycle(state, prepare(case, default_registry()), Runtime()).intents:
        if isinstance(intent, StatusUpdate) and intent.annotations:
            assert intent.kind == "PodGroup"
            found.setdefault(intent.key.removeprefix("default/"), []).append(intent.annotations)
    return found


def test_a_job_that_starts_says_since_when_it_runs() -> None:
    case = cluster(node("n1", gpu=2), queue("q"), job("gang", "q", pods=2), job("late", "q", minute=1))
    assert written(case) == {"gang": [{STARTED: NOW}]}


def test_a_job_that_grows_started_before() -> None:
    notes = {STARTED: "2025-12-31T23:00:00Z"}
    grows = job("wide", "q", on=("n1",), pods=3, least=1, notes=notes)
    assert written(cluster(node("n1", gpu=3), queue("q"), grows)) == {}


def test_a_job_that_loses_pods_says_when_once_however_many() -> None:
    case = cluster(
        *(node("n1", gpu=3), queue("a"), queue("b", quota=3)),
        *(job("gang", "a", on=("n1",) * 3, pods=3), job("claims", "b", gpu="3", minute=1)),
    )
    assert written(case) == {"gang": [{EVICTED: NOW}]}


def stale_gang(**more: Any) -> Case:
    return cluster(
        node("n1", gpu=2),
        queue("q"),
        job("gang", "q", on=("n1",), pods=1, least=2, **more),
        globalDefaultStalenessGracePeriod="60s",
    )


def test_a_gang_that_lost_a_member_says_since_when_and_no_more_once_it_has_said_so() -> None:
    assert written(stale_gang()) == {"gang": [{STALE: NOW}]}
    assert written(stale_gang(notes={STALE: "2025-12-31T23:59:30Z"})) == {}


def test_a_gang_that_is_whole_again_says_it_no_more() -> None:
    whole = job("gang", "q", on=("n1", "n1"), pods=2, notes={STALE: "2025-12-31T23:59:30Z"})
    assert written(cluster(node("n1", gpu=2), queue("q"), whole)) == {"gang": [{STALE: None}]}


def test_a_stale_gang_is_evicted_by_what_its_group_says_not_by_what_was_seen() -> None:
    case = stale_gang(notes={STALE: "2025-12-31T23:58:00Z"})
    state = state_of(case, case.data["objects"])
    assert list(run_cycle(state, prepare(case, default_registry()), Runtime()).evictions) == ["default/gang-0"]


def test_groups_of_others_are_left_alone() -> None:
    made = job("gang", "q")
    made["podGroups"][0]["apiVersion"] = "scheduling.volcano.sh/v1beta1"
    del made["podGroups"][0]["spec"]["priorityClassName"]
    assert written(cluster(node("n1", gpu=1), queue("q"), made)) == {}
