"""One scheduling cycle on one page: start reading here.

Events were applied to the state; a session opens on it, the plugins register, the actions ask and place, statements
commit into intents, and the session closes: phases and conditions are settled, what was not committed is undone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

from pumice.errors import ActionError, InvalidInput, words_of
from pumice.framework.points.guard import FAILS, author_line, let_pass
from pumice.framework.session.rounds import copied
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session, Shard
from pumice.model.status import TaskStatus
from pumice.scheduler import attribution
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.report import CycleReport
from pumice.scheduler.standstill import Standstill, somebody_waits, standstill_after
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
) -> CycleReport:
    """Run every action once on the state as it is; returns what was decided.

    *details*: also count every job's tasks by status, and look at everybody who waits (costs a look at every job).
    *tells*: also say what becomes of the statuses and metrics of jobs that changed; a dry cycle need not.
    *inspect* is shown the session when everything is decided and nothing undone yet; it must only read. The garbage
    collector rests meanwhile: a cycle makes no cyclic garbage, and passes over a big state cost more than they free. A
    cycle without *details* that would decide what the last one did is not run (`standstill.py`): then there is no
    session to be shown.

    Whatever is raised within, nothing is left half applied: what was decided until then is taken back. If it was raised
    while the cycle worked on a job, the job is set aside for a while, and the cycle runs again without it.
    """
    standing: Standstill | None = runtime.standing
    runtime.standing = None
    if standing is not None and not details and standing.lasts(state, assembly, shard, environment):
        runtime.standing = standing
        runtime.cycle += 1
        return standing.again(state.now)
    collects = gc.isenabled()
    gc.disable()
    told: list[str] = []

    def blames_job(exc: BaseException) -> bool:
        return len(told) < attribution.MOST and attribution.job_to_blame(state, exc) is not None

    try:
        while True:
            try:
                report = _run(state, assembly, runtime, shard, environment, details, tells, inspect, blames_job)
            except FAILS as exc:
                let_pass(exc)
                if not blames_job(exc):
                    raise
                told.append(attribution.set_aside(state, exc))
            else:
                report.errors += told
                return report
    finally:
        if collects:
            gc.enable()


def _run(
    state: ClusterState,
    assembly: Assembly,
    runtime: Runtime,
    shard: Shard | None,
    environment: Mapping[str, Any] | None,
    details: bool,
    tells: bool,
    inspect: Callable[[Session], None] | None,
    blames_job: Callable[[BaseException], bool],
) -> CycleReport:
    started = time.perf_counter()
    began = state.moment
    session = runtime.take_opened(state, assembly)
    if session is not None:
        session.again(shard, environment, thorough=details, tells=tells)
    else:
        session = Session(
            state,
            tiers=assembly.tiers(),
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
    session.failures.blames_job = blames_job
    sent, nominations, turns = sent_of(state), dict(runtime.nominations), copied(runtime.turns)
    refused = refused_of(state)
    try:
        session.open()
        session.timings["cycle", "open"] = time.perf_counter() - started
        _act(session, assembly)
        pipelined = _pipelined(session)
        statuses = _statuses(session) if details else {}
        if inspect is not None:
            inspect(session)
        begun = time.perf_counter()
        session.close()
    except BaseException:
        session.failures.blames_job = lambda exc: False
        session.break_off()
        take_back(state, sent)
        put_back(state, refused)
        runtime.nominations, runtime.turns = nominations, turns
        runtime.drop_kept()
        state.admission_changes = None
        session.retire()
        raise
    session.timings["cycle", "close"] = time.perf_counter() - begun
    session.timings["cycle", "total"] = time.perf_counter() - started
    report = CycleReport(
        now=state.now,
        conf_digest=assembly.conf.digest,
        intents=session.outcome.intents,
        refusals=session.outcome.refusals,
        fit_errors=session.outcome.fit_errors,
        pipelined=pipelined,
        statuses=statuses,
        phases={uid: job.phase for uid, job in state.session_jobs.items()} if details else {},
        timings=session.timings,
        warnings=session.warnings,
        errors=[str(e) for e in session.errors],
        gauges=session.metrics.gauges or {},
        counters=session.metrics.counters or {},
        histograms=session.metrics.histograms or {},
    )
    if session.rest():
        runtime.opened = state, assembly, session
        runtime.standing = standstill_after(session, assembly, report, began)
    else:
        session.retire()
    return report


def _act(session: Session, assembly: Assembly) -> None:
    """Let every action do what it has to; those for who waits only where somebody does."""
    waits = somebody_waits(session.state)
    timed = session.runtime.metered
    for action in assembly.actions:
        if action.for_waiting and not waits:
            continue
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
        if not timed:
            continue
        session.timings["action", action.name] = time.perf_counter() - begun
    session.acting = None


def _pipelined(session: Session) -> dict[str, dict[str, str]]:
    waiting: dict[str, dict[str, str]] = {}
    if not (session.outcome.kept or session.outcome.promises):
        return waiting
    operations = [op for statement in session.outcome.kept for op in statement.operations] + session.outcome.promises
    for op in operations:
        task = op.task
        if task.status is TaskStatus.PIPELINED:
            waiting.setdefault(task.job_key, {})[task.key] = task.node_name
    return waiting


def _statuses(session: Session) -> dict[str, dict[str, int]]:
    return {
        uid: {s.title: len(job.with_status(s)) for s in TaskStatus if job.with_status(s)}
        for uid, job in session.jobs.items()
    }
