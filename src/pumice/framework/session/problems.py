"""Objects that cannot be used say so: a PodGroup without a queue, a Queue or a pod that breaks a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.config.problems import nearest
from pumice.framework.session.outcome import Refusal, Stage
from pumice.model import native
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note, StatusUpdate

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
