"""Ratios of paired measurements, and when they are called a difference."""

import math
import random

import pytest
from pumice_bench.pairs import CONFIDENCE, FEWEST, compare, rank


@pytest.mark.parametrize(("pairs", "at"), [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8)])
def test_the_ranks_are_those_of_the_sign_test_at_95_per_cent(pairs: int, at: int) -> None:
    assert rank(pairs) == at


@pytest.mark.parametrize("pairs", range(FEWEST))
def test_too_few_pairs_have_no_interval(pairs: int) -> None:
    with pytest.raises(ValueError, match="at least 6"):
        rank(pairs)


def test_a_change_in_every_pair_is_a_difference() -> None:
    before = [1.0, 1.1, 0.9, 1.3, 1.0, 0.8, 1.2, 1.0, 1.0]
    slower = compare(before, [1.06 * value for value in before])
    assert slower.verdict == "slower"
    assert slower.median == pytest.approx(1.06)
    assert compare(before, [0.9 * value for value in before]).verdict == "faster"


def test_a_change_that_goes_both_ways_is_none() -> None:
    before = [1.0] * 9
    after = [1.2, 0.9, 1.3, 0.95, 1.1, 1.2, 0.9, 1.1, 1.3]
    ratio = compare(before, after)
    assert ratio.verdict == "same"
    assert ratio.low <= ratio.median <= ratio.high


def test_one_disturbed_pair_of_nine_decides_nothing() -> None:
    before = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    after = [0.97, 0.96, 0.97, 0.98, 0.97, 0.97, 0.96, 0.98, 5.0]
    assert compare(before, after).verdict == "faster"


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(1)
    held = 0
    for _ in range(2000):
        before = [draw.lognormvariate(0.0, 0.2) for _ in range(9)]
        after = [1.05 * draw.lognormvariate(0.0, 0.2) for _ in range(9)]
        ratio = compare(before, after)
        held += ratio.low <= 1.05 <= ratio.high
    assert held / 2000 >= CONFIDENCE - 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / 2000)
    assert held / 2000 < 0.99  # not wide for nothing
