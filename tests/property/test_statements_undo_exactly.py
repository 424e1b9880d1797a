"""After rollback or discard the state is what it was, whatever was done in between and in whatever order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from fingerprint import fingerprint
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice import Event, EventHandler, Session
from pumice.framework.session.statement import Statement, trial
from pumice.model.status import TaskStatus
from pumice.state.invariants import violations
from pumice.testing import builders, session

pytestmark = pytest.mark.law

S = TaskStatus


@dataclass(frozen=True)
class Step:
    """One operation of a script: what, on which task, on which node."""

    what: str
    task: int
    node: int


steps = st.builds(
    Step,
    what=st.sampled_from(["allocate", "pipeline", "evict", "many", "mark", "back", "undo one"]),
    task=st.integers(0, 30),
    node=st.integers(0, 5),
)


def world(placed: list[int]) -> Session:
    """Three nodes; a gang, a best-effort job, a job with GPUs and roles, and some of their tasks running."""
    names = ["node-0", "node-1", "node-2"]
    on = [names[n % 3] for n in placed]
    return session(
        builders.cluster("3x8gpu"),
        builders.queue("default"),
        builders.queue("other"),
        builders.job("gang", tasks=6, on=on[:3], memory="1Gi"),
        builders.job("empty", tasks=2, cpu=0, on=on[3:4]),
        builders.job("gpu", tasks=4, gpu=1, role="worker", queue="other", namespace="blue", on=on[4:6]),
    )


def apply(ssn: Session, statement: Statement, step: Step, marks: list[tuple[int, Any]]) -> None:
    tasks = sorted(ssn.state.tasks.values(), key=lambda t: t.uid)
    nodes = sorted(ssn.nodes.values(), key=lambda n: n.name)
    task, node = tasks[step.task % len(tasks)], nodes[step.node % len(nodes)]
    match step.what:
        case "allocate" if task.status is S.PENDING:
            statement.allocate(task, node)
        case "pipeline" if task.status is S.PENDING:
            statement.pipeline(task, node)
        case "evict" if task.status in (S.RUNNING, S.BOUND):
            statement.evict(task, "preempt")
        case "many":
            equal = [t for t in tasks if t.status is S.PENDING and t.klass is task.klass and t.job is task.job]
            if equal:
                statement.allocate_many(equal, [nodes[(step.node + n) % 3] for n in range(len(equal))])
        case "mark":
            marks.append((statement.checkpoint(), fingerprint(ssn.state)))
        case "back" if marks:
            mark, before = marks.pop()
            statement.rollback(mark)
            assert fingerprint(ssn.state) == before
        case "undo one":
            if not marks:
                statement.undo_of(task)
        case _:
            pass


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=6), st.lists(steps, max_size=25))
def test_discard_restores_the_state_exactly(placed: list[int], script: list[Step]) -> None:
    ssn = world(placed)
    before = fingerprint(ssn.state)
    statement = ssn.statement()
    marks: list[tuple[int, Any]] = []
    for step in script:
        apply(ssn, statement, step, marks)
        assert violations(ssn.state) == []
    statement.discard()
    assert fingerprint(ssn.state) == before
    assert len(statement) == 0


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=6), st.lists(steps, max_size=20), st.booleans())
def test_handlers_see_every_change_both_ways(placed: list[int], script: list[Step], many: bool) -> None:
    """What handlers add up is what the state holds, and nothing once all is taken back."""
    ssn = world(placed)
    held = {t.uid for t in ssn.state.tasks.values() if t.status in (S.RUNNING, S.BOUND)}
    start = set(held)

    def allocate(event: Event) -> None:
        assert event.task.uid not in held
        held.add(event.task.uid)

    def deallocate(event: Event) -> None:
        held.remove(event.task.uid)

    if many:
        ssn.add_event_handler(
            EventHandler(
                allocate_many=lambda tasks: held.update(t.uid for t in tasks),
                deallocate_many=lambda tasks: held.difference_update(t.uid for t in tasks),
            )
        )
    else:
        ssn.add_event_handler(EventHandler(allocate=allocate, deallocate=deallocate))
    with trial(ssn) as statement:
        for step in script:
            if step.what not in ("mark", "back"):
                apply(ssn, statement, step, [])
        now = {t.uid for t in ssn.state.tasks.values() if t.status in (S.RUNNING, S.BOUND, S.ALLOCATED, S.PIPELINED)}
        assert held == now
    assert held == start
    assert ssn.errors == []


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=6), st.lists(steps, max_size=15))
def test_what_is_kept_is_undone_when_the_session_closes(placed: list[int], script: list[Step]) -> None:
    ssn = world(placed)
    before = fingerprint(ssn.state)
    statement = ssn.statement()
    for step in script:
        if step.what not in ("mark", "back"):
            apply(ssn, statement, step, [])
    statement.keep()
    ssn.close()
    after = fingerprint(ssn.state)
    for state in (before, after):
        state["jobs"] = {uid: facts[:-1] for uid, facts in state["jobs"].items()}  # phases are settled at close
    assert after == before
    assert not any(i for i in ssn.outcome.intents if type(i).__name__ in ("Bind", "Evict"))
