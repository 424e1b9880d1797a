"""Answers in the shapes that authors write them, turned into the one shape that folds understand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task

PERMIT, ABSTAIN, REJECT = 1, 0, -1


def vote(answer: Any) -> int:
    """A vote: True is Permit, False is Reject, numbers by sign, None abstains."""
    if answer is True:
        return PERMIT
    if answer is False:
        return REJECT
    if answer is None:
        return ABSTAIN
    if isinstance(answer, Verdict):
        return PERMIT if answer.passed else REJECT
    if isinstance(answer, (int, float)):
        return (answer > 0) - (answer < 0)
    raise TypeError(f"a vote is a truth value, a number or None, got {answer!r}")


def verdict(answer: Any) -> Verdict:
    """Yes or no with a reason: a truth value, reject(text), text (a no), or None (a yes)."""
    if answer is None or answer is True:
        return PASS
    if answer is False:
        return Verdict(False)
    if isinstance(answer, Verdict):
        return answer
    if isinstance(answer, str):
        return reject(answer)
    raise TypeError(f"an answer is a truth value or reject(text), got {answer!r}")


def truth(answer: Any) -> bool:
    """Yes or no."""
    if isinstance(answer, bool):
        return answer
    if isinstance(answer, Verdict):
        return answer.passed
    raise TypeError(f"an answer is True or False, got {answer!r}")


def comparison(answer: Any) -> int:
    """Below 0: left first; above 0: right first."""
    if isinstance(answer, bool) or not isinstance(answer, (int, float)):
        raise TypeError(f"a comparison is a number, got {answer!r}")
    return (answer > 0) - (answer < 0)


def victims(answer: Any) -> tuple[Sequence[Task], int]:
    """(victims, vote): a bare list is (list, Permit), None abstains."""
    if answer is None:
        return (), ABSTAIN
    if isinstance(answer, tuple) and len(answer) == 2 and not isinstance(answer[0], Task):
        chosen, said = answer
        return list(chosen or ()), vote(said)
    if isinstance(answer, (list, tuple)):
        return list(answer), PERMIT
    raise TypeError(f"an answer is a list of tasks, (tasks, vote) or None, got {answer!r}")
