"""What answers and errors mean for a decision: Pumice's rules, and Volcano's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from pumice.extender.wire.messages import PredicateResponse, PrioritizeResponse
from pumice.framework.compat import Compat
from pumice.model.reason import Code

REASON_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class Reading:
    """How answers are read. Two exist: ``PUMICE`` and ``VOLCANO``."""

    code_alone_rejects: bool = True
    """A predicate's code counts without a text."""
    score_errors_ignorable: bool = True
    """An answer without scores is an error like any other; else it is one even where errors are ignored."""
    negative_rejects: bool = True
    """A negative vote on victims names none; else its victims are taken all the same."""
    ignored_victims: int = 0
    """The vote (with no victims) of an ignored error: 0 abstains."""
    ignored_vote: int = 0
    """The vote for a job whose question was not answered and that is ignored."""
    ignored_ready: bool = True
    failed_ready: bool = False
    failed_open_holds: bool = True
    """After a failed onSessionOpen managed jobs wait; else the extender is off for the session."""
    dialect: str = ""
    """Written instead of ``both``."""
    guarded: bool = True
    """Breaker and retries are used."""

    def refusal(self, response: PredicateResponse) -> tuple[str, Code] | None:
        """Why the node is refused, or None."""
        if not response.text and not (response.code and self.code_alone_rejects):
            return None
        text = response.text or f"refused with code {response.code}"
        return text[:REASON_LENGTH], code_of(response.code)

    def score_problem(self, response: PrioritizeResponse) -> str:
        """What is wrong with an answer to prioritize, or nothing."""
        if response.error:
            return response.error
        if response.scores is UNSET or response.scores is None:
            return "the answer has no nodeScore"
        return ""


def code_of(number: int) -> Code:
    """The code of a refusal; 0 and unknown ones are errors."""
    return Code(number) if 1 <= number <= 5 else Code.ERROR


PUMICE: Final = Reading()
VOLCANO: Final = Reading(
    code_alone_rejects=False,
    score_errors_ignorable=False,
    negative_rejects=False,
    ignored_victims=1,
    ignored_vote=1,
    ignored_ready=False,
    failed_ready=True,
    failed_open_holds=False,
    dialect="volcano",
    guarded=False,
)


def reading_of(compat: Compat) -> Reading:
    """The rules of a compat profile."""
    return VOLCANO if compat.extender_answers else PUMICE
