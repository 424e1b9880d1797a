"""The job at which a cycle failed: found on the stack of the exception, and set aside for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from traceback import walk_tb
from typing import Any

from pumice.errors import words_of
from pumice.model.job import Job
from pumice.state.assumed import ASIDE, JOB_KEY, RefusedWrite, next_wait
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.scheduler")
MOST = 20
"""Jobs that one cycle sets aside at most: each costs a run of the cycle. More wait for the next cycle, which fails."""


def job_to_blame(state: ClusterState, exc: BaseException) -> Job | None:
    """Return the job that was worked on when *exc* was raised; jobs that are set aside already do not count."""
    for job in _jobs_on_stack(exc):
        known = state.refused.get(JOB_KEY + job.uid)
        if state.jobs.get(job.uid) is job and (known is None or state.now >= known.until):
            return job
    return None


def set_aside(state: ClusterState, exc: BaseException) -> str:
    """Leave the job to blame for *exc* out for a while; returns the message about it."""
    job = job_to_blame(state, exc)
    assert job is not None
    known = state.refused.get(JOB_KEY + job.uid)
    wait = next_wait(known, ASIDE)
    why = f"{type(exc).__name__}: {words_of(exc)}"
    text = f"the scheduler failed while it worked on this job ({why}); the job is left out for {wait:.0f} s"
    state.refused[JOB_KEY + job.uid] = RefusedWrite("", "", job.uid, text, wait, state.now + wait, failed=True)
    log.error("job %s: %s", job.uid, text, exc_info=exc if known is None else None)
    return f"job {job.uid}: {text}"


def _jobs_on_stack(exc: BaseException) -> Iterator[Job]:
    """The jobs in the frames of an exception and of its causes: innermost frame first, parameters before variables."""
    if exc.__cause__ is not None:
        yield from _jobs_on_stack(exc.__cause__)
    frames = [frame for frame, _ in walk_tb(exc.__traceback__)]
    for frame in reversed(frames):
        code, values = frame.f_code, frame.f_locals
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name in (*parameters, *(name for name in values if name not in parameters)):
            job = _job_of(values.get(name))
            if job is not None:
                yield job


def _job_of(value: Any, depth: int = 3) -> Job | None:
    """The job that a value is, or is a part or a view of: a view of a task leads to the task, and that to its job."""
    if isinstance(value, Job):
        return value
    if not depth or not type(value).__module__.startswith("pumice."):
        return None
    for name in ("job", "task"):
        try:
            found = _job_of(getattr(value, name, None), depth - 1)
        except Exception:  # an object that is half made, or refuses names that it lacks
            continue
        if found is not None:
            return found
    return None
