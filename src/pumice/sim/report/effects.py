"""Effects over many seeds, in words: one wording for the page and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pumice.sim.report import units
from pumice.sim.results.gates import Gate, Ruling
from pumice.sim.results.metrics import Unit
from pumice.sim.results.pairs import FEWEST, Effect, Interval
from pumice.sim.results.seeds import Driver, SeedComparison, SeedRow

SIGNS = {"better": "✓", "worse": "✗", "cannot tell": "~", "no change": "=", "not comparable": "?"}
HOW_TO_READ = (
    "Change: what a pair of runs of one seed differs by, on average; of times the typical ratio. Interval: where it "
    "lies with 95 % confidence. Each row is judged by itself: of twenty without any effect, one is told as a change."
)


def change(effect: Effect, unit: Unit) -> str:
    """Return the change: ``−40.2 %``, ``−2.9 points``."""
    estimate = effect.change.estimate
    return units.signed_percent(estimate) if effect.scale == "ratio" else units.signed(estimate, unit)


def limits(effect: Effect, unit: Unit) -> str:
    """Return the interval of a change: ``−63 … −3 %``; nothing where there are too few seeds for one.

    A limit that rounds to nothing keeps its sign: whether the interval holds zero decides the verdict.
    """
    low, high = effect.change.low, effect.change.high
    if low is None or high is None:
        return units.NOTHING
    if effect.scale == "ratio":
        return _between(*(units.signed_percent(limit).replace("±", _sign(limit)) for limit in (low, high)))
    return _between(*(units.signed(limit, unit).replace("±", _sign(limit)) for limit in (low, high)))


def _sign(value: float) -> str:
    return "+" if value > 0 else "−" if value < 0 else "±"


def value_limits(value: Interval, unit: Unit) -> str:
    """Return the interval of a figure itself."""
    if value.low is None or value.high is None:
        return units.NOTHING
    return _between(units.amount(value.low, unit), units.amount(value.high, unit))


def _between(low: str, high: str) -> str:
    """Two amounts; a unit that both have is said once (``10 … 14 min``, and ``10 min 3 s … 14 min 3 s``)."""
    (first, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{first} … {high}" if unit == other and not any(map(str.isdigit, unit)) else f"{low} … {high}"


def verdict(effect: Effect) -> str:
    """Return what can be said: ``✓ better``, ``~ cannot tell``."""
    return f"{SIGNS[effect.verdict]} {effect.verdict}"


def won(effect: Effect) -> str:
    """Return on how many seeds it was better: ``5 of 7``."""
    return f"{effect.better} of {effect.pairs}"


def ruling(found: Ruling) -> str:
    """Return what a rule for CI was judged by: ``mine: +12.0 … +31.5 %``, ``mine: ≥ 5 h 1 min``."""
    who = f"{found.run}: " if found.run else ""
    if found.why:
        return who + found.why
    low, high = found.limits
    if math.isinf(low) and math.isinf(high):
        return f"{who}there are too few seeds for an interval, at least {FEWEST} are needed"
    first, last = _of_kind(found.gate, low), _of_kind(found.gate, high)
    return f"{who}{units.AT_LEAST if found.at_least else ''}{first if low == high else _between(first, last)}"


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
    wait = next((row for row in comparison.overall if row.key == "wait.mean"), None)
    for at, name in enumerate(comparison.configurations[1:], 1):
        drivers = [driver for driver in comparison.drivers if driver.configuration == name]
        if drivers:
            said.append(f"waiting under {name}: {'; '.join(_driver(driver, noun) for driver in drivers)}")
        if wait is not None and (effect := wait.effects[at]) is not None and effect.advised:
            said.append(
                f"to tell a change of {change(effect, wait.unit)} in the mean wait under {name} from chance: about "
                f"{effect.advised:,} {noun}s"
            )
        said += _incomparable(name, at, comparison.overall)
    tried = len(comparison.configurations) - 1
    if tried > 1:
        last = comparison.seeds[-1]
        said.append(
            f"{tried} configurations were tried on these seeds, and the best of many looks better than it is: play "
            f"the one you choose on others, such as --seeds {last + 1}..{last + max(len(comparison.seeds), FEWEST)}"
        )
    if len(comparison.configurations) > 1 and len(comparison.seeds) < FEWEST:
        many = len(comparison.seeds)
        said.append(
            f"{many} {noun}{'' if many == 1 else 's'} cannot tell a change from chance; at least {FEWEST} are needed"
        )
    return said


def _driver(driver: Driver, noun: str) -> str:
    part = f"{100 * driver.part:.0f} %" if driver.part < 2 else f"{driver.part:.1f} times"
    where = {
        "seed": f"on {noun} {driver.name}",
        "queue": f"in queue {driver.name}",
        "size": f"in jobs of {driver.name}",
    }
    return f"{part} of the difference is {where[driver.kind]}"


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
