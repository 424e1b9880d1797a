"""A cycle that fails, at whatever moment, leaves nothing half applied, and the next decides as if it had not been."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from pumice import Plugin
from pumice.framework.points.handlers import Binds
from pumice.framework.session.outcome import Outcome
from pumice.framework.session.pending_queue import PendingQueue
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.task import Task
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import Scenario

MOMENTS: list[tuple[type, str]] = [
    (ClusterState, "move"),
    (ClusterState, "place_many"),
    (ClusterState, "confirm"),
    (ClusterState, "confirm_many"),
    (ClusterState, "assume"),
    (ClusterState, "set_phase"),
    (ClusterState, "end_session"),
    (PendingQueue, "cursors"),
    (Session, "close_plugins"),
    (Binds, "binder_of"),
    (Outcome, "settle"),
    (Outcome, "undo"),
    (Statement, "commit"),
    (Statement, "discard"),
]
"""What a cycle does: it is broken off before each, at every time that it is done."""


class Broken(Exception):
    pass


class Bomb:
    """Goes off at the nth call within a cycle, once."""

    def __init__(self, at: int, kind: type[BaseException]) -> None:
        self.left, self.kind, self.armed = at, kind, False

    def cycle(self, *args: Any, **named: Any) -> Any:
        self.armed = True
        try:
            return run_cycle(*args, **named)
        finally:
            self.armed = False

    def around(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self.left -= self.armed
            if self.armed and self.left == 0:
                raise self.kind("in mid-air")
            return fn(*args, **named)

        return call


def busy() -> Scenario:
    """Gangs and single tasks to place, one of which half fits, one that preempts, one that does not fit, GPUs."""
    s = Scenario()
    s.node("n0", cpu=5, gpu=3).node("n1", cpu=8).node("n2", cpu=1, resources={"example.com/link": 1})
    s.job("half", tasks=2, min_available=1, cpu=0, resources={"example.com/link": 1})
    s.job("runs", tasks=4, cpu=2, on="n1", priority=1, min_available=1, preemptible=True)
    s.job("a", tasks=3, cpu=1)
    s.job("g", tasks=2, cpu=1, gpu=1)
    s.job("one", cpu=1)
    s.job("card", cpu=0, gpu=1)
    s.job("high", tasks=1, cpu=6, priority=100)
    s.job("never", tasks=2, cpu=64)
    return s


OPTIONS: dict[str, Any] = {
    "actions": ["enqueue", "allocate", "preempt", "backfill"],
    "plugins": [["priority", "gang", "conformance"], ["drf", "predicates", "proportion", "nodeorder"]],
}


def told(state: ClusterState) -> dict[str, Any]:
    """Everything that a session may not leave changed."""
    table = state.table
    columns = {
        name: getattr(table, name)[:, : table.size].tolist()
        for name in ("idle", "used", "releasing", "pipelined", "evicted")
    }
    jobs = {
        uid: (
            [sorted(by) for by in job._by_status],
            *(
                _sum(s)
                for s in (job.allocated.amounts, job.held.amounts, job.pending.amounts, job.total_request.amounts)
            ),
        )
        for uid, job in state.jobs.items()
    }
    queues = {n: [_sum(s.amounts) for s in (q.allocated, q.held, q.pending)] for n, q in state.queues.items()}
    tasks = {t.key: (t.status.name, t.node_name, t.evicted) for t in state.tasks.values()}
    pods = np.asarray(table.pod_count[: table.size]).tolist()
    used = _sum(state.used_total)
    return {**columns, "jobs": jobs, "queues": queues, "tasks": tasks, "assumed": sorted(state.assumed)} | {
        "rooms": sorted(state.rooms),
        "pods": pods,
        "used_total": used,
    }


def _sum(sums: Mapping[int, Any]) -> dict[int, Any]:
    return {d: v for d, v in sums.items() if v}


def decided(s: Scenario) -> tuple[Any, ...]:
    cycle = s.run(**OPTIONS)
    return cycle.binds, sorted(cycle.evictions), sorted(t.key for t in s.state.assumed.values())


@pytest.mark.parametrize("kind", [Broken, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize(("where", "what"), MOMENTS, ids=[f"{c.__name__}.{n}" for c, n in MOMENTS])
@pytest.mark.part(4)
def test_a_cycle_that_is_broken_off_leaves_nothing_half_applied(
    monkeypatch: pytest.MonkeyPatch, where: type, what: str, kind: type[BaseException]
) -> None:
    whole = decided(busy())
    assert whole[0]
    assert whole[1]
    original = getattr(where, what)
    step = 1 if kind is Broken else 7
    for at in range(1, 1000, step):
        s = busy()
        before = told(s.state)
        bomb = Bomb(at, kind)
        monkeypatch.setattr(where, what, bomb.around(original))
        monkeypatch.setattr("pumice.testing.scenario.run_cycle", bomb.cycle)
        try:
            s.run(**OPTIONS)
        except kind:
            pass
        finally:
            monkeypatch.undo()
        if bomb.left > 0:
            assert at > 1, f"{what} is never called: nothing was tried"
            return
        assert told(s.state) == before, f"broken off before call {at} of {what}"
        assert violations(s.state) == []
        assert decided(s) == whole, f"broken off before call {at} of {what}"
    pytest.fail(f"{what} is called more than a thousand times")


class Boom(Plugin):
    """Objects to the second bind by an exception, as a plugin with a mistake does."""

    name = "boom"
    closed = 0

    def on_session_open(self, ssn: Session) -> None:
        calls: list[str] = []

        def choices(task: Task) -> tuple[()]:
            calls.append(task.key)
            if len(calls) == 2:
                raise ValueError("boom")
            return ()

        ssn.prepare_binds(choices)

    def on_session_close(self, ssn: Session) -> None:
        type(self).closed += 1


def test_a_gang_of_which_one_bind_cannot_be_prepared_is_placed_whole_by_the_next_cycle() -> None:
    s = Scenario()
    s.node("n1", cpu=8).job("a", tasks=3, cpu=1)
    Boom.closed = 0
    first = s.run(actions=["enqueue", "allocate"], plugins=["gang", Boom])
    assert first.binds == {}
    assert first.why("a").text == "the bind could not be prepared: ValueError: boom"
    assert Boom.closed == 1, "every plugin that was opened was closed"
    assert not s.state.assumed
    cycle = s.run(actions=["enqueue", "allocate"], plugins=["gang"])
    assert set(cycle.binds) == {"default/a-0", "default/a-1", "default/a-2"}


class Told(Plugin):
    """Counts what it is told."""

    name = "told"
    opened = closed = 0

    def on_session_open(self, ssn: Session) -> None:
        Told.opened += not ssn.describes  # plugins are opened once more when they are loaded

    def on_session_close(self, ssn: Session) -> None:
        Told.closed += 1


@pytest.mark.parametrize("where", [(Statement, "commit"), (Session, "close_plugins"), (Outcome, "settle")])
def test_every_plugin_that_was_opened_is_closed_once_whenever_the_cycle_is_broken_off(
    monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    bomb = Bomb(1, Broken)

    def cycle(*args: Any, **named: Any) -> Any:
        Told.opened = Told.closed = 0  # plugins are tried before, when they are loaded
        return bomb.cycle(*args, **named)

    monkeypatch.setattr(*where, bomb.around(getattr(*where)))
    monkeypatch.setattr("pumice.testing.scenario.run_cycle", cycle)
    with pytest.raises(Broken):
        busy().run(actions=["enqueue", "allocate"], plugins=["gang", Told])
    assert (Told.opened, Told.closed) == (1, 1)
