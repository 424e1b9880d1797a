"""How many answers become one, rule by rule, and that nobody is asked once it is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice.framework.points import rules
from pumice.framework.points.rules import NO, Rule
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task
from pumice.testing import job, session, task_of


class Asked:
    """Tiers of answers; *names* are the ones that were really asked, in order."""

    def __init__(self, rule: Rule, *tiers: list[Any], nobody: Any) -> None:
        self.names: list[str] = []
        calls = [
            [self._call(f"{t}{'abc'[n]}", answer) for n, answer in enumerate(tier)] for t, tier in enumerate(tiers)
        ]
        self._bound = rule.fold(calls, nobody)

    def _call(self, name: str, answer: Any) -> Callable[..., Any]:
        def call(*_: Any) -> Any:
            self.names.append(name)
            return answer

        return call

    def __call__(self, *args: Any) -> Any:
        return self._bound(*args)


@pytest.fixture
def tasks() -> dict[str, Task]:
    ssn = session(job("v", tasks=4))
    return {str(n): task_of(ssn, f"v-{n}") for n in range(4)}


def test_the_first_comparison_that_is_not_0_decides() -> None:
    ask = Asked(rules.ORDER, [0, 0], [-1, 1], nobody=0)
    assert ask() == -1
    assert ask.names == ["0a", "0b", "1a"]
    assert Asked(rules.ORDER, [0, 0], [], nobody=5)() == 0
    assert Asked(rules.ORDER, [], nobody=5)() == 5


def test_all_must_pass_and_the_first_rejection_is_the_answer() -> None:
    no = Verdict(False, "no room", "0b")
    ask = Asked(rules.ALL_PASS, [PASS, no], [reject("never")], nobody=PASS)
    assert ask() is no
    assert ask.names == ["0a", "0b"]
    assert Asked(rules.ALL_PASS, [PASS], [PASS], nobody=NO)() is PASS
    assert Asked(rules.ALL_PASS, [], nobody=NO)() is NO


def test_one_yes_is_a_yes_and_names_its_plugin() -> None:
    yes = Verdict(True, plugin="1a")
    ask = Asked(rules.ANY, [NO], [yes, Verdict(True, plugin="1b")], nobody=NO)
    assert ask() is yes
    assert ask.names == ["0a", "1a"]
    assert not Asked(rules.ANY, [NO], [NO], nobody=yes)()
    assert Asked(rules.ANY, nobody=yes)() is yes


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
    given = [[{0: None, 1: PASS, -1: NO}[vote] for vote in tier] for tier in tiers]
    ask = Asked(rules.VOTE, *given, nobody=PASS)
    assert ask().passed is passed
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
    given = [[Verdict(yes) for yes in tier] for tier in tiers]
    assert Asked(rules.FIRST_TIER, *given, nobody=NO)().passed is answer


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
    for rule, want in ((rules.VICTIMS, ours), (rules.VICTIMS_OF_VOLCANO, volcanos)):
        chosen = Asked(rule, *given, nobody=None)(None, [])
        assert (None if chosen is None else "".join(t.name[-1] for t in chosen)) == want


def test_the_union_of_the_first_tier_with_any_answer(tasks: dict[str, Task]) -> None:
    ask = Asked(rules.UNION, [[], []], [[tasks["0"], tasks["1"]], [tasks["1"], tasks["2"]]], [[tasks["3"]]], nobody=())
    assert [t.name for t in ask([])] == ["v-0", "v-1", "v-2"]
    assert Asked(rules.UNION, [[]], nobody=())([]) == []


def test_each_splits_what_the_one_before_it_gave() -> None:
    def halves(_: Any, __: Any, ___: Any, nodes: list[int]) -> list[list[int]]:
        return [nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]]

    bound = rules.CHAIN.fold([[halves], [halves]], None)
    assert bound(None, None, [], [1, 2, 3, 4, 5]) == [[1], [2], [3], [4, 5]]
    assert rules.CHAIN.fold([], None)(None, None, [], [1]) is None


def test_hints_that_are_not_declared_say_nothing() -> None:
    assert Asked(rules.LEAST, [7, 3], nobody=9)() == 3
    assert Asked(rules.LEAST, [7, None], nobody=9)() == 0
    assert Asked(rules.LEAST, [-7], nobody=9)() == 0
    assert Asked(rules.LEAST, nobody=9)() == 9
    assert Asked(rules.ALL_KEYS, [("a",), (None,)], nobody=())() == ("a", None)
    assert Asked(rules.ALL_KEYS, [("a",), None], nobody=())() is None
