"""``plan``: how large a cluster must be, and what becomes of it under more load or with nodes that fail.

The parts: ``goals`` (what is wanted, and whether days meet it), ``variants`` (a scenario with something changed),
``bisection`` (the smallest number that will do), ``formula`` (what queueing theory says). All is played on the same
seeds, so that what differs is the change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from pumice.errors import InvalidInput
from pumice.notebook import html_table
from pumice.sim.planning.formula import Demanded, demanded
from pumice.sim.planning.variants import Variant, nodes_of, play_variant, units_of
from pumice.sim.report import units
from pumice.sim.results.gates import Gate, parse_gate
from pumice.sim.results.intervals import FEWEST, mean_interval
from pumice.sim.results.summary import Summary
from pumice.sim.scenario import SimScenario
from pumice.sim.study.columns import ColumnTable, table
from pumice.sim.study.running import Played, StudyRun
from pumice.words import counted


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    answer: int | None
    """The smallest number that meets the goal, and with it every larger one that was tried; None if none does."""
    tried: tuple[int, ...]
    """In order."""
    broken: tuple[tuple[int, int], ...]
    """Pairs of which the smaller meets the goal and the larger does not: more is not always better."""


def smallest(meets: Callable[[int], bool], low: int, high: int, start: int) -> Found:
    """Return the smallest number from *low* to *high* that meets a goal, searched from *start* on.

    Doubles or halves from the start, then bisects, then looks at the neighbours of the answer: a goal that is met
    here and missed above is no rare thing where large jobs are let in by larger clusters.
    """
    known: dict[int, bool] = {}

    def met(number: int) -> bool:
        if number not in known:
            known[number] = meets(number)
        return known[number]

    at = min(max(start, low), high)
    if met(at):
        top, bottom = at, low - 1
        while top > low:
            below = max(low, top // 2)
            if not met(below):
                bottom = below
                break
            top = below
    else:
        bottom, top = at, high + 1
        while bottom < high:
            above = min(high, max(2 * bottom, 1))
            if met(above):
                top = above
                break
            bottom = above
    while True:
        top = _between(met, bottom, top)
        if top >= high or met(top + 1):
            break
        bottom = top + 1  # met here and missed above: look for the place from which on it is met
        top = min((number for number, good in known.items() if good and number > bottom), default=high + 1)
        if top > high and not met(high):
            break
        top = min(top, high)
    if low <= top - 2 <= high:
        met(top - 2)
    return _judged(known)


def first_from(met: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return a number from *low* to *high* that meets a goal, of which the one below was found not to; else ``None``.

    It steps up by 0, 1, 2, 4, … from *low* and bisects the last step.
    """
    below, step = low - 1, 0
    while True:
        at = min(low + step, high)
        if met(at):
            return _between(met, below, at)
        if at == high:
            return None
        below, step = at, max(1, 2 * step)


def _between(met: Callable[[int], bool], bottom: int, top: int) -> int:
    """The first that meets, between one that misses and one that meets."""
    while top - bottom > 1:
        middle = (top + bottom) // 2
        if met(middle):
            top = middle
        else:
            bottom = middle
    return top


def _judged(known: dict[int, bool]) -> Found:
    tried = tuple(sorted(known))
    answer = None
    for number in reversed(tried):
        if not known[number]:
            break
        answer = number
    broken = tuple((a, b) for a, b in pairwise(tried) if known[a] and not known[b])
    return Found(answer, tried, broken)


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


@dataclass(slots=True)
class VariantPlayer:
    """Plays variants of a scenario on the same seeds; each variant once."""

    scenario: SimScenario
    configuration: str
    seeds: Sequence[int]
    executor: Executor | None = None
    watch: Callable[[], None] = lambda: None
    keep: bool = False
    known: dict[Variant, dict[int, Played]] = field(default_factory=dict)

    def __call__(self, variant: Variant) -> Mapping[int, Played]:
        """Return the runs of a variant by seed.

        :raises PumiceError: a run was stopped.
        """
        if variant not in self.known:
            tasks = [StudyRun(self.configuration, seed) for seed in self.seeds]
            if self.executor is None:
                self.known[variant] = {
                    t.seed: self._told(play_variant(self.scenario, variant, t, keep=self.keep)) for t in tasks
                }
            else:
                packed = self.scenario.packed()
                asked = [self.executor.submit(play_variant, packed, variant, t, keep=self.keep) for t in tasks]
                try:
                    self.known[variant] = {
                        t.seed: self._told(one.result()) for t, one in zip(tasks, asked, strict=True)
                    }
                finally:
                    for one in asked:
                        one.cancel()
        return self.known[variant]

    def _told(self, done: Played) -> Played:
        self.watch()
        return done


