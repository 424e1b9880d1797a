"""``--fail-if 'wait.p95 > +5%'``, ``--fail-unless 'wait.mean < +5%'``: rules about figures, for CI.

A rule is broken, kept, or it cannot be told, so that more evidence never turns it off. A number with a sign is a change
against the first configuration (in percent of it, or in the figure's own unit), one without is the figure itself.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.sim.results.comparison import Comparison
from pumice.sim.results.intervals import Interval
from pumice.sim.results.metrics import Metric, metric
from pumice.sim.results.seeds import SeedComparison, SeedRow
from pumice.sim.results.summary import Summary

Kind = Literal["relative", "difference", "value"]
_RULE = re.compile(r"\s*([a-z0-9_.]+)\s*(>=|<=|>|<)\s*([+-]?)\s*([0-9][0-9.]*)\s*([a-z%][a-z0-9.]*|)\s*")
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


OTHER_JOBS: Final = "not comparable, for not the same jobs were finished"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition under which a comparison fails."""

    text: str
    metric: Metric[Summary]
    sign: str
    bound: float
    kind: Kind
    unless: bool = False
    """It is broken if the condition does not hold."""

    def breaks(self, low: float, high: float) -> bool | None:
        """Return whether values from *low* to *high* break the rule; ``None`` if it cannot be told."""
        held = self.holds(low, high)
        return None if held is None else held != self.unless

    def holds(self, low: float, high: float) -> bool | None:
        """Return whether the condition holds for all values from *low* to *high*, for none, or (None) for some."""
        found = {_COMPARE[self.sign](value, self.bound) for value in (low, high)}
        return found.pop() if len(found) == 1 else None


def parse_gate(text: str, such_as: str = "'wait.p95 > +5%', 'unfinished > 0'", *, unless: bool = False) -> Gate:
    """Return the rule that *text* writes; *such_as* is what an example looks like.

    :raises InvalidInput: it is none; says what one looks like.
    """
    match = _RULE.fullmatch(text.lower())
    if match is None:
        raise InvalidInput(f"{text!r}: must be a figure, a comparison and a number, such as {such_as}")
    name, sign, way, number, unit = match.groups()
    figure = metric(name)
    bound, relative = _bound(figure, number, unit, bool(way), text)
    bound = -bound if way == "-" else bound
    kind: Kind = "relative" if relative else "difference" if way else "value"
    return Gate(text.strip(), figure, sign, bound, kind, unless)


def _bound(figure: Metric[Summary], number: str, unit: str, signed: bool, text: str) -> tuple[float, bool]:
    """The number in the figure's own unit, and whether it is a part of the first configuration's value."""
    try:
        value = float(number)
    except ValueError:
        raise InvalidInput(f"{text!r}: {number!r} is no number") from None
    if unit == "%" and (signed or figure.unit == "share"):
        return value / 100, signed
    if unit == "points" and figure.unit == "share":
        return value / 100, False
    if figure.unit == "seconds" and unit not in ("", "%", "points"):
        try:
            return parse_duration(number + unit, days=True) / SECOND, False
        except InvalidInput as exc:
            raise InvalidInput(f"{text!r}: {exc}") from exc
    if unit:
        raise InvalidInput(f"{text!r}: {figure.key} has no unit {unit!r}")
    return value, False


@dataclass(frozen=True, slots=True)
class Ruling:
    """The result of a rule; `broken` is None if it cannot be decided."""

    gate: Gate
    broken: bool | None
    run: str
    """The one that decides it."""
    why: str = ""
    """The obstacle to a judgement; empty if there are figures."""
    limits: tuple[float, float] = (math.nan, math.nan)
    """The interval of the figure, or of its change as the rule wants it: in its unit, or as a part."""
    at_least: bool = False
    sound: bool = True
    """False where the figures do not allow a judgement at all: that is as bad as a broken rule."""


def judge(gate: Gate, comparison: Comparison) -> Ruling:
    """Return whether a comparison of single runs breaks the rule, in any run but the first (or in the only one)."""
    row = next((row for row in comparison.overall if row.key == gate.metric.key), None)
    rulings = []
    for at, run in enumerate(comparison.runs):
        if at == 0 and len(comparison.runs) > 1:
            continue
        if row is None or (value := row.values[at]) is None:
            rulings.append(Ruling(gate, None, run, "has no such figure", sound=False))
        elif gate.kind == "value":
            rulings.append(_value(gate, run, value, value, row.at_least[at]))
        else:
            change = row.changes[at]
            step = None if change is None else change.relative if gate.kind == "relative" else change.absolute
            if change is None or step is None:
                rulings.append(Ruling(gate, None, run, "there is nothing to compare it with", sound=False))
            elif not change.comparable:
                rulings.append(Ruling(gate, None, run, OTHER_JOBS, sound=False))
            else:
                rulings.append(_step(gate, run, step, step))
    return worst(gate, rulings)


def judge_seeds(gate: Gate, comparison: SeedComparison) -> Ruling:
    """Return whether a comparison over seeds surely breaks the rule: whether all of the 95 % interval does."""
    row = next((row for row in comparison.overall if row.key == gate.metric.key), None)
    rulings = []
    for at, name in enumerate(comparison.configurations):
        if at == 0 and len(comparison.configurations) > 1:
            continue
        if row is None or (value := row.values[at]) is None:
            rulings.append(Ruling(gate, None, name, "has no such figure", sound=False))
        elif gate.kind == "value":
            rulings.append(_value(gate, name, *_ends(value, comparison.alike), row.at_least[at]))
        else:
            effect = row.effects[at]
            base = row.values[0]
            if effect is None or base is None or (gate.kind == "relative" and not base.estimate and effect.differ):
                rulings.append(Ruling(gate, None, name, "there is nothing to compare it with", sound=False))
            elif effect.verdict == "not comparable":
                rulings.append(Ruling(gate, None, name, OTHER_JOBS, sound=False))
            else:
                rulings.append(_step(gate, name, *_in_kind(gate, row, at, *_ends(effect.change, comparison.alike))))
    return worst(gate, rulings)


def _in_kind(gate: Gate, row: SeedRow, at: int, low: float, high: float) -> tuple[float, float]:
    """The limits of an effect as a part of the first value, or in the figure's unit, as the rule wants it."""
    effect, base = row.effects[at], row.values[0]
    assert effect is not None
    assert base is not None
    if (gate.kind == "relative") == (effect.scale == "ratio"):
        return low, high
    size = abs(base.estimate) or 1.0  # nothing of nothing: no pair differs
    return (low / size, high / size) if gate.kind == "relative" else (low * size, high * size)


def _ends(found: Interval, exact: bool) -> tuple[float, float]:
    if exact:
        return found.estimate, found.estimate
    return (-math.inf if found.low is None else found.low, math.inf if found.high is None else found.high)


def _value(gate: Gate, run: str, low: float, high: float, at_least: bool) -> Ruling:
    broken = gate.breaks(low, math.inf if at_least else high)
    return Ruling(gate, broken, run, limits=(low, high), at_least=at_least, sound=not at_least or bool(broken))


def _step(gate: Gate, run: str, low: float, high: float) -> Ruling:
    return Ruling(gate, gate.breaks(low, high), run, limits=(low, high))


def worst(gate: Gate, rulings: Sequence[Ruling]) -> Ruling:
    """Return the ruling that counts: broken before not to be judged before cannot tell before kept."""
    order = sorted(rulings, key=lambda ruling: (ruling.broken is not True, ruling.sound, ruling.broken is not None))
    return order[0] if order else Ruling(gate, None, "", "there is nothing to compare", sound=False)
