"""KAI's dialect in a cluster in which only time passes: few cycles are run, and each time that matters is kept."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import ALL, cluster, conf_with, job, node, queue
from pumice_conformance.cases import Case
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.scheduler.cycle import run_cycle

STARTED = "kai.scheduler/last-start-timestamp"
NOW = "2026-01-01T00:00:00Z"


def stale(actions: str) -> Case:
    half = job("gang", "q", on=("n1",), pods=1, least=2)
    return cluster(node("n1", gpu=2), queue("q"), half, actions=actions, globalDefaultStalenessGracePeriod="60s")


def protected(actions: str) -> Case:
    """Work that is preempted by none for a minute after it started, and a job that comes before it."""
    runs = job("runs", "q", on=("n1",), notes={STARTED: NOW})
    waits = job("waits", "q", priority="build", minute=1, spec={"preemptibility": "preemptible"})
    conf = conf_with("minruntime")
    return cluster(
        node("n1", gpu=1), queue("q", quota=1, preemptMinRuntime="60s"), runs, waits, actions=actions, conf=conf
    )


def delayed(actions: str) -> Case:
    """A job for which others are preempted only 61 minutes after it was created."""
    waits = job("waits", "q", priority="build", spec={"preemptionDelay": "61m", "preemptibility": "preemptible"})
    return cluster(node("n1", gpu=1), queue("q", quota=1), job("runs", "q", on=("n1",)), waits, actions=actions)


@pytest.mark.parametrize("made", [stale, protected, delayed])
def test_an_eviction_happens_at_its_time_and_no_cycle_is_run_for_nothing(made: Any) -> None:
    case = made(ALL)
    state, runtime, assembly = state_of(case, case.data["objects"]), Runtime(), prepare(case, default_registry())
    begun, sessions = state.now, list[float]()

    def look(ssn: Session) -> None:
        sessions.append(ssn.state.now - begun)

    evictions: list[str] = []
    for _ in range(30):
        evictions = run_cycle(state, assembly, runtime, inspect=look).evictions
        if evictions:
            break
        state.now += 5
    assert len(evictions) == 1
    assert sessions[-1] == 60
    assert len(sessions) <= 3