@dataclass(frozen=True, slots=True)
class TriedSize:
    """One number of nodes: the figure there, and whether it meets the goal."""

    count: int
    days: int
    """How many days have a value of the figure."""
    judged: Judged | None
    """The result for the goal; ``None`` without results."""
    at_least: bool
    """The figure is a lower bound, as jobs were left waiting: the goal is missed."""
    never_fit: tuple[str, ...]
    formula: float | None
    """The number by the closed formula."""

    @property
    def meets(self) -> bool:
        """Whether the goal is met on the days that were played."""
        return self.judged is not None and self.judged.on_these_days and not self.at_least and not self.never_fit

    @property
    def word(self) -> str:
        """The certain verdict: ``met``, ``missed`` or ``perhaps``."""
        return "missed" if self.judged is None or self.at_least or self.never_fit else self.judged.word


@dataclass(frozen=True, slots=True)
class Sized:
    """How many nodes a goal needs."""

    group: str
    now: int
    found: Found
    """By the days that were played."""
    sure: int | None
    """The smallest number that was tried of which it is sure; ``None`` if of none."""
    tried: tuple[TriedSize, ...]
    by_formula: int | None
    """The smallest number by the closed formula; None where it has none to say."""

    def told(self) -> dict[str, Any]:
        """The same as data for programs."""
        return {
            "group": self.group,
            "now": self.now,
            "answer": self.sure,
            "on_these_days": self.found.answer,
            "by_formula": self.by_formula,
            "not_monotone": self.found.broken,
            "tried": [{**msgspec.to_builtins(one), "goal": one.word} for one in self.tried],
        }


def size(player: VariantPlayer, base: Variant, group: str, goal: Goal, low: int, high: int) -> Sized:
    """Return the smallest number of nodes of a group with which a goal is met on these days, and with confidence.

    :raises InvalidInput: there is no such group.
    :raises PumiceError: a run was stopped.
    """
    scenario = player.scenario
    now = len(nodes_of(scenario, group))
    seen: dict[int, TriedSize] = {}
    asked = _demanded(scenario, base, player.seeds)

    def meets(count: int) -> bool:
        variant = Variant(group, count, base.load, base.failure)
        seen[count] = tried_size(
            count, player(variant), goal, _formula(variant.of(scenario, player.seeds[0]), asked, goal)
        )
        return seen[count].meets

    def surely(count: int) -> bool:
        if count not in seen:
            meets(count)
        return seen[count].word == "met"

    found = smallest(meets, low, high, now)
    if found.answer is not None and len(player.seeds) >= (goal.days_needed or FEWEST):
        first_from(surely, found.answer, high)
    closed = None
    if asked is not None:
        wanted = ((n, _formula(Variant(group, n).of(scenario, 0), asked, goal)) for n in range(low, high + 1))
        closed = next((n for n, value in wanted if value is not None and goal.gate.holds(value, value)), None)
    tried = tuple(seen[count] for count in sorted(seen))
    sure = next((one.count for one in tried if one.word == "met"), None)
    return Sized(group, now, found, sure, tried, closed)


def tried_size(count: int, runs: Mapping[int, Played], goal: Goal, formula: float | None) -> TriedSize:
    """Return what the runs of one size say of a goal."""
    summaries: list[Summary] = [done.summary for done in runs.values()]
    metric = goal.gate.metric
    values = [known for one in summaries if (known := metric.of(one)) is not None]
    at_least = any(metric.at_least(one) for one in summaries)
    never = tuple(dict.fromkeys(text for done in runs.values() for text in done.never_fit))
    return TriedSize(count, len(values), goal.judge(values) if values else None, at_least, never, formula)


def _demanded(scenario: SimScenario, base: Variant, seeds: Sequence[int]) -> Demanded | None:
    loaded = Variant(load=base.load)
    drawn = [list(loaded.of(scenario, seed).drawn(seed).workload()) for seed in seeds]
    return demanded(drawn, gpus=units_of(scenario, gpus=True) > 0)


def _formula(scenario: SimScenario, asked: Demanded | None, goal: Goal) -> float | None:
    if asked is None:
        return None
    waits = asked.waits(units_of(scenario, gpus=asked.resource == "gpu"))
    return None if waits is None else waits.figure(goal.gate.metric.key)


