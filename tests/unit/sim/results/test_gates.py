"""Rules for CI: read strictly, judged by the interval, and never passed where they cannot be judged."""

from __future__ import annotations

import pytest
from test_seeds import study, summary

from pumice.errors import InvalidInput
from pumice.sim.report import effects
from pumice.sim.results import JobRecord, RunRecord, compare, compare_seeds
from pumice.sim.results.gates import judge, judge_seeds, parse_gate


@pytest.mark.parametrize(
    ("text", "kind", "bound"),
    [
        ("wait.p95 > +5%", "relative", 0.05),
        ("wait.p95>-5 %", "relative", -0.05),
        ("wait.mean > +10m", "difference", 600),
        ("wait.mean >= 1h30m", "value", 5400),
        ("utilisation.gpu < 60%", "value", 0.6),
        ("utilisation.gpu < -2 points", "difference", -0.02),
        ("unfinished > 0", "value", 0),
        ("completed < -3", "difference", -3),
    ],
)
def test_a_rule_is_a_figure_a_comparison_and_a_number(text: str, kind: str, bound: float) -> None:
    gate = parse_gate(text)
    assert (gate.kind, gate.bound) == (kind, pytest.approx(bound))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wait.p95", "must be a figure, a comparison and a number"),
        ("wait.meen > 5%", "did you mean 'wait.mean'?"),
        ("wait.p95 > 5 points", "wait.p95 has no unit 'points'"),
        ("unfinished > 5%", "unfinished has no unit '%'"),
        ("wait.p95 > 1.2.3", "'1.2.3' is no number"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("?", r"\?")):
        parse_gate(text)


def runs(before: float, after: float | None) -> list[RunRecord]:
    made = []
    for name, wait in (("first", before), ("second", after)):
        end = None if wait is None else wait + 60
        job = JobRecord(name="j", submit=0, start=wait, end=end, outcome="pending" if wait is None else "completed")
        made.append(RunRecord(name=name, horizon=1000, jobs=(job,)))
    return made


@pytest.mark.parametrize(
    ("rule", "before", "after", "broken", "sound"),
    [
        ("wait.mean > +5%", 100, 110, True, True),
        ("wait.mean > +5%", 100, 104, False, True),
        ("wait.mean > +5%", 2000, None, None, False),  # lower, but only because it never started
        ("wait.mean > +5%", 100, None, None, False),  # higher already, but not of the same work: CI fails either way
        ("wait.mean > +5%", 0, 10, None, False),  # of nothing there is no percentage
        ("unfinished > 0", 100, None, True, True),
        ("wait.mean > 15m", 100, None, True, True),
        ("wait.mean > 20m", 100, None, None, False),
        ("fragmentation > 5%", 100, 100, None, False),  # there is no such figure
    ],
)
def test_single_runs_are_judged_by_their_figures(
    rule: str, before: float, after: float | None, broken: bool | None, sound: bool
) -> None:
    ruling = judge(parse_gate(rule), compare(runs(before, after)))
    assert (ruling.broken, ruling.sound) == (broken, sound), ruling


@pytest.mark.parametrize(
    ("rule", "after", "said"),
    [
        ("wait.mean > 15m", None, "second: ≥ 16 min 40 s"),
        ("wait.mean > +5m", 1000, "second: +15 min"),
        ("wait.mean > +5%", 1000, "second: +900 %"),
        ("wait.mean > +5%", None, "second: not comparable, for not the same jobs were finished"),
        ("unfinished > 0", None, "second: 1"),
        ("fragmentation > 5%", None, "second: has no such figure"),
    ],
)
def test_what_a_rule_was_judged_by_is_told_in_the_units_of_the_figure(
    rule: str, after: float | None, said: str
) -> None:
    assert effects.ruling(judge(parse_gate(rule), compare(runs(100, after)))) == said


def test_seeds_are_judged_by_the_whole_interval() -> None:
    slower = compare_seeds(study(factor=1.5))
    assert judge_seeds(parse_gate("wait.mean > +5%"), slower).broken is True
    assert judge_seeds(parse_gate("wait.mean > +90%"), slower).broken is False
    assert judge_seeds(parse_gate("wait.mean > +1s"), slower).broken is True
    assert judge_seeds(parse_gate("unfinished > 0"), slower).broken is False
    few = {name: {s: one for s, one in part.items() if s < 4} for name, part in study(factor=1.5).items()}
    assert judge_seeds(parse_gate("wait.mean > +5%"), compare_seeds(few)).broken is None
    starved = study(factor=0.5)
    starved["second"][4] = summary("second", 4, {"a": [40.0], "b": [100.0, None]}, horizon=300)
    ruling = judge_seeds(parse_gate("wait.mean > +5%"), compare_seeds(starved))
    assert (ruling.broken, ruling.sound) == (None, False)
