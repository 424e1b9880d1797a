"""Intervals over seeds: they hold what they promise, never by luck of a unit, and do not speak where they cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.sim.results.intervals import (
    FEWEST,
    Interval,
    adjusted,
    flip_test,
    mean_interval,
    median_interval,
    ratio_interval,
    sign_test,
    unseen,
)

Floats = npt.NDArray[np.float64]
TRIALS = 500
MARGIN = 2.5
"""Points: two standard errors of a rate of 8 % over so many trials."""

KINDS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float, float, float]] = {
    "normal": (lambda rng, n: rng.normal(0.5, 1, n), 0.5, 3.3, 4.3),
    "Student t, 3 degrees": (lambda rng, n: rng.standard_t(3, n), 0.0, 4.5, 5.0),
    "lognormal(1)": (lambda rng, n: rng.lognormal(0, 1, n), math.exp(0.5), 8.9, 7.4),
    "Pareto(2.2)": (lambda rng, n: rng.pareto(2.2, n) + 1, 2.2 / 1.2, 10.9, 10.1),
}
"""How it is drawn, its mean, and the misses in percent of 4,000 trials at 10 and at 20 values (decision 0009)."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [10, 20])
def test_the_interval_of_a_mean_misses_no_more_than_is_said(kind: str, count: int) -> None:
    draw, truth, *said = KINDS[kind]
    rng = np.random.default_rng(count)
    missed = sum(mean_interval(draw(rng, count).tolist()).excludes(truth) for _ in range(TRIALS))
    assert 100 * missed / TRIALS <= said[count == 20] + MARGIN


def test_the_interval_of_a_ratio_holds_the_ratio_of_the_means_not_of_typical_days() -> None:
    """Days are lognormal(1) and the change of each is lognormal: the ratio of means is not the median ratio."""
    rng, missed, truth = np.random.default_rng(2), 0, math.exp(-0.1 + 0.5 * 0.6**2)
    for _ in range(300):
        days = rng.lognormal(6, 1, 20)
        found = ratio_interval(days.tolist(), (days * np.exp(rng.normal(-0.1, 0.6, 20))).tolist())
        assert found is not None
        missed += found.excludes(truth)
    assert 100 * missed / 300 <= 9


values = st.lists(st.floats(-1e6, 1e6).map(lambda one: round(one, 3)), min_size=FEWEST, max_size=30)


@given(values)
def test_an_interval_holds_the_mean_moves_with_the_values_and_is_the_same_each_time(data: list[float]) -> None:
    found, moved = mean_interval(data), mean_interval([one + 1000 for one in data])
    assert found == mean_interval(list(data))
    for end, other in ((found.low, moved.low), (found.high, moved.high)):
        assert (end is None) == (other is None)
        assert end is None or other is None or other == pytest.approx(end + 1000, abs=1e-2, rel=1e-6)
    assert not found.excludes(found.estimate) or max(data) - min(data) < 1e-6


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=FEWEST, max_size=20), st.integers(1, 90_000)
)
def test_the_unit_of_a_time_changes_no_ratio(pairs: list[tuple[int, int]], unit: int) -> None:
    before, after = ([float(one[at]) for one in pairs] for at in (0, 1))
    found = ratio_interval(before, after)
    other = ratio_interval([one * unit for one in before], [one * unit for one in after])
    assert (found is None) == (other is None)
    if found is not None and other is not None:
        for end in ("estimate", "low", "high"):
            one, two = getattr(found, end), getattr(other, end)
            assert (one is None) == (two is None)
            assert one is None or two == pytest.approx(one, rel=1e-6)


@given(st.lists(st.integers(-50, 50), min_size=FEWEST, max_size=9))
def test_no_value_that_the_sign_flip_test_keeps_lies_outside(data: list[int]) -> None:
    """Compared with the test itself over all signs, a step inside the ends."""
    found = mean_interval([float(one) for one in data])

    def p(centre: float) -> float:
        steps = [one - centre for one in data]
        sums = [sum(s * d for s, d in zip(signs, steps, strict=True)) for signs in product((-1, 1), repeat=len(steps))]
        return sum(abs(total) >= abs(sum(steps)) - 1e-9 for total in sums) / len(sums)

    for end, way in ((found.low, -1), (found.high, 1)):
        if end is not None and min(data) != max(data):
            assert p(end + way * 0.001 * (max(data) - min(data))) <= 0.05 + 2 / 2 ** len(data) + 1e-9


def test_there_is_no_interval_without_enough_that_differs() -> None:
    few = [1.0, 2, 3, 4, 5]
    assert mean_interval(few) == Interval(3.0)
    assert median_interval(few) == Interval(3.0)
    days = [100.0 + day for day in range(20)]
    doubled = [*(day * 2 for day in days[:5]), *days[5:]]
    assert ratio_interval(days, doubled) == Interval(sum(doubled) / sum(days))
    assert ratio_interval(days, days) == Interval(1.0, 1.0, 1.0)
    assert ratio_interval(few, few) == Interval(1.0)


@pytest.mark.parametrize(("before", "after"), [([0.0] * 8, [1.0] * 8), ([1.0] * 8, [0.0] * 8)])
def test_there_is_no_ratio_to_nothing_or_of_nothing(before: list[float], after: list[float]) -> None:
    assert ratio_interval(before, after) is None


def test_a_base_that_waited_on_one_day_only_bounds_no_ratio() -> None:
    before, after = [*[0.0] * 9, 600.0], [60.0 + day for day in range(10)]
    found = ratio_interval(before, after)
    assert found is not None
    assert found.high is None


def test_values_that_are_all_equal_are_their_own_limits() -> None:
    assert mean_interval([70.0] * 8) == Interval(70.0, 70.0, 70.0)


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (8, 1), (9, 2), (20, 6)])
def test_the_median_lies_between_two_of_the_values_with_exact_confidence(count: int, rank: int) -> None:
    """The ranks of the tables for the sign test."""
    found = median_interval([float(one) for one in range(1, count + 1)])
    assert (found.low, found.high) == (rank, count - rank + 1)


@pytest.mark.parametrize(("better", "worse", "p"), [(6, 0, 0.03125), (5, 0, 0.0625), (9, 1, 0.021484375), (3, 3, 1.0)])
def test_the_sign_test_is_exact(better: int, worse: int, p: float) -> None:
    assert sign_test(better, worse) == sign_test(worse, better) == p


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=8))
def test_the_flip_test_counts_all_signs(data: list[int]) -> None:
    sums = [abs(sum(s * d for s, d in zip(signs, data, strict=True))) for signs in product((-1, 1), repeat=len(data))]
    assert flip_test([float(one) for one in data]) == sum(total >= abs(sum(data)) for total in sums) / len(sums)


def test_rows_are_adjusted_as_benjamini_and_hochberg_say() -> None:
    assert adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert adjusted([0.5]) == [0.5]
    assert adjusted([]) == []


def test_ten_equal_pairs_leave_a_quarter_of_all_open() -> None:
    assert unseen(10) == pytest.approx(0.259, abs=1e-3)
    assert unseen(60) == pytest.approx(3 / 60, abs=2e-3), "the rule of three"
