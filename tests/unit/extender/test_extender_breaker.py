"""The circuit breaker as a state machine on a clock that the test moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pumice.extender.asking.client import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_opens_after_failures_in_a_row_and_lets_one_call_try_later() -> None:
    clock = Clock()
    breaker = Breaker(3, 10.0, clock)
    for _ in range(2):
        breaker.failed()
    breaker.succeeded()
    for _ in range(3):
        assert breaker.admits()
        breaker.failed()
    assert (breaker.state, breaker.admits()) == ("open", False)
    clock.now = 10.0
    assert breaker.state == "half-open"
    assert breaker.admits()
    assert not breaker.admits()
    breaker.failed()
    assert breaker.state == "open"
    clock.now = 20.0
    assert breaker.admits()
    breaker.succeeded()
    assert breaker.state == "closed"


@given(st.lists(st.sampled_from(["fail", "succeed", "wait"]), max_size=60))
def test_with_0_failures_it_never_opens(moves: list[str]) -> None:
    clock = Clock()
    breaker = Breaker(0, 10.0, clock)
    for move in moves:
        if move == "wait":
            clock.now += 4
        else:
            (breaker.failed if move == "fail" else breaker.succeeded)()
        assert breaker.admits()


@given(st.integers(1, 4), st.lists(st.sampled_from(["fail", "succeed", "wait"]), max_size=60))
def test_it_is_open_only_after_enough_failures_in_a_row(most: int, moves: list[str]) -> None:
    clock = Clock()
    breaker = Breaker(most, 10.0, clock)
    row = 0
    for move in moves:
        if move == "wait":
            clock.now += 4
            continue
        if breaker.admits():
            (breaker.failed if move == "fail" else breaker.succeeded)()
            row = row + 1 if move == "fail" else 0
        if breaker.state != "closed":
            assert row >= most
