"""One scheduling cycle on one page: start reading here.

The events are in the state before a cycle begins. The intents that it returns are carried out after it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pumice.errors import ActionError, InvalidInput, OutOfTime, words_of
from pumice.framework.points.guard import FAILS, author_line, let_pass
from pumice.framework.session.rounds import copied
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session, Shard
from pumice.model.status import TaskStatus
from pumice.scheduler import attribution
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.report import CycleReport, LastCycle, last_cycle
from pumice.state.assumed import put_back, refused_of, sent_of, take_back
from pumice.state.cluster import ClusterState


def run_cycle(
    state: ClusterState,
    assembly: Assembly,
    runtime: Runtime,
    *,
    shard: Shard | None = None,
    environment: Mapping[str, Any] | None = None,
    details: bool = False,
    tells: bool = True,
    inspect: Callable[[Session], None] | None = None,
    until: float = 0.0,
) -> CycleReport:
    """Run every action once on the state as it is; return what was decided.

    *details*: also count every job's tasks by status, and look at every pending job (costs a look at every job).
    *tells*: also say what becomes of the statuses and metrics of jobs that changed; a dry cycle need not.
    *inspect* is shown the session when everything is decided and nothing undone yet; it must only read. It is not
    called where the report of the last cycle is returned; with *details* the cycle is always run.
    *until*: when the cycle is given up, on the monotonic clock; 0: never.

    Whatever is raised within, nothing is left half applied: what was decided until then is taken back. If it was raised
    while the cycle worked on a job, the job is set aside for a while, and the cycle runs again without it.
    """
    last: LastCycle | None = runtime.last_cycle
    if last is not None and not details and last.is_current(state, assembly, shard, environment):
        runtime.cycle += 1
        return last.report_at(state.now)
    runtime.last_cycle = None
    set_aside: list[str] = []

    def blames_job(exc: BaseException) -> bool:
        found = not isinstance(exc, OutOfTime) and attribution.job_to_blame(state, exc) is not None
        return found and len(set_aside) < attribution.MOST

    with _without_collector():
        while True:
            session = _session(state, assembly, runtime, shard, environment, details=details, tells=tells)
            session.failures.blames_job, session.failures.until = blames_job, until
            try:
                report = _run(session, assembly, inspect, details=details)
            except FAILS as exc:
                let_pass(exc)
                if not blames_job(exc):
                    raise
                set_aside.append(attribution.set_aside(state, exc))
            else:
                break
    if set_aside:
        report.errors += set_aside
        runtime.last_cycle = None
    return report


def _run(
    session: Session, assembly: Assembly, inspect: Callable[[Session], None] | None, *, details: bool
) -> CycleReport:
    """Run one cycle in a session that is not open yet; undo everything if anything is raised."""
    state, runtime, timings, started = session.state, session.runtime, session.timings, time.perf_counter()
    revision, before = state.revision, _Before(state, runtime)
    try:
        # 1. Open the plugins: they register what they answer.
        session.open()
        timings["cycle", "open"] = time.perf_counter() - started
        # 2. Let every action ask and place. A statement that is committed becomes intents.
        _act(session, assembly)
        pipelined, statuses = _pipelined(session), _statuses(session) if details else {}
        if inspect is not None:
            inspect(session)
        # 3. Close: settle phases and conditions, undo what was not committed.
        begun = time.perf_counter()
        session.close()
    except BaseException:
        session.failures.blames_job = lambda exc: False
        session.break_off()
        before.restore()
        session.release()
        raise
    timings["cycle", "close"] = time.perf_counter() - begun
    timings["cycle", "total"] = time.perf_counter() - started
    # 4. Report what was decided, and keep the report if the cycle left the state as it was.
    report = _report(session, assembly, pipelined, statuses, details=details)
    runtime.last_cycle = last_cycle(session, assembly, report, revision)
    runtime.took = timings["cycle", "total"]
    session.release()
    return report


@contextmanager
def _without_collector() -> Iterator[None]:
    """Switch the garbage collector off: a cycle makes no cyclic garbage, and passes over a big state cost much."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Before:
    """The state that a cycle may change, as it was before."""

    def __init__(self, state: ClusterState, runtime: Runtime) -> None:
        self._state, self._runtime = state, runtime
        self._sent, self._refused = sent_of(state), refused_of(state)
        self._nominations, self._turns = dict(runtime.nominations), copied(runtime.turns)
        self._losses = dict(runtime.losses)

    def restore(self) -> None:
        """Undo whatever the cycle did, and forget what was derived from it."""
        take_back(self._state, self._sent)
        put_back(self._state, self._refused)
        self._runtime.nominations, self._runtime.turns = self._nominations, self._turns
        self._runtime.losses = self._losses
        self._runtime.drop_kept()
        self._state.admission_changes = None


