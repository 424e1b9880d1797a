"""Verdicts from pairs of runs: right about chance, able to find what is there, honest about what they cannot tell."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.sim.results.intervals import FEWEST, Effect, effect

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
@pytest.mark.parametrize("pairs", [10, 20])
def test_of_comparisons_without_a_difference_at_most_one_in_fourteen_is_called_different(
    pool: Floats, figure: int, pairs: int
) -> None:
    """Four hundred comparisons in which the second arm is played on other seeds: only chance differs."""
    rng = np.random.default_rng(figure)
    different = 0
    for _ in range(400):
        chosen = pool[rng.choice(len(pool), 2 * pairs, replace=False), figure]
        found = effect(chosen[:pairs].tolist(), chosen[pairs:].tolist(), scale="ratio", lower_is_better=True)
        different += found.verdict in ("better", "worse")
    assert different <= 0.07 * 400


def test_a_change_of_ten_percent_is_found_with_forty_pairs() -> None:
    """The mean falls by 10 %, with a spread of 0.2 between the log ratios of seeds; a hundred trials."""
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(100):
        before = rng.lognormal(6, 1, 40)
        after = before * np.exp(rng.normal(math.log(0.9) - 0.2**2 / 2, 0.2, 40))
        verdict = effect(before.tolist(), after.tolist(), scale="ratio", lower_is_better=True).verdict
        found += verdict in ("better", "mostly better")
    assert found >= 80


def judged(before: list[float], after: list[float], **more: bool) -> Effect:
    return effect(before, after, scale="difference", lower_is_better=more.get("lower", True))


@pytest.mark.parametrize("scale", ["ratio", "difference"])
@pytest.mark.parametrize("pairs", [FEWEST - 1, 20])
def test_too_few_pairs_that_differ_never_give_a_verdict_however_clear_they_look(scale: str, pairs: int) -> None:
    before = [100.0] * pairs
    after = [1.0] * (FEWEST - 1) + before[FEWEST - 1 :]
    found = effect(before, after, scale=scale, lower_is_better=True)  # type: ignore[arg-type]
    assert (found.verdict, found.change.low, found.better) == ("too few", None, FEWEST - 1)
    assert found.advised == math.ceil(8 * pairs / (FEWEST - 1))


def test_verdicts_follow_which_way_is_better() -> None:
    low, high = [1.0, 2, 3, 4, 5, 6, 7], [11.0, 12, 14, 13, 15, 17, 16]
    assert judged(high, low).verdict == "better"
    assert judged(high, low, lower=False).verdict == "worse"
    assert judged([100.0] * FEWEST, [1.0 + n for n in range(FEWEST)]).verdict == "better"
    found = effect(high, low, scale="difference", lower_is_better=True, against=["seed 1: a"])
    assert found.verdict == "not comparable"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_equal_runs_show_no_difference_and_no_other_runs_do(before: list[float]) -> None:
    assert judged(before, before).verdict == "no difference seen"
    assert judged(before, [*before[:-1], before[-1] + 1]).verdict != "no difference seen"


def test_better_on_nearly_all_seeds_but_not_surely_in_the_mean_is_mostly_better() -> None:
    """Eleven days gain a little, one bad day loses more than all of them gain."""
    before = [600.0 + day for day in range(12)]
    after = [*(one - 60 for one in before[:-1]), 60_000.0]
    found = effect(before, after, scale="ratio", lower_is_better=True)
    assert (found.verdict, found.better, found.worse) == ("mostly better", 11, 1)
    assert found.change.estimate > 0, "the mean grew"


def test_the_change_of_a_time_is_that_of_the_whole_time() -> None:
    before, after = [10.0, 10, 10, 10, 10, 10, 940], [5.0, 5, 5, 5, 5, 5, 940]
    found = effect(before, after, scale="ratio", lower_is_better=True)
    assert found.change.estimate == pytest.approx(970 / 1000 - 1)


def test_a_time_that_was_nothing_has_a_difference_in_place_of_a_ratio() -> None:
    found = effect([0.0] * 7, [1.0 + day for day in range(7)], scale="ratio", lower_is_better=True)
    assert (found.scale, found.change.estimate, found.verdict) == ("difference", 4.0, "worse")


def test_how_many_pairs_would_tell_is_advised_where_these_cannot() -> None:
    steps = np.array([-0.6, 0.3, -0.4, 0.1, -0.2, 0.05, -0.3, 0.2, -0.5, 0.2])
    before = np.full(10, 600.0)
    after = before * np.exp(steps)
    found = effect(before.tolist(), after.tolist(), scale="ratio", lower_is_better=True)
    assert found.verdict == "cannot tell"
    assert found.advised is not None
    assert 30 < found.advised < 1000
