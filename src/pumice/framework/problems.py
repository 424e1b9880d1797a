"""Objects that cannot be used say so: a PodGroup without a queue, a Queue or a pod that breaks a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.framework.refusals import Stage
from pumice.model.intents import Note, StatusUpdate

if TYPE_CHECKING:
    from pumice.framework.session import Session

_TOLD = "problems told"


def tell_problems(ssn: Session) -> None:
    """Write a condition on every PodGroup whose queue does not exist, and a note on every object with a problem.

    Each is written once, and again when its text changes. Cost: the objects concerned.
    """
    state = ssn.state
    for uid, job in state.queueless.items():
        problem = state.problems.get(("Queue", job.queue))
        text = f"queue {job.queue!r} " + (f"cannot be used: {problem}" if problem else "does not exist")
        ssn.outcome.refuse(job, Stage.QUEUE, text)
        status = job.group.status if job.group is not None else None
        written = (status.conditions if status is not None else None) or ()
        if not any(c.type == "Unschedulable" and c.message == text for c in written):
            condition = {"type": "Unschedulable", "status": "True", "reason": "UnknownQueue", "message": text}
            phase = (status.phase if status is not None else "") or "Pending"
            ssn.outcome.intents.append(StatusUpdate("PodGroup", uid, {"phase": phase, "conditions": [condition]}))
    told: dict[tuple[str, str], str] = ssn.runtime.kept.setdefault(_TOLD, {})
    if told != state.problems:
        for (kind, key), text in state.problems.items():
            if told.get((kind, key)) != text:
                ssn.outcome.intents.append(Note(kind, key, "Warning", "Invalid", text))
        ssn.runtime.kept[_TOLD] = dict(state.problems)
