"""What a session tells of beside its decisions: objects that cannot be used, and writes that the cluster refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pumice.config.problems import nearest
from pumice.framework.session.nominations import end_nomination
from pumice.framework.session.outcome import Refusal, Stage
from pumice.model import native
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note, StatusUpdate
from pumice.model.reason import reject
from pumice.model.status import TaskStatus
from pumice.state.assumed import FORGOTTEN_AFTER, RefusedWrite, Stopped
from pumice.words import without_name

if TYPE_CHECKING:
    from pumice.framework.session.session import Session
    from pumice.state.cluster import ClusterState

_TOLD = "problems told"


def tell_problems(ssn: Session) -> None:
    """Write a condition on every PodGroup whose queue does not exist, and a note on every object with a problem.

    Each is written once, and again when its text changes. Cost: the objects concerned.
    """
    state = ssn.state
    said: dict[str, str] = {}
    for uid, job in state.queueless.items():
        text = said.get(job.queue) or said.setdefault(job.queue, queue_problem(state, job.queue)[0])
        ssn.outcome.refusals.add(job, Refusal(Stage.ABSENT, text, reason=ReasonCode.UNKNOWN_QUEUE))
        status = job.group.status if job.group is not None else None
        written = tuple((status.conditions if status is not None else None) or ())
        if not any(c.type == "Unschedulable" and c.message == text for c in written):
            if job.kind == native.POD_GROUP:
                fresh = native.condition(written, "False", ReasonCode.UNKNOWN_QUEUE, text)
                ssn.outcome.intents += [StatusUpdate(job.kind, uid, {"conditions": [fresh]})] if fresh else []
                continue
            condition = {"type": "Unschedulable", "status": "True", "reason": ReasonCode.UNKNOWN_QUEUE, "message": text}
            phase = (status.phase if status is not None else "") or "Pending"
            ssn.outcome.intents.append(StatusUpdate("PodGroup", uid, {"phase": phase, "conditions": [condition]}))
    told: dict[tuple[str, str], str] = ssn.runtime.kept.setdefault(_TOLD, {})
    if told != state.problems:
        for (kind, key), text in state.problems.items():
            if told.get((kind, key)) != text:
                ssn.outcome.intents.append(Note(kind, key, "Warning", ReasonCode.INVALID, text))
        ssn.runtime.kept[_TOLD] = dict(state.problems)


def queue_problem(state: ClusterState, name: str) -> tuple[str, str]:
    """Why jobs cannot be in a queue of this name, and the queue that was perhaps meant."""
    problem = state.problems.get(("Queue", name))
    if problem:
        return f"queue {name!r} cannot be used: {problem}", ""
    near = nearest(name, state.queues) or ""
    return f"queue {name!r} does not exist" + (f"; did you mean {near!r}?" if near else ""), near


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


def _code(standing: list[RefusedWrite]) -> ReasonCode:
    """The obstacles of the job, the worst first."""
    if any(no.failed for no in standing):
        return ReasonCode.SET_ASIDE
    return ReasonCode.BIND_REFUSED if any(no.bind for no in standing) else ReasonCode.PLAN_REFUSED


def _text(standing: list[RefusedWrite]) -> str:
    """The refusals, each reason once; equal as long as the same writes are refused."""
    if failed := [no.message for no in standing if no.failed]:
        return failed[0]
    told: dict[tuple[bool, str], list[RefusedWrite]] = {}
    for no in standing:
        told.setdefault((no.bind, without_name(no.message, no.pod.rpartition("/")[2])), []).append(no)
    parts = []
    for (bind, _), same in told.items():
        others = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        foreign = same[0].beneficiary and same[0].pod.partition("/")[0] != same[0].beneficiary.partition("/")[0]
        said = "" if foreign else f": {same[0].message}"  # the server names budgets of the pod's namespace
        parts.append(f"the {'bind' if bind else 'eviction'} of {same[0].pod}{others} was refused{said}")
    return "; ".join(parts)
