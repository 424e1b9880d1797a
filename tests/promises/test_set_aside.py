"""Whatever fails while a cycle works on a job is that job's alone: it is set aside, and all others are served.

Every function of ours that is given the job, or one of its tasks, within a cycle is found by tracing one, and made to
fail in a cycle of its own.
"""

from __future__ import annotations

import logging
import sys
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

import pytest

from pumice import Plugin
from pumice.framework.session.statement import Statement
from pumice.kube.statuses import PodConditions
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note, StatusUpdate
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.scheduler import attribution, cycle
from pumice.state.invariants import violations
from pumice.testing import Cycle, Scenario

VOLCANO: dict[str, Any] = {
    "actions": "enqueue, allocate, preempt, reclaim, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": n} for n in ("drf", "predicates", "proportion", "nodeorder", "binpack")]},
    ],
}
KAI: dict[str, Any] = {
    "dialect": "kai",
    "actions": "allocate, consolidation, reclaim, preempt, stalegangeviction",
    "tiers": [
        {"plugins": [{"name": n} for n in ("predicates", "proportion", "priority", "elastic", "nodeplacement")]},
    ],
}
BOOKS = {
    "pumice.framework.session.pending_queue.waits_for_room",
    "pumice.framework.session.outcome.status_of",
    "pumice.kai.view.jobs.JobView.ready",
    "pumice.model.job.TaskGroup.counts",
    "pumice.model.job.TaskGroup.with_status",
    "pumice.state.cluster.ClusterState.leave_out",
    "pumice.state.cluster.ClusterState.mark",
    "pumice.state.cluster.ClusterState.note_admission",
    "pumice.state.cluster.ClusterState.recontribute",
    "pumice.state.ledger.of_queue",
    "pumice.state.ledger._add_move",
    "pumice.state.ledger._add_sums",
    "pumice.state.ledger._count_many",
    "pumice.state.ledger._list_pending",
    "pumice.state.ledger.count",
}
"""Functions that keep the books of every job, also of one that is set aside: a few lines that compare and add."""
_RUN = cycle._run


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a cycle may set jobs aside."""
    monkeypatch.setattr(attribution, "MOST", 20)


class Tracer:
    """Looks at every call within cycles, and fails where it is told to.

    *code*: the function that fails whenever it is given the bad job; without one the functions are collected.
    """

    def __init__(self, code: CodeType | None = None) -> None:
        self.code = code
        self.found: dict[CodeType, str] = {}
        self.failed = 0

    def run(self, *args: Any, **named: Any) -> Any:
        sys.settrace(self._trace)
        try:
            return _RUN(*args, **named)
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event != "call" or (self.code is not None and code is not self.code) or not about(frame, "bad"):
            return
        self.found.setdefault(code, f"{frame.f_globals['__name__']}.{code.co_qualname}")
        if self.code is not None:
            self.failed += 1
            raise RecursionError("too deep")


def about(frame: FrameType, name: str) -> bool:
    """Report whether a function of ours was given the job of that name, or a part of it."""
    code = frame.f_code
    if not frame.f_globals.get("__name__", "").startswith("pumice."):
        return False
    values = (frame.f_locals.get(n) for n in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return any((job := attribution._job_of(value)) is not None and job.name == name for value in values)


def cluster() -> Scenario:
    """A bad gang that waits, and good ones: one to place, one for which others are evicted."""
    s = Scenario()
    s.queue("default", weight=1).queue("other", weight=1)
    s.node("n0", cpu=8).node("n1", cpu=4)
    s.job("runs", tasks=4, cpu=1, on="n1", priority=1, min_available=1, preemptible=True)
    s.job("bad", tasks=3, min_available=2, cpu=1)
    s.job("good", tasks=2, cpu=1)
    s.job("high", tasks=1, cpu=3, priority=90, queue="other")
    return s


def run(conf: dict[str, Any], tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> tuple[Scenario, Cycle]:
    monkeypatch.setattr(cycle, "_run", tracer.run)
    s = cluster()
    return s, s.run(conf=conf)


@pytest.mark.parametrize("conf", [VOLCANO, KAI], ids=["volcano", "kai"])
def test_a_job_at_which_a_cycle_fails_costs_no_other_job_its_place(
    conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "pumice")
    found = Tracer()
    run(conf, found, monkeypatch)
    assert len(found.found) > 90
    wrong = []
    for code, name in found.found.items():
        if name in BOOKS:
            continue
        failing = Tracer(code)
        try:
            s, done = run(conf, failing, monkeypatch)
        except Exception as exc:
            wrong.append(f"{name}: the cycle failed: {exc!r}")
            continue
        assert failing.failed, name
        placed = {"default/good-0", "default/good-1", "default/high-0"} <= set(done.binds)
        told = any(error.startswith("job default/bad: ") for error in done.errors)
        if not placed or not told or any(pod.startswith("default/bad") for pod in done.binds) or violations(s.state):
            wrong.append(f"{name}: {sorted(done.binds)}, {done.errors}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("conf", [VOLCANO, KAI], ids=["volcano", "kai"])
def test_a_job_that_is_set_aside_says_so_and_is_tried_again_later_and_later(
    conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    s = cluster()

    def fails(self: Any, kind: Any, task: Task, *args: Any, **named: Any) -> str:
        if task.job.name == "bad":
            tried.append(s.state.now)
            raise ValueError("no such thing")
        return works(self, kind, task, *args, **named)

    works = Statement._place
    monkeypatch.setattr(Statement, "_place", fails)
    s.run(conf=conf)
    text = "the scheduler failed while it worked on this job (ValueError: no such thing); the job is left out for 10 s"
    said = PodConditions().updates(s.last.report, s.state)
    if conf is VOLCANO:
        groups = [u for u in s.last.updates if isinstance(u, StatusUpdate) and u.key == "default/bad"]
        assert text in str(groups)
    assert [u.status["conditions"][0]["message"] for u in said if u.key.startswith("default/bad-")] == [text] * 3
    assert [n.message for n in s.last.updates if isinstance(n, Note) and n.reason is ReasonCode.SET_ASIDE] == [text]
    assert s.last.why("bad").text.startswith("the scheduler failed")
    for _ in range(1500):
        s.advance(1).run()
    assert [b - a for a, b in pairwise(sorted(set(tried)))] == [10, 20, 40, 80, 160, 300, 300, 300]
    monkeypatch.setattr(Statement, "_place", works)
    s.advance(300).run()
    s.assert_bound("bad")
    s.assert_invariants()


def test_a_plugin_of_another_author_that_fails_blames_no_job() -> None:
    class Odd(Plugin):
        name = "odd"

        def predicate(self, task: Task, node: Node) -> None:
            raise ValueError("never works")

    s = cluster()
    done = s.run(plugins=["gang", Odd])
    assert not s.state.refused
    assert done.errors
    assert not any(error.startswith("job ") for error in done.errors)


def test_more_failures_than_a_cycle_sets_aside_end_the_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Scenario()
    s.node("n0", cpu=100)
    for n in range(attribution.MOST + 1):
        s.job(f"bad{n}", cpu=1)

    def fails(self: Any, kind: Any, task: Task, *_: Any, **__: Any) -> str:
        raise ValueError("always")

    monkeypatch.setattr(Statement, "_place", fails)
    with pytest.raises(ValueError, match="always"):
        s.run()
    assert len(s.state.refused) == attribution.MOST
    s.run()
    assert len(s.state.refused) == attribution.MOST + 1
