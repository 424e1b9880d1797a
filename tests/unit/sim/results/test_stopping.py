"""When seeds are enough: at three looks, never on ties, and rarely where nothing differs."""

from __future__ import annotations

import numpy as np
import pytest

from pumice.sim.results import JobRecord, RunRecord, Summary, compare_seeds, summarise
from pumice.sim.results.gates import Gate, judge_seeds, parse_gate
from pumice.sim.results.intervals import SURE, effect
from pumice.sim.study.running import LOOK_ALPHA, LOOKS, parse_sure

Runs = dict[str, dict[int, Summary]]


def summary(seed: int, wait: float) -> Summary:
    job = JobRecord(name="a", queue="q", submit=0, start=wait, end=wait + 60 + seed, duration=60, outcome="completed")
    return summarise(RunRecord(name="run", seed=seed, horizon=1e6, jobs=(job,)))


def runs(**waits: list[float]) -> Runs:
    return {name: {s: summary(s, wait) for s, wait in enumerate(part, 1)} for name, part in waits.items()}


def days(count: int) -> list[float]:
    return [600.0 + 10 * day for day in range(count)]


@pytest.mark.parametrize("part", ["5%", "0.1%"])
@pytest.mark.parametrize("count", LOOKS)
def test_a_study_never_stops_on_ties(count: int, part: str) -> None:
    assert not parse_sure(part)(runs(first=days(count), second=days(count)))
    few = [*(one / 2 for one in days(count)[:5]), *days(count)[5:]]
    assert not parse_sure(part)(runs(first=days(count), second=few))
    assert not parse_sure(part)(runs(alone=[600.0] * count))


@pytest.mark.parametrize("count", [6, 10, 19, 20, 21, 39, 40, 80])
def test_a_study_stops_only_at_a_look(count: int) -> None:
    steady = [one * 0.9 + at % 3 for at, one in enumerate(days(count))]
    assert parse_sure("5%")(runs(first=days(count), second=steady)) == (count in LOOKS)


@pytest.mark.slow
def test_over_all_looks_hardly_any_study_calls_equal_configurations_different() -> None:
    """400 studies of lognormal days whose arms are swapped at random; a verdict at any look is false."""
    rng, false = np.random.default_rng(4), 0
    for _ in range(400):
        base = rng.lognormal(6, 1, LOOKS[-1])
        other = base * np.exp(rng.normal(0, 0.3, LOOKS[-1]))
        swap = rng.random(LOOKS[-1]) < 0.5
        first, second = np.where(swap, other, base).tolist(), np.where(swap, base, other).tolist()
        false += any(
            effect(first[:n], second[:n], scale="ratio", lower_is_better=True, alpha=LOOK_ALPHA).verdict in SURE
            for n in LOOKS
        )
    assert false <= 0.05 * 400 + 8, "two standard errors of 5 % of 400 studies are 8.7"


def test_a_look_says_the_interval_that_holds_over_all_looks() -> None:
    base = days(20)
    found = parse_sure("5%").look(runs(first=base, second=[one * 0.9 + at % 3 for at, one in enumerate(base)]))
    wide = compare_seeds(runs(first=base, second=[one * 0.9 + at % 3 for at, one in enumerate(base)]), alpha=LOOK_ALPHA)
    effect = wide.row("wait.mean").effects[1]
    assert effect is not None
    assert found.found == effect.change
    assert found.seeds == 20
    assert found.sure


# -- rules ------------------------------------------------------------------------------------------------------------
STEADY = [one * 1.2 + at % 3 for at, one in enumerate(days(20))]


@pytest.mark.parametrize(
    ("rule", "unless", "broken"),
    [
        ("wait.mean > +5%", False, True),
        ("wait.mean > +5%", True, False),
        ("wait.mean < +5%", False, False),
        ("wait.mean < +5%", True, True),
        ("wait.mean > +20.1%", False, None),
        ("wait.mean > +20.1%", True, None),
        ("wait.mean > 1h", False, False),
        ("wait.mean < 1h", True, False),
    ],
)
def test_a_rule_is_broken_kept_or_not_to_be_told(rule: str, unless: bool, broken: bool | None) -> None:
    gate: Gate = parse_gate(rule, unless=unless)
    assert judge_seeds(gate, compare_seeds(runs(first=days(20), second=STEADY))).broken is broken


@pytest.mark.parametrize("rule", ["wait.mean > +5%", "wait.mean > -5%", "wait.mean < 1h", "wait.mean > +1h"])
@pytest.mark.parametrize("unless", [False, True])
def test_more_seeds_never_turn_a_rule_off(rule: str, unless: bool) -> None:
    """Whatever three seeds say is no verdict; twenty of the same kind say the same or more."""
    gate = parse_gate(rule, unless=unless)
    few, many = (judge_seeds(gate, compare_seeds(runs(first=days(n), second=STEADY[:n]))).broken for n in (3, 20))
    assert few is None
    assert many is not None


def test_a_time_that_was_nothing_has_no_part() -> None:
    nothing = runs(first=[0.0] * 8, second=[5.0 + day for day in range(8)])
    ruling = judge_seeds(parse_gate("wait.mean > +5%"), compare_seeds(nothing))
    assert (ruling.broken, ruling.sound) == (None, False)
    assert judge_seeds(parse_gate("wait.mean > +1s"), compare_seeds(nothing)).broken is True
    same = runs(first=[0.0] * 8, second=[0.0] * 8)
    assert judge_seeds(parse_gate("wait.mean > +5%"), compare_seeds(same)).broken is False


def test_runs_in_which_nothing_is_drawn_are_exact() -> None:
    one = {name: dict.fromkeys(range(1, 4), summary(1, wait)) for name, wait in (("first", 600.0), ("second", 700.0))}
    for rule, broken in (("wait.mean > +5%", True), ("wait.mean > +20%", False), ("unfinished > 0", False)):
        assert judge_seeds(parse_gate(rule), compare_seeds(one)).broken is broken
