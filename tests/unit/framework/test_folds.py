"""How many answers become one, fold by fold, and that nobody is asked once it is decided."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.framework import folds
from pumice.framework.callbacks import Callback
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task
from pumice.testing import job, session, task_of


class Asked:
    """Tiers of answers; *names* are the ones that were really asked, in order."""

    def __init__(self, *tiers: list[Any]) -> None:
        self.names: list[str] = []
        self._answers: dict[str, Any] = {}
        self.tiers: list[list[Callback]] = []
        for t, tier in enumerate(tiers):
            callbacks = []
            for n, answer in enumerate(tier):
                name = f"{t}{'abc'[n]}"
                self._answers[name] = answer
                callbacks.append(Callback(name, "point", lambda: None))
            self.tiers.append(callbacks)

    def __call__(self, callback: Callback) -> Any:
        self.names.append(callback.plugin)
        return self._answers[callback.plugin]


@pytest.fixture
def tasks() -> dict[str, Task]:
    ssn = session(job("v", tasks=4))
    return {str(n): task_of(ssn, f"v-{n}") for n in range(4)}


def test_the_first_comparison_that_is_not_0_decides() -> None:
    ask = Asked([0, 0], [-1, 1])
    assert folds.first_comparison(ask.tiers, ask) == -1
    assert ask.names == ["0a", "0b", "1a"]
    nobody = Asked([0], [])
    assert folds.first_comparison(nobody.tiers, nobody) == 0


def test_all_must_pass_and_the_first_rejection_names_its_plugin() -> None:
    ask = Asked([PASS, reject("no room")], [reject("never")])
    assert folds.all_pass(ask.tiers, ask) == Verdict(False, "no room", "0b")
    assert ask.names == ["0a", "0b"]
    named = Asked([Verdict(False, "x", "other")])
    assert folds.all_pass(named.tiers, named).plugin == "other"
    yes = Asked([PASS], [PASS])
    assert folds.all_pass(yes.tiers, yes) is PASS


def test_one_yes_is_a_yes_and_names_its_plugin() -> None:
    ask = Asked([False], [True, True])
    assert folds.any_true(ask.tiers, ask) == "1a"
    no = Asked([False], [False])
    assert folds.any_true(no.tiers, no) == ""


@pytest.mark.parametrize(
    ("tiers", "passed", "asked"),
    [
        ([[0, 0], [0]], True, ["0a", "0b", "1a"]),
        ([[1, 0], [-1]], True, ["0a", "0b"]),
        ([[1, -1], [1]], False, ["0a", "0b"]),
        ([[0], [-1, 1]], False, ["0a", "1a"]),
        ([[0], [1]], True, ["0a", "1a"]),
        ([], True, []),
    ],
)
def test_a_vote_ends_with_a_reject_or_with_the_tier_of_a_permit(
    tiers: list[list[int]], passed: bool, asked: list[str]
) -> None:
    ask = Asked(*tiers)
    assert folds.tiered_vote(ask.tiers, ask).passed is passed
    assert ask.names == asked


@pytest.mark.parametrize(
    ("tiers", "answer"),
    [
        ([], False),
        ([[]], False),
        ([[True, True], [False]], True),
        ([[True, False], [True]], False),
        ([[], [True]], True),
    ],
)
def test_the_first_tier_with_anybody_decides_and_there_all_must_agree(tiers: list[list[bool]], answer: bool) -> None:
    ask = Asked(*tiers)
    assert folds.first_tier_all(ask.tiers, ask) is answer


@pytest.mark.parametrize(
    ("tiers", "ours", "volcanos"),
    [
        ([], None, None),
        ([[("0123", 0)]], None, None),
        ([[("012", 1), ("123", 1)], [("0", 1)]], "12", "12"),
        ([[("0123", 0), ("12", 1)]], "12", "12"),
        ([[("01", 1), ("23", 1)], [("3", 1)]], "", "3"),
        ([[("", 1), ("12", 1)], [("3", 1)]], "", "3"),
        ([[("", 1)]], "", None),
        ([[("01", 0)], [("23", 1)]], "23", "23"),
        ([[("01", 1), ("", 1)], [("0123", 0)]], "", None),
    ],
)
def test_victims_are_what_every_plugin_of_the_deciding_tier_allows(
    tasks: dict[str, Task], tiers: list[list[tuple[str, int]]], ours: str | None, volcanos: str | None
) -> None:
    """Ours takes an empty answer as a veto; Volcano's passes the decision on."""
    given = [[([tasks[n] for n in names], vote) for names, vote in tier] for tier in tiers]
    for as_volcano, want in ((False, ours), (True, volcanos)):
        ask = Asked(*given)
        chosen = folds.victims(ask.tiers, ask, as_volcano=as_volcano)
        assert (None if chosen is None else "".join(t.name[-1] for t in chosen)) == want


def test_the_union_of_the_first_tier_with_any_answer(tasks: dict[str, Task]) -> None:
    ask = Asked([[], []], [[tasks["0"], tasks["1"]], [tasks["1"], tasks["2"]]], [[tasks["3"]]])
    assert [t.name for t in folds.union(ask.tiers, ask)] == ["v-0", "v-1", "v-2"]
    nobody = Asked([[]])
    assert folds.union(nobody.tiers, nobody) == []
