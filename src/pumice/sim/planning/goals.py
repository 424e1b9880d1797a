"""A goal as it is written: the mean over the days or a share of them, and whether days that were played meet it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from pumice.errors import InvalidInput
from pumice.sim.results.gates import Gate, parse_gate
from pumice.sim.results.intervals import mean_interval

SUCH_AS: Final = "'wait.p95 < 10m', 'wait.mean < 10m on 9 of 10 days', 'utilisation.gpu > 70%'"
CONFIDENCE: Final = 0.95
"""The confidence of the bound of a mean."""
SHARE_CONFIDENCE: Final = 0.9
"""The confidence of a share of days: 95 % would ask for 29 days to be sure of 9 in 10, 90 % for 22."""
DAYS: Final = 22
"""Days that are played if nothing is said: the fewest that can be sure of 9 in 10."""
_GOAL = re.compile(r"(?P<rule>.*?)(?:\s+(?:(?P<mean>mean over days)|on\s+(?P<of>\d+)\s+of\s+(?P<all>\d+)\s+days))?\s*")

Word = Literal["met", "perhaps", "missed"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The evidence of days for a goal."""

    word: Word
    """``met`` or ``missed`` if that is sure, else ``perhaps``."""
    on_these_days: bool
    """Whether the goal is met on the days that were played, sure or not."""
    mean: float
    bound: float | None
    """The mean surely lies on the good side of this; ``None`` if the days do not bound it."""
    days_met: int


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, a bound, and on how many days it must hold; of the mean over all days if no share is said."""

    gate: Gate
    share: Fraction | None = None

    @property
    def text(self) -> str:
        """The goal as a reader writes it."""
        if self.share is None:
            return self.gate.text
        return f"{self.gate.text} on {self.share.numerator} of {self.share.denominator} days"

    @property
    def days_needed(self) -> int | None:
        """The fewest days that can be sure of the share, all of them good; ``None`` for a mean."""
        if self.share is None or self.share == 1:
            return None
        return math.ceil(math.log(1 - SHARE_CONFIDENCE) / math.log(self.share))

    def judge(self, values: Sequence[float]) -> Judged:
        """Return what the figure on so many days says of the goal."""
        good, mean = sum(bool(self.gate.holds(one, one)) for one in values), math.fsum(values) / len(values)
        found = mean_interval(values, 2 * (1 - CONFIDENCE))  # one side of it holds with the confidence
        upwards = self.gate.sign.startswith("<")
        bound, other = (found.high, found.low) if upwards else (found.low, found.high)
        if self.share is not None:
            met = good >= self.share * len(values)
            word = self._of_share(good, len(values))
        else:
            met = bool(self.gate.holds(mean, mean))
            sure = bound is not None and self.gate.holds(bound, bound)
            lost = other is not None and not self.gate.holds(other, other)
            word = "met" if sure else "missed" if lost else "perhaps"
        return Judged(word, met, mean, bound, good)

    def _of_share(self, good: int, days: int) -> Word:
        assert self.share is not None
        part = float(self.share)
        if _at_least(good, days, part) <= 1 - SHARE_CONFIDENCE:
            return "met"  # so many good days are rare if fewer than the share of all days are good
        return "missed" if 1 - _at_least(good + 1, days, part) <= 1 - SHARE_CONFIDENCE else "perhaps"


def parse_goal(text: str) -> Goal:
    """Return the goal that ``wait.mean < 10m`` or ``wait.mean < 10m on 9 of 10 days`` writes.

    :raises InvalidInput: it is none.
    """
    match = _GOAL.fullmatch(text.strip())
    assert match is not None
    gate = parse_gate(match["rule"], SUCH_AS)
    if gate.kind != "value":
        raise InvalidInput(f"{text!r}: a goal is about the figure itself, so its number has no sign")
    if match["of"] is None:
        return Goal(gate)
    of, every = int(match["of"]), int(match["all"])
    if not 0 < of < every:
        raise InvalidInput(f"{text!r}: must be fewer days of more, such as 9 of 10, got {of} of {every}")
    return Goal(gate, Fraction(of, every))


def _at_least(good: int, days: int, part: float) -> float:
    """The probability of so many good days or more, if each is good with the probability *part*."""
    return math.fsum(math.comb(days, k) * part**k * (1 - part) ** (days - k) for k in range(good, days + 1))
