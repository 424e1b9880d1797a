"""The frame of every chart: axes with HTML labels around an SVG that stretches, and the data for the pointer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pumice.sim.report.markup import Markup, data, tag
from pumice.sim.results.timeline import Floats

SIDE = 1000
"""Width and height of the SVG's own coordinates; the page stretches them."""
_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
    864_000, 1_728_000, 4_320_000, 8_640_000, 17_280_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, from 0 to 1, and what it says. Minor ones give way on narrow pages."""

    at: float
    label: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Pointer:
    """The texts for the pointer: a label for each point of the x axis, and for each series its values in words."""

    labels: Sequence[str]
    series: Sequence[tuple[str, str, Sequence[str]]]
    """Name, colour class, values."""


def frame(
    shapes: Markup,
    *,
    height: int,
    label: str,
    x: Sequence[Tick],
    y: Sequence[Tick],
    pointer: Pointer | None = None,
    unit: str = "",
) -> Markup:
    """Return a chart *height* pixels high. *label* says in one sentence what it shows, for those who cannot see it.

    *unit* is that of the y axis, where the ticks do not say it.
    """
    lines = "".join(f"M0 {n(SIDE * (1 - tick.at))}H{SIDE}" for tick in y)
    ups = "".join(f"M{n(SIDE * tick.at)} 0V{SIDE}" for tick in x)
    svg = tag(
        "svg",
        tag("path", class_="grid", d=lines),
        tag("path", class_="grid faint", d=ups),
        shapes,
        viewBox=f"0 0 {SIDE} {SIDE}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return tag(
        "div",
        tag("div", *(tag("span", tick.label, style=f"bottom:{percent(tick.at)}") for tick in y), class_="y-axis"),
        tag("div", svg, tag("span", unit, class_="unit") if unit else "", tag("div", class_="cursor"), class_="canvas"),
        x_axis(x),
        "" if pointer is None else _pointer(pointer),
        class_="plot",
        style=f"--height:{height}px",
    )


def x_axis(ticks: Sequence[Tick]) -> Markup:
    """Return the labels below a chart."""
    spans = (
        tag("span", tick.label, style=f"left:{percent(tick.at)}", class_="minor" if tick.minor else None)
        for tick in ticks
    )
    return tag("div", *spans, class_="x-axis")


def legend(entries: Sequence[tuple[str, str, str]]) -> Markup:
    """Return a legend of (colour class, name, note)."""
    return tag(
        "ul",
        *(
            tag(
                "li", tag("i", class_=f"swatch {colour}"), name, " " if note else "", tag("small", note) if note else ""
            )
            for colour, name, note in entries
        ),
        class_="legend",
    )


def _pointer(pointer: Pointer) -> Markup:
    series = [{"name": name, "colour": colour, "values": list(values)} for name, colour, values in pointer.series]
    return data({"labels": list(pointer.labels), "series": series}, class_="pointer")


def area(x: Floats, low: Floats, high: Floats, colour: str) -> Markup:
    """Return a filled area between two lines; all values from 0 to 1."""
    points = [*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True)]
    return tag("path", class_=f"area {colour}", d=_path(points) + "Z")


def line(x: Floats, y: Floats, colour: str) -> Markup:
    """Return a line; all values from 0 to 1."""
    return tag("path", class_=f"line {colour}", d=_path(list(zip(x, y, strict=True))))


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{n(SIDE * a)} {n(SIDE * (1 - b))}" for a, b in points)


def n(value: float) -> str:
    """Return a coordinate, short."""
    return f"{value:.1f}".removesuffix(".0")


def percent(part: float) -> str:
    """Return a part of one as a CSS length."""
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%"


def time_ticks(length: float, most: int = 9) -> list[Tick]:
    """Return round moments of a span of *length* seconds, in the unit that suits their distance."""
    size = next((step for step in _TIME_STEPS if length / step <= most), _TIME_STEPS[-1])
    while length / size > most:
        size *= 2
    unit, name = next((u, w) for u, w in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")) if size % u == 0)
    count = int(length / size * (1 + 1e-9))
    return [
        Tick(index * size / length, f"{index * size // unit:,} {name}" if index else "0", minor=index % 2 == 1)
        for index in range(count + 1)
    ]


def value_ticks(most: float, count: int = 4) -> tuple[list[float], float]:
    """Return round values from 0 up to *most*, and the top of the axis, which leaves a little room above it."""
    if most <= 0:
        return [0.0, 1.0], 1.0
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    top = 1.06 * most
    return [index * size for index in range(int(top / size) + 1)], top
