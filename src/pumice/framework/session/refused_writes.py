"""What a session makes of binds and evictions that the cluster refused.

The rest of their plan was not carried out. Room that the plan did free stays with those it was freed for; a nomination
for a node on which nothing was freed is taken back. A job whose bind was refused is not placed for a while. The refusal
is told to people, and stands as a reason until it is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pumice.framework.session.nominations import end_nomination
from pumice.framework.session.outcome import Stage
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.job import Job
from pumice.model.reason import reject
from pumice.model.status import TaskStatus
from pumice.state.assumed import FORGOTTEN_AFTER, RefusedWrite, Stopped
from pumice.words import without_name

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

_EVENTS: Final = {
    ReasonCode.BIND_REFUSED: ReasonCode.FAILED_BINDING,
    ReasonCode.PLAN_REFUSED: ReasonCode.EVICTION_REFUSED,
    ReasonCode.SET_ASIDE: ReasonCode.SET_ASIDE,
}
_WAITS_FOR_A_NODE: Final = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING)


def learn_refusals(ssn: Session) -> None:
    """Look at every refusal once, before rooms are held; forget old ones."""
    state, refused = ssn.state, ssn.state.refused
    fresh = {uid: no for uid, no in refused.items() if no.fresh}
    for no in fresh.values():
        no.fresh = False
    _take_back_nominations(ssn, {uid: no for uid, no in fresh.items() if not no.bind})
    for uid, no in list(refused.items()):
        task = state.tasks.get(uid)
        over = no.bind and (task is None or task.status not in _WAITS_FOR_A_NODE)
        over |= no.failed and no.beneficiary not in state.jobs
        if over or not no.wait or ssn.state.now > no.until + FORGOTTEN_AFTER:
            del refused[uid]
    standing: dict[str, list[RefusedWrite]] = {}
    for no in sorted(refused.values(), key=lambda no: no.pod):
        if ssn.state.now < no.until:
            ssn.wake_at(no.until)
            standing.setdefault(no.beneficiary, []).append(no)
    before, state.stopped = (
        set(state.stopped),
        {job: Stopped(_text(found), _code(found)) for job, found in standing.items()},
    )
    for uid in sorted({*before, *state.stopped} & state.jobs.keys()):
        job, stopped = state.jobs[uid], state.stopped.get(uid)
        why = stopped.text if stopped is not None and stopped.code is ReasonCode.SET_ASIDE else ""
        if job.left_out != why:
            state.leave_out(job, why)
        if why:
            ssn.outcome.refuse(job, Stage.REFUSED, reject(why, ReasonCode.SET_ASIDE))
    for uid in sorted({no.beneficiary for no in fresh.values() if no.beneficiary in state.stopped}):
        if uid in ssn.jobs:
            stopped = state.stopped[uid]
            ssn.outcome.intents.append(Note(ssn.jobs[uid].kind, uid, "Warning", _EVENTS[stopped.code], stopped.text))


def _take_back_nominations(ssn: Session, fresh: dict[str, RefusedWrite]) -> None:
    kept: dict[tuple[str, str], bool] = {}
    for no in fresh.values():
        place = (no.beneficiary, no.node)
        kept[place] = kept.get(place, False) or no.freed
    nominations = ssn.runtime.nominations
    for uid in sorted(nominations):
        task = ssn.state.tasks.get(uid)
        if task is not None and not kept.get((task.job_key, nominations[uid].node), True):
            end_nomination(ssn, task)


def refusal_for(ssn: Session, job: Job) -> str:
    """Why the last plan or bind for a job was stopped, in words; nothing if none was, or it may be tried again."""
    stopped = ssn.state.stopped.get(job.uid)
    return stopped.text if stopped is not None else ""


def _code(standing: list[RefusedWrite]) -> ReasonCode:
    """What stands in the way of the job, the worst first."""
    if any(no.failed for no in standing):
        return ReasonCode.SET_ASIDE
    return ReasonCode.BIND_REFUSED if any(no.bind for no in standing) else ReasonCode.PLAN_REFUSED


def _text(standing: list[RefusedWrite]) -> str:
    """What was refused, each reason once; it says the same as long as the same writes are refused."""
    if failed := [no.message for no in standing if no.failed]:
        return failed[0]
    told: dict[tuple[bool, str], list[RefusedWrite]] = {}
    for no in standing:
        told.setdefault((no.bind, without_name(no.message, no.pod.rpartition("/")[2])), []).append(no)
    parts = []
    for (bind, _), same in told.items():
        others = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        parts.append(f"the {'bind' if bind else 'eviction'} of {same[0].pod}{others} was refused: {same[0].message}")
    return "; ".join(parts)
