"""Answers in every documented shape, and what is no answer at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice.framework import answers
from pumice.model.reason import PASS, Verdict, reject
from pumice.testing import job, session, task_of


@pytest.mark.parametrize(
    ("answer", "vote"),
    [(True, 1), (False, -1), (None, 0), (0, 0), (3, 1), (-2.5, -1), (PASS, 1), (reject("no"), -1)],
)
def test_a_vote_is_a_truth_value_a_number_or_nothing(answer: object, vote: int) -> None:
    assert answers.vote(answer) == vote


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(None, PASS), (True, PASS), (False, Verdict(False)), (reject("no"), reject("no")), ("no", reject("no"))],
)
def test_yes_or_no_may_carry_a_reason(answer: object, verdict: Verdict) -> None:
    assert answers.verdict(answer) == verdict


@pytest.mark.parametrize(("answer", "number"), [(-7, -1), (0, 0), (0.5, 1)])
def test_a_comparison_counts_by_its_sign(answer: float, number: int) -> None:
    assert answers.comparison(answer) == number


def test_truth_is_a_bool_or_a_verdict() -> None:
    assert answers.truth(True)
    assert not answers.truth(reject("no"))


def test_victims_may_come_with_a_vote() -> None:
    task = task_of(session(job("a")), "a-0")
    assert answers.victims(None) == ((), 0)
    assert answers.victims([task]) == ([task], 1)
    assert answers.victims((task,)) == ([task], 1)
    assert answers.victims(([task], 0)) == ([task], 0)
    assert answers.victims((None, False)) == ([], -1)
    assert answers.victims((task, task)) == ([task, task], 1)


@pytest.mark.parametrize(
    ("shape", "answer", "text"),
    [
        (answers.vote, "yes", "a vote is a truth value, a number or None, got 'yes'"),
        (answers.verdict, 1, r"an answer is a truth value or reject\(text\), got 1"),
        (answers.truth, 1, "an answer is True or False, got 1"),
        (answers.comparison, True, "a comparison is a number, got True"),
        (answers.comparison, None, "a comparison is a number, got None"),
        (answers.victims, "x", r"an answer is a list of tasks, \(tasks, vote\) or None, got 'x'"),
    ],
)
def test_what_is_no_answer_is_named(shape: Callable[[Any], object], answer: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        shape(answer)