@dataclass(frozen=True)
class ClusterPlan:
    """How many nodes a goal needs, and all sizes that were tried."""

    title: str
    sized: Sized
    goal: Goal
    days: int

    @property
    def answer(self) -> int | None:
        """The smallest number of nodes that surely meets the goal; ``None`` if none of those tried does."""
        return self.sized.sure

    @property
    def on_these_days(self) -> int | None:
        """The smallest number of nodes that meets the goal on the days that were played."""
        return self.sized.found.answer

    @property
    def sizes(self) -> ColumnTable:
        """One row for each size that was tried."""
        rows = [
            {
                "nodes": one.count,
                "mean": None if one.judged is None else one.judged.mean,
                "bound": None if one.judged is None or one.at_least else one.judged.bound,
                "days_met": 0 if one.judged is None else one.judged.days_met,
                "days": one.days,
                "goal": one.word,
            }
            for one in self.sized.tried
        ]
        return table(rows, ("nodes", "mean", "bound", "days_met", "days", "goal"))

    def __str__(self) -> str:
        return " ".join([answer_in_words(self.sized, self.goal), *remarks(self.sized, self.goal, self.days)])

    def _repr_html_(self) -> str:
        head, rows = sizes_in_words(self.sized, self.goal, self.days)
        title = f"{self.title}: {answer_in_words(self.sized, self.goal)}"
        return html_table(head, rows, title, remarks(self.sized, self.goal, self.days))


# -- in words -------------------------------------------------------------------------------------------------------
def sizes_in_words(sized: Sized, goal: Goal, days: int) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of sizes."""
    head = [sized.group, f"mean of {counted(days, 'day')}", f"surely {side(goal)}", "days met", "goal", "formula"]
    return head, [size_in_words(one, goal) for one in sized.tried]


def side(goal: Goal) -> str:
    """Return on which side of its number a goal wants the figure."""
    return "below" if goal.gate.sign.startswith("<") else "above"


def size_in_words(one: TriedSize, goal: Goal) -> list[str]:
    """Return a row of the table of sizes."""
    unit, found = goal.gate.metric.unit, one.judged
    value = units.amount(None if found is None else found.mean, unit, at_least=one.at_least)
    bound = units.NOTHING if found is None or one.at_least else units.amount(found.bound, unit)
    met = units.NOTHING if found is None else f"{found.days_met} of {one.days}"
    closed = units.NOTHING if one.formula is None else units.amount(one.formula, unit)
    return [str(one.count), value, bound, met, one.word, closed]


def answer_in_words(sized: Sized, goal: Goal) -> str:
    """Return how many nodes the goal needs, on the days that were played and with confidence."""
    days = max(one.days for one in sized.tried)
    if sized.found.answer is None:
        most = sized.tried[-1].count
        return f"{goal.text}: not met with up to {_nodes(most)} of {sized.group} (now {sized.now})."
    by = _nodes(sized.found.answer)
    if goal.share is None:
        text = f"{goal.text}: {by} of {sized.group} by the mean of {'this day' if days == 1 else f'these {days} days'}"
        confidence = CONFIDENCE
    else:
        one = next(tried for tried in sized.tried if tried.count == sized.found.answer)
        good = 0 if one.judged is None else one.judged.days_met
        text = f"{goal.text}: {by} of {sized.group} on the days played ({good} of {days})"
        confidence = SHARE_CONFIDENCE
    sure = "not known" if sized.sure is None else str(sized.sure)
    text += f"; {sure} with {100 * confidence:.0f} % confidence (now {sized.now})."
    if sized.by_formula is not None:
        text += f" A closed formula (M/G/c, no gangs, nodes or quotas) says {sized.by_formula}."
    return text


def remarks(sized: Sized, goal: Goal, seeds: int) -> list[str]:
    """Return what is doubtful about the answer."""
    said = [
        f"more is not always better here: {goal.text} is met with {_nodes(fewer)} and missed with {more}"
        for fewer, more in sized.found.broken
    ]
    needed, many = goal.days_needed, counted(seeds, "day")
    if needed is not None and seeds < needed:
        assert goal.share is not None
        part = f"{goal.share.numerator} in {goal.share.denominator}"
        said.append(f"{many} cannot tell whether the goal is met: at least {needed} are needed to be sure of {part}")
    elif needed is None and seeds < FEWEST:
        said.append(f"{many} cannot tell whether the goal is met or it was chance; at least {FEWEST} are needed")
    elif sized.found.answer is not None and sized.sure is None:
        most = sized.tried[-1].count
        said.append(f"it is not sure with up to {_nodes(most)} either; more days would tell, or a larger --between")
    never = next((tried.never_fit[0] for tried in sized.tried if tried.never_fit), None)
    if never is not None:
        said.append(never)
    return said


def _nodes(count: int) -> str:
    return counted(count, "node")


__all__ = [
    "ClusterPlan",
    "Goal",
    "Sized",
    "TriedSize",
    "Variant",
    "VariantPlayer",
    "answer_in_words",
    "remarks",
    "size",
    "tried_size",
]
