"""What a session makes of evictions that the cluster refused.

The rest of their plan was not carried out. Room that the plan did free stays with those it was freed for; a nomination
for a node on which nothing was freed is taken back. The refusal is told to people, and stands as a reason until it is
tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.framework.session.nominations import end_nomination
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.job import Job
from pumice.state.eviction_refusals import FORGOTTEN_AFTER, RefusedEviction

if TYPE_CHECKING:
    from pumice.framework.session.session import Session


def learn_refusals(ssn: Session) -> None:
    """Look at every refusal once, before rooms are held; forget old ones."""
    refused = ssn.state.refused
    fresh = {uid: no for uid, no in refused.items() if no.fresh}
    for no in fresh.values():
        no.fresh = False
    _take_back_nominations(ssn, fresh)
    for uid, no in list(refused.items()):
        if not no.wait or ssn.now > no.until + FORGOTTEN_AFTER:
            del refused[uid]
        elif uid in fresh and no.beneficiary in ssn.jobs:
            ssn.outcome.intents.append(
                Note(ssn.jobs[no.beneficiary].kind, no.beneficiary, "Warning", ReasonCode.EVICTION_REFUSED, _text(no))
            )


def _take_back_nominations(ssn: Session, fresh: dict[str, RefusedEviction]) -> None:
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
    """Why the last plan for a job was stopped, in words; nothing if none was, or it may be tried again."""
    if not ssn.state.refused:
        return ""
    standing = (no for no in ssn.state.refused.values() if no.beneficiary == job.uid and ssn.now < no.until)
    return "; ".join(_text(no) for no in sorted(standing, key=lambda no: no.pod))


def _text(no: RefusedEviction) -> str:
    return f"the eviction of {no.pod} was refused: {no.message}"
