"""Verdicts from pairs of runs: right about chance, able to find what is there, honest about what they cannot tell."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.sim.results.pairs import FEWEST, Effect, effect, interval, typical

Floats = npt.NDArray[np.float64]


def waits(rng: np.random.Generator, jobs: int = 300, load: float = 0.85) -> tuple[float, float]:
    """Mean and 95th percentile of the waits before one server with heavy-tailed run times (Lindley's recursion)."""
    run = rng.lognormal(0, 1.6, jobs) * 600 / math.exp(1.6**2 / 2)
    gap = rng.exponential(600 / load, jobs)
    waited, now = [], 0.0
    for before, between in zip(run, gap, strict=True):
        waited.append(now)
        now = max(0.0, now + before - between)
    return float(np.mean(waited)), float(np.sort(waited)[math.ceil(0.95 * jobs) - 1])


@pytest.fixture(scope="module")
def pool() -> Floats:
    rng = np.random.default_rng(11)
    return np.array([waits(rng) for _ in range(2000)])


@pytest.mark.slow
@pytest.mark.parametrize("figure", [0, 1], ids=["mean wait", "95th percentile"])
def test_of_comparisons_without_a_difference_about_one_in_twenty_is_called_different(pool: Floats, figure: int) -> None:
    """Four hundred comparisons of thirty pairs, the second arm on other seeds: only chance differs."""
    rng = np.random.default_rng(figure)
    different = 0
    for _ in range(400):
        chosen = pool[rng.choice(len(pool), 60, replace=False), figure]
        found = effect(chosen[:30].tolist(), chosen[30:].tolist(), scale="ratio", lower_is_better=True)
        different += found.verdict in ("better", "worse")
    assert 0.02 * 400 <= different <= 0.08 * 400


def test_a_change_of_ten_percent_is_found_with_forty_pairs() -> None:
    """Log ratio -0.105 with a spread of 0.2 between seeds, a hundred trials."""
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(100):
        before = rng.lognormal(6, 1, 40)
        after = before * np.exp(rng.normal(-0.105, 0.2, 40))
        found += effect(before.tolist(), after.tolist(), scale="ratio", lower_is_better=True).verdict == "better"
    assert found >= 80


@given(st.lists(st.integers(-50, 50), min_size=FEWEST, max_size=9))
def test_the_interval_is_what_the_sign_flip_test_does_not_reject(values: list[int]) -> None:
    """Compared with the test itself, over all signs, at the ends of the interval and beside them."""
    found = interval([float(value) for value in values])
    assert found.low is not None and found.high is not None
    assert found.low <= found.estimate <= found.high

    def share_at_least(centre: float) -> float:
        steps = [value - centre for value in values]
        sums = [
            sum(s * step for s, step in zip(signs, steps, strict=True)) for signs in product((-1, 1), repeat=len(steps))
        ]
        return sum(total >= sum(steps) - 1e-9 for total in sums) / len(sums)

    width = max(1.0, found.high - found.low)
    assert share_at_least(found.low - 0.01 * width) <= 0.025 + 1e-9
    assert share_at_least(found.low + 1e-6 * width) >= 0.025 - 2 / 2 ** len(values)


@given(st.lists(st.floats(-1e6, 1e6), min_size=FEWEST, max_size=40))
def test_an_interval_holds_its_estimate_moves_with_the_values_and_is_the_same_each_time(values: list[float]) -> None:
    found, again = interval(values), interval(list(values))
    moved = interval([value + 1000 for value in values])
    assert found == again
    assert found.low is not None and found.high is not None and moved.low is not None
    assert found.low - 1e-6 <= found.estimate <= found.high + 1e-6
    assert moved.low == pytest.approx(found.low + 1000, abs=1e-3)


def judged(before: list[float], after: list[float], **more: bool) -> Effect:
    return effect(before, after, scale="difference", lower_is_better=more.get("lower", True))


def test_too_few_pairs_never_give_a_verdict_however_clear_they_look() -> None:
    few = FEWEST - 1
    found = judged([100.0] * few, [1.0] * few)
    assert (found.verdict, found.change.low, found.better) == ("cannot tell", None, few)
    assert judged([100.0] * FEWEST, [1.0 + n for n in range(FEWEST)]).verdict == "better"


def test_verdicts_follow_which_way_is_better_and_equal_runs_are_no_change() -> None:
    low, high = [1.0, 2, 3, 4, 5, 6, 7], [11.0, 12, 14, 13, 15, 17, 16]
    assert judged(high, low).verdict == "better"
    assert judged(high, low, lower=False).verdict == "worse"
    assert judged(low, low).verdict == "no change"
    assert (
        effect(high, low, scale="difference", lower_is_better=True, against=["seed 1: a"]).verdict == "not comparable"
    )


def test_a_ratio_is_that_of_typical_values_and_nothing_is_divided_by_nothing() -> None:
    before, after = [100.0, 200, 400, 800, 50, 25, 10], [50.0, 100, 200, 400, 25, 12.5, 5]
    found = effect(before, after, scale="ratio", lower_is_better=True)
    assert found.change.estimate == pytest.approx(-0.5)
    assert typical(after, "ratio").estimate / typical(before, "ratio").estimate == pytest.approx(0.5)
    idle = effect([0.0] * 7, [0.001] * 7, scale="ratio", lower_is_better=True)
    assert idle.verdict == "no change", "waits below a second are not told apart"


def test_how_many_pairs_would_tell_is_advised_where_these_cannot() -> None:
    steps = np.array([-0.5, 0.4, -0.3, 0.2, -0.1, 0.1, -0.2, 0.3, -0.4, -0.1])
    before = np.full(10, 600.0)
    after = before * np.exp(steps)
    found = effect(before.tolist(), after.tolist(), scale="ratio", lower_is_better=True)
    assert found.verdict == "cannot tell"
    assert found.advised is not None
    assert 30 < found.advised < 400
