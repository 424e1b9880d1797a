"""The parts of the page that tell of configurations over many seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pumice.sim.report import charts, effects, tables, units
from pumice.sim.report.charts import percent
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.sections import card, folded, over_time, remarks
from pumice.sim.results.intervals import SURE, Effect
from pumice.sim.results.records import RunRecord
from pumice.sim.results.seeds import SeedComparison, SeedRow, SeedTable

_HEADLINES = ("wait.mean", "unfinished", "utilisation.gpu", "utilisation.cpu", "fragmentation", "evictions")
_TILES = 4
_STRIPS = ("wait.mean", "wait.p95", "jct.mean", "utilisation.gpu", "fragmentation", "fairness.service")
_SHORTEST_S = 1.0
"""On the strip of pairs a shorter time is drawn as this one: a ratio needs something to divide by."""
_GROUP_FIGURES = ("wait.mean", "wait.p95", "jct.mean", "unfinished")


def seed_sections(comparison: SeedComparison, runs: Sequence[RunRecord] = ()) -> list[Markup]:
    """Return what the seeds say together, the verdicts first."""
    names = comparison.configurations
    rows = [row for row in comparison.overall if effects.says_something(row)]
    colours = charts.run_colours(runs)
    note = f"Of {comparison.each.partition(' ')[0]} {runs[0].seed if runs else ''}, one of those that were played."
    parts = [
        *([tag("p", effects.sentence(comparison), class_="verdict")] if len(names) > 1 else []),
        tag("p", _in_words(comparison), class_="lead"),
        *([over_time(runs, colours, note)] if len(runs) > 1 and runs[0].jobs else []),
        tag("div", *(_tile(row, names) for row in _headlines(comparison)), class_="tiles"),
        *remarks(comparison.warnings, [*effects.remarks(comparison), *comparison.notes]),
    ]
    if len(names) == 1:
        return [
            *parts,
            card(
                "Figures",
                f"Over {effects.seeds(comparison.seeds, comparison.each)}.",
                _alone(rows),
                anchor="seeds-figures",
            ),
        ]
    for at in range(1, len(names)):
        parts.append(
            card(
                f"{names[at]} against {names[0]}",
                effects.how_to_read(comparison),
                _table("Figure", [(row.label, row) for row in rows], names, at),
                anchor=f"seeds-{at}",
            )
        )
        noun = comparison.each.partition(" ")[0]
        strips = [_strip(row, comparison.seeds, at, noun) for key in _STRIPS for row in rows if row.key == key]
        parts.append(
            card(
                f"{noun.capitalize()} by {noun}: {names[at]}",
                f"A dot is one {noun}: what changed in that pair of runs. The bar is the 95 % interval of the change, "
                "the line in the middle is no change.",
                tag("div", *filter(None, strips), class_="gantt strips"),
                anchor=f"seeds-{at}-pairs",
            )
        )
        for title, groups in (("By queue", comparison.by_queue), ("By size", comparison.by_size)):
            note = "Figures of a part of the jobs, judged as above."
            parts.append(folded(f"{title}: {names[at]}", note, _groups(groups, names, at)))
    return parts


def _in_words(comparison: SeedComparison) -> str:
    *others, last = comparison.configurations
    what = f"{', '.join(others)} and {last}, pair by pair" if others else last
    return f"{what}, {effects.seeds(comparison.seeds, comparison.each)}."


def _headlines(comparison: SeedComparison) -> list[SeedRow]:
    rows = {row.key: row for row in comparison.overall}
    keys = [key for key in _HEADLINES if key in rows]
    if "utilisation.gpu" in keys:
        keys.remove("utilisation.cpu")
    return [rows[key] for key in keys][:_TILES]


def _tile(row: SeedRow, names: Sequence[str]) -> Markup:
    means = [0.0 if value is None else abs(value.estimate) for value in row.values]
    most = max(means) or 1.0
    lines = []
    for at, name in enumerate(names):
        effect = row.effects[at]
        step = "" if effect is None else _judged(effect, row)
        said = tag("span", tag("small", name), tag("b", _value(row, at)), step, class_="said")
        bar = tag("i", style=f"width:{percent(means[at] / most)}", class_=f"c{at % charts.COLOURS}")
        lines.append(tag("li", said, tag("span", bar, class_="gauge")))
    return tag("div", tag("h3", row.label), tag("ul", *lines, class_="headline"), class_="tile")


def _judged(effect: Effect, row: SeedRow) -> Markup:
    """The change with its sign, or that there is nothing to tell."""
    told = effect.verdict in SURE
    words = effects.change(effect, row.unit) if told else effect.verdict
    return tag("small", f"{effects.SIGNS[effect.verdict]} {words}", class_=f"step {effect.verdict.split()[0]}")


def _value(row: SeedRow, at: int) -> str:
    value = row.values[at]
    return units.amount(None if value is None else value.estimate, row.unit, at_least=row.at_least[at])


def _table(kind: str, rows: Sequence[tuple[str, SeedRow]], names: Sequence[str], at: int) -> Markup:
    body = []
    for label, row in rows:
        effect = row.effects[at]
        cells: list[str] = [label, _value(row, 0), _value(row, at)]
        if effect is None:
            cells += [units.NOTHING] * 4
        else:
            told = effect.verdict not in effects.UNJUDGED
            words = [effects.change(effect, row.unit), effects.limits(effect, row.unit), effects.won(effect)]
            cells += [text if told else "" for text in words]
            cells.append(tag("span", effects.verdict(effect), class_=f"step {effect.verdict.split()[0]}"))
        body.append(cells)
    head = [kind, names[0], names[at], "Change", "95 % interval", "Better on", "Verdict"]
    return tables.table(head, body, class_="judged")


def _groups(groups: Sequence[SeedTable], names: Sequence[str], at: int) -> Markup:
    rows = [
        (f"{group.name}: {row.label[0].lower()}{row.label[1:]}", row)
        for group in groups
        for row in group.rows
        if row.key in _GROUP_FIGURES and (row.key != "unfinished" or any(map(any, row.by_seed)))
    ]
    return _table("Part", rows, names, at)


def _alone(rows: Sequence[SeedRow]) -> Markup:
    body = []
    for row in rows:
        value = row.values[0]
        known = [one for one in row.by_seed[0] if one is not None]
        if value is not None:
            ends = [units.amount(end, row.unit) for end in (min(known), max(known))]
            body.append([row.label, _value(row, 0), effects.value_limits(value, row.unit), *ends])
    return tables.table(["Figure", "Mean", "95 % interval", "Lowest", "Highest"], body)


# -- the strip of dots ----------------------------------------------------------------------------------------------
def _strip(row: SeedRow, seeds: Sequence[int], at: int, noun: str) -> Markup | None:
    """One line: a dot for each seed at its change, over the interval; None where no pair has both values."""
    effect = row.effects[at]
    if effect is None:
        return None
    pairs = [(seed, _step(effect, a, b)) for seed, a, b in zip(seeds, row.by_seed[0], row.by_seed[at], strict=True)
             if a is not None and b is not None]  # fmt: skip
    change = effect.change
    ends = [_place(effect, end) for end in (change.low, change.high) if end is not None]
    reach = max(max(map(abs, (step for _, step in pairs)), default=0.0), *map(abs, ends), 0.0) * 1.08
    if not reach:
        return None
    dots = []
    for seed, step in pairs:
        good = "same" if not step else "better" if (step < 0) == (row.better == "lower") else "worse"
        words = units.signed_percent(math.expm1(step)) if effect.scale == "ratio" else units.signed(step, row.unit)
        dots.append(tag("i", class_=f"dot {good}", style=f"left:{percent(_at(step, reach))}",
                        data_tip=f"{noun} {seed}\n{words}"))  # fmt: skip
    bar: list[Markup] = []
    if len(ends) == 2:
        left, right = (_at(end, reach) for end in ends)
        bar.append(tag("i", class_="limits", style=f"left:{percent(left)};width:{percent(right - left)}"))
    middle = tag("i", class_="zero", style="left:50%")
    words = f"{effects.change(effect, row.unit)} ({effects.limits(effect, row.unit)})"
    name = tag("span", tag("b", row.label), tag("small", words), class_="job")
    return tag("div", name, tag("span", middle, *bar, *dots, class_="track"), class_="row strip")


def _step(effect: Effect, before: float, after: float) -> float:
    """The change of one pair on the axis: of a ratio its logarithm, so that half and double lie equally far."""
    if effect.scale == "ratio":
        return math.log(max(after, _SHORTEST_S) / max(before, _SHORTEST_S))
    return after - before


def _place(effect: Effect, end: float) -> float:
    return math.log1p(end) if effect.scale == "ratio" else end


def _at(step: float, reach: float) -> float:
    return 0.5 + step / reach / 2
