"""Answers in every documented shape, and what is no answer at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice.framework.points import forms
from pumice.model.reason import PASS, Verdict, reject
from pumice.testing import job, session, task_of


@pytest.mark.parametrize(
    ("answer", "vote"),
    [
        (True, True),
        (False, False),
        (None, None),
        (0, None),
        (3, True),
        (-2.5, False),
        (PASS, True),
        (reject("no"), False),
    ],
)
def test_a_vote_is_a_truth_value_a_number_or_nothing(answer: object, vote: bool | None) -> None:
    said = forms.ballot("p", answer)
    assert (said and said.passed) is vote if vote is None or vote else said is not None and not said.passed


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        *((None, PASS), (True, PASS), (False, Verdict(False, plugin="p"))),
        *((reject("no"), Verdict(False, "no", "p")), ("no", Verdict(False, "no", "p"))),
    ],
)
def test_yes_or_no_may_carry_a_reason(answer: object, verdict: Verdict) -> None:
    assert forms.verdict("p", answer) == verdict


@pytest.mark.parametrize(("answer", "number"), [(-7, -1), (0, 0), (0.5, 1)])
def test_a_comparison_counts_by_its_sign(answer: float, number: int) -> None:
    assert forms.comparison("p", answer) == number


def test_truth_is_a_bool_or_a_verdict() -> None:
    assert forms.truth("p", True)
    assert not forms.truth("p", reject("no"))


def test_victims_may_come_with_a_vote() -> None:
    task = task_of(session(job("a")), "a-0")
    assert forms.victims("p", None) == ((), 0)
    assert forms.victims("p", [task]) == ([task], 1)
    assert forms.victims("p", (task,)) == ([task], 1)
    assert forms.victims("p", ([task], 0)) == ([task], 0)
    assert forms.victims("p", (None, False)) == ([], -1)
    assert forms.victims("p", (task, task)) == ([task, task], 1)


@pytest.mark.parametrize(
    ("read", "answer", "text"),
    [
        (forms.ballot, "yes", "a vote is a truth value, a number or None, got 'yes'"),
        (forms.verdict, 1, r"an answer is a truth value or reject\(text\), got 1"),
        (forms.truth, 1, "an answer is True or False, got 1"),
        (forms.comparison, True, "a comparison is a number, got True"),
        (forms.comparison, None, "a comparison is a number, got None"),
        (forms.victims, "x", r"an answer is a list of tasks, \(tasks, vote\) or None, got 'x'"),
    ],
)
def test_what_is_no_answer_is_named(read: Callable[[str, Any], object], answer: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        read("p", answer)