def _session(
    state: ClusterState,
    assembly: Assembly,
    runtime: Runtime,
    shard: Shard | None,
    environment: Mapping[str, Any] | None,
    *,
    details: bool,
    tells: bool,
) -> Session:
    """Return a session that is not open yet."""
    return Session(
        state,
        tiers=runtime.tiers_of(state, assembly),
        actions=assembly.conf.actions,
        action_arguments=assembly.action_arguments,
        compat=assembly.compat,
        runtime=runtime,
        shard=shard,
        signature=assembly.conf.digest,
        environment=environment,
        thorough=details,
        tells=tells,
        ours=assembly.ours,
    )


def _act(session: Session, assembly: Assembly) -> None:
    """Execute the actions in order. An error that is not ours names the action and the author's line."""
    timed = session.runtime.metered
    for action in assembly.actions:
        session.acting = action
        begun = time.perf_counter() if timed else 0.0
        try:
            action.execute(session)
        except FAILS as exc:
            let_pass(exc)
            if isinstance(exc, InvalidInput) or type(action).__module__.startswith("pumice."):
                raise
            line = author_line(exc, type(action).execute)
            raise ActionError(action.name, f"{type(exc).__name__}: {words_of(exc)}", line) from exc
        if timed:
            session.timings["action", action.name] = time.perf_counter() - begun
    session.acting = None


def _report(
    session: Session,
    assembly: Assembly,
    pipelined: dict[str, dict[str, str]],
    statuses: dict[str, dict[str, int]],
    *,
    details: bool,
) -> CycleReport:
    """Return what a closed session decided."""
    state, outcome, metrics = session.state, session.outcome, session.metrics
    return CycleReport(
        now=state.now,
        conf_digest=assembly.conf.digest,
        intents=outcome.intents,
        refusals=outcome.refusals,
        fit_errors=outcome.fit_errors,
        pipelined=pipelined,
        statuses=statuses,
        phases={uid: job.phase for uid, job in state.session_jobs.items()} if details else {},
        timings=session.timings,
        warnings=session.warnings,
        errors=[str(e) for e in session.errors],
        gauges=metrics.gauges or {},
        counters=metrics.counters or {},
        histograms=metrics.histograms or {},
    )


def _pipelined(session: Session) -> dict[str, dict[str, str]]:
    """Job -> pod -> node, for tasks that wait for room that is being released."""
    found: dict[str, dict[str, str]] = {}
    if not (session.outcome.kept or session.outcome.promises):
        return found
    operations = [op for statement in session.outcome.kept for op in statement.operations] + session.outcome.promises
    for op in operations:
        task = op.task
        if task.status is TaskStatus.PIPELINED:
            found.setdefault(task.job_key, {})[task.key] = task.node_name
    return found


def _statuses(session: Session) -> dict[str, dict[str, int]]:
    """Job -> status -> how many of its tasks."""
    return {
        uid: {s.title: len(job.with_status(s)) for s in TaskStatus if job.with_status(s)}
        for uid, job in session.jobs.items()
    }
