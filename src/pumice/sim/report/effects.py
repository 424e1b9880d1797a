"""Effects over many seeds, in words: one wording for the page and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pumice.sim.report import units
from pumice.sim.results.gates import Gate, Ruling
from pumice.sim.results.intervals import FEWEST, SURE, Effect, Interval, Verdict, unseen
from pumice.sim.results.metrics import Metric, Unit
from pumice.sim.results.records import BLOCKS, SHAKEN
from pumice.sim.results.seeds import Driver, SeedComparison, SeedRow
from pumice.sim.results.summary import Summary

if TYPE_CHECKING:
    from pumice.sim.study.running import Look

SIGNS: Final[dict[Verdict, str]] = {
    "better": "✓",
    "worse": "✗",
    "mostly better": "✓",
    "mostly worse": "✗",
    "cannot tell": "~",
    "no difference seen": "=",
    "too few": "·",
    "not comparable": "?",
}
ROUGH_BELOW: Final = 10
"""Parts of a trace below which their interval is called rough: of 6 to 9 weeks it misses 7 to 14 % of other weeks."""
UNJUDGED: Final[frozenset[Verdict]] = frozenset({"no difference seen", "not comparable"})
"""Verdicts beside which no change is shown."""
MEANS = (
    "Values are means over the {noun}s. The change of a time is that of the mean over all {noun}s, so a bad {noun} "
    "weighs as much as it lasts; the change of all else is a difference."
)
COVERAGE = (
    "The interval holds the change of the mean with 95 % confidence. In tests on simulated days it missed 2 to 9 %; "
    "where a few rare seeds make most of the change, up to 20 %."
)
MOSTLY = "Mostly better: better on more {noun}s than chance allows; whether the mean falls cannot be told."


def how_to_read(comparison: SeedComparison) -> str:
    """Return what values, changes and verdicts of a comparison mean."""
    noun, count = comparison.each.partition(" ")[0], len(comparison.seeds)
    said = [MEANS.format(noun=noun), COVERAGE]
    if count >= FEWEST:
        said.append(f"What happens on fewer than 1 {noun} in {count // 3} may not be among these {count}.")
    if any(e is not None and e.verdict.startswith("mostly") for row in comparison.overall for e in row.effects):
        said.append(MOSTLY.format(noun=noun))
    label = next((row.label for row in comparison.overall if row.key == comparison.primary), comparison.primary)
    said.append(
        f"{label} was declared as the figure to judge by. The others are exploratory: of those marked without "
        "brackets about 1 in 20 is chance; one in brackets may well be."
    )
    return " ".join(said)


def sentence(comparison: SeedComparison) -> str:
    """Return the verdict on the primary figure, and in which other figures a configuration is better or worse."""
    base, *others = comparison.configurations
    said: list[str] = []
    for at, name in enumerate(others, 1):
        judged = [(row, effect) for row in comparison.overall if (effect := row.effects[at]) is not None]
        for row, effect in judged:
            if row.key == comparison.primary:
                told = f"{_noun(row)} {change(effect, row.unit)} ({limits(effect, row.unit)})"
                sure = effect.verdict in SURE
                said.append(f"{name} is {effect.verdict} than {base}: {told}." if sure else _unsure(name, base, row))
        rest = [(row, effect) for row, effect in judged if row.key != comparison.primary and not effect.alone]
        for verdict in ("better", "worse"):
            found = [_noun(row) for row, effect in rest if effect.verdict == verdict]
            said += [f"Also {verdict}: {', '.join(found)}."] if found else []
        if not any(effect.verdict.endswith("worse") for _, effect in judged):
            said.append("No figure is clearly worse.")
    return " ".join(said)


def _unsure(name: str, base: str, row: SeedRow) -> str:
    return f"{name} against {base}: no clear difference in {_noun(row)}."


def _noun(row: SeedRow) -> str:
    """Return the name of a figure within a sentence: ``Wait, mean`` is the mean wait."""
    what, comma, which = row.label.partition(", ")
    within = what if what[:2].isupper() else f"{what[0].lower()}{what[1:]}"
    return f"{which} {within}" if comma else within


LARGE: Final = 2.0
"""A relative change from which on a factor says more than a percentage: three times as long."""


def change(effect: Effect, unit: Unit) -> str:
    """Return the change: ``−40.2 %``, ``9.4 × as long``, ``−2.9 points``."""
    estimate = effect.change.estimate
    if effect.scale != "ratio":
        return units.signed(estimate, unit)
    return units.signed_percent(estimate) if estimate < LARGE else f"{units.ratio(1 + estimate)} as long"


def limits(effect: Effect, unit: Unit) -> str:
    """Return the interval of a change: ``−63.0 … −3.0 %``, ``1.02 … 150 ×``; nothing with too few seeds for one.

    A limit that rounds to nothing has one digit more: whether the interval holds zero decides the verdict.
    """
    ends = (effect.change.low, effect.change.high)
    if effect.scale == "ratio" and (effect.change.estimate >= LARGE or any(end >= LARGE for end in ends if end)):
        return _ends(*(None if end is None else units.ratio(1 + end) for end in ends))
    return _ends(*(None if end is None else _limit(end, effect, unit) for end in ends))


def _limit(end: float, effect: Effect, unit: Unit) -> str:
    said = units.signed_percent(end) if effect.scale == "ratio" else units.signed(end, unit)
    if end and "±" in said and (effect.scale == "ratio" or unit == "share"):
        said = f"{_sign(end)}{100 * abs(end):.2f} {'%' if effect.scale == 'ratio' else 'points'}"
    return said.replace("±", _sign(end))


def _ends(low: str | None, high: str | None) -> str:
    if low is None or high is None:
        return f"above {low}" if low is not None else f"below {high}" if high is not None else units.NOTHING
    return _between(low, high)


def _sign(value: float) -> str:
    return "+" if value > 0 else "−" if value < 0 else "±"


def value_limits(value: Interval, unit: Unit) -> str:
    """Return the interval of a figure itself."""
    return _ends(*(None if end is None else units.amount(end, unit) for end in (value.low, value.high)))


def _between(low: str, high: str) -> str:
    """Two amounts; a unit that both have is said once (``10 … 14 min``, and ``10 min 3 s … 14 min 3 s``)."""
    (first, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{first} … {high}" if unit == other and not any(map(str.isdigit, unit)) else f"{low} … {high}"


def verdict(effect: Effect) -> str:
    """Return what can be said: ``✓ better``, ``(✓) better`` of an exploratory figure, ``· too few: 3 of 10 differ``."""
    more = {
        "mostly better": ", mean unsure",
        "mostly worse": ", mean unsure",
        "too few": f": {effect.differ} of {effect.pairs} differ",
    }
    sign = f"({SIGNS[effect.verdict]})" if effect.alone else SIGNS[effect.verdict]
    return f"{sign} {effect.verdict}{more.get(effect.verdict, '')}"


def sign(effect: Effect) -> str:
    """Return the verdict for a narrow column: ``✓``, ``(✓)``, ``✓ mostly``."""
    mostly = " mostly" if effect.verdict.startswith("mostly") else ""
    return f"({SIGNS[effect.verdict]})" if effect.alone else SIGNS[effect.verdict] + mostly


def won(effect: Effect) -> str:
    """Return on how many seeds it was better: ``5 of 7``."""
    return f"{effect.better} of {effect.pairs}"


def look(found: Look, figure: Metric[Summary]) -> str:
    """Return how well a figure is known: ``−12.1 % ± 4.6 %``, ``8 min 3 s ± 11.0 %``."""
    if found.found is None:
        return f"{figure.label} has no value"
    if found.scale is None:
        estimate = units.amount(found.found.estimate, figure.unit)
    elif found.scale == "ratio":
        estimate = units.signed_percent(found.found.estimate)
    else:
        estimate = units.signed(found.found.estimate, figure.unit)
    half = "without a limit" if math.isinf(found.half) else f"± {100 * found.half:.1f} %"
    return f"{figure.label} {estimate} {half}"


def seeds_wanted(found: Look, part: float) -> str:
    """Return how many seeds would make it sure, as the interval narrows with the root of their number."""
    if math.isinf(found.half) or found.half <= part:
        return ""
    return f"; about {math.ceil(found.seeds * (found.half / part) ** 2):,} would be needed"


def ruling(found: Ruling) -> str:
    """Return what a rule for CI was judged by: ``mine: +12.0 … +31.5 %``, ``mine: ≥ 5 h 1 min``."""
    who = f"{found.run}: " if found.run else ""
    if found.why:
        return who + found.why
    low, high = found.limits
    if math.isinf(low) and math.isinf(high):
        return f"{who}there are too few seeds for an interval; at least {FEWEST} that differ are needed"
    first, last = (None if math.isinf(end) else _of_kind(found.gate, end) for end in (low, high))
    same = first if low == high else None
    return f"{who}{units.AT_LEAST if found.at_least else ''}{same or _ends(first, last)}"


def _of_kind(gate: Gate, value: float) -> str:
    match gate.kind:
        case "relative":
            return units.signed_percent(value)
        case "difference":
            return units.signed(value, gate.metric.unit)
        case "value":
            return units.amount(value, gate.metric.unit)


def says_something(row: SeedRow) -> bool:
    """Whether a row is worth its place: where all is zero only that of unfinished jobs is."""
    return row.key == "unfinished" or any(map(any, row.by_seed))


def seeds(numbers: Sequence[int], each: str = "seed") -> str:
    """Return seeds in words: ``seeds 1 to 7``, ``seed 4``, ``seeds 1, 3, 9``; or ``parts 8 to 14 (of 7 d)``."""
    noun, _, rest = each.partition(" ")
    more = f" ({rest})" if rest else ""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}{more}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{noun}s {numbers[0]} to {numbers[-1]}{more}"
    return f"{noun}s {', '.join(map(str, numbers))}{more}"


def remarks(comparison: SeedComparison) -> list[str]:
    """Return what a reader should know beside the table: what drives a difference, what stands against a verdict."""
    said: list[str] = []
    noun = comparison.each.partition(" ")[0]
    primary = next((row for row in comparison.overall if row.key == comparison.primary), None)
    for at, name in enumerate(comparison.configurations[1:], 1):
        drivers = [driver for driver in comparison.drivers if driver.configuration == name]
        if drivers:
            said.append(f"waiting under {name}: {'; '.join(_driver(driver, noun) for driver in drivers)}")
        if primary is not None and (effect := primary.effects[at]) is not None:
            said += _doubts(primary, effect, name, noun)
        said += _incomparable(name, at, comparison.overall)
    said += _of_one_trace(comparison)
    tried = len(comparison.configurations) - 1
    if tried > 1:
        last = comparison.seeds[-1]
        fresh = f", such as --seeds {last + 1}..{last + max(len(comparison.seeds), FEWEST)}" if noun == "seed" else ""
        said.append(
            f"{tried} configurations were tried on these {noun}s, and the best of many looks better than it is: play "
            f"the one you choose on others{fresh}"
        )
    if len(comparison.configurations) > 1 and len(comparison.seeds) < FEWEST and comparison.each != BLOCKS:
        many = len(comparison.seeds)
        said.append(
            f"{many} {noun}{'' if many == 1 else 's'} cannot tell a change from chance; at least {FEWEST} are needed"
        )
    return said


def _of_one_trace(comparison: SeedComparison) -> list[str]:
    """The limits of runs of one trace: they say nothing about other weeks."""
    count, each = len(comparison.seeds), comparison.each
    if each == SHAKEN:
        return [
            "on this trace: its jobs, moved a little by the seed; other weeks may differ (--split 7d plays its parts)"
        ]
    if each == BLOCKS:
        return [
            "seeds that draw the parts of one trace anew share them, so they are no independent evidence and have no "
            "interval; --split 7d plays each part once, as pairs"
        ]
    if not each.startswith("part"):
        return []
    if count < FEWEST:
        return [f"this trace has {count} parts; {FEWEST} are the least to speak of other weeks, {ROUGH_BELOW} are good"]
    return [f"rough: from {count} parts of one trace; {ROUGH_BELOW} are good"] if count < ROUGH_BELOW else []


def _doubts(row: SeedRow, effect: Effect, name: str, noun: str) -> list[str]:
    """The number of pairs that could decide about the primary figure, if these cannot."""
    what = f"{row.label} under {name}"
    if effect.verdict == "no difference seen" and effect.pairs >= FEWEST:
        share = f"{100 * unseen(effect.pairs):.0f} %"
        return [f"{what}: no difference seen on {effect.pairs} {noun}s; up to {share} of {noun}s may still differ"]
    if effect.verdict == "too few" and effect.pairs >= FEWEST:
        return [
            f"{what}: too few: {effect.differ} of {effect.pairs} {noun}s differ, {FEWEST} are needed; try at least "
            f"{effect.advised:,} {noun}s"
        ]
    if effect.differ >= FEWEST and not effect.change.bounded and effect.verdict not in SURE:
        side = "upper" if effect.change.high is None else "lower"
        return [f"{what}: the change has no {side} limit in these data; more {noun}s are needed"]
    if effect.advised and effect.pairs >= FEWEST:
        return [
            f"to tell a change of {change(effect, row.unit)} in {row.label} under {name} from chance: about "
            f"{effect.advised:,} {noun}s"
        ]
    return []


def _driver(driver: Driver, noun: str) -> str:
    where = {
        "seed": f"on {noun} {driver.name}",
        "queue": f"in queue {driver.name}",
        "size": f"in jobs of {driver.name}",
    }
    if driver.part > 1:
        return f"all of the difference is {where[driver.kind]}; elsewhere it goes the other way"
    return f"{100 * driver.part:.0f} % of the difference is {where[driver.kind]}"


def _and_more(seeds: int) -> str:
    return f"; and on {seeds} more seed{'' if seeds == 1 else 's'}" if seeds else ""


def _incomparable(name: str, at: int, rows: Sequence[SeedRow]) -> list[str]:
    """Why figures cannot be compared: one sentence for all that have the same reason."""
    by_reason: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        effect = row.effects[at]
        if effect is not None and effect.verdict == "not comparable":
            by_reason.setdefault(effect.against, []).append(row.label)
    return [
        f"{name}: {', '.join(labels)} cannot be compared, for not the same jobs were finished: give it a longer "
        f"horizon ({reason[0]}{_and_more(len(reason) - 1)})"
        for reason, labels in by_reason.items()
    ]
