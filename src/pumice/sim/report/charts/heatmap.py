"""Which nodes were busy when: a row for each node, or for some neighbours together where there are many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pumice.sim.report import units
from pumice.sim.report.charts.plot import time_ticks, x_axis
from pumice.sim.report.markup import Markup, data, tag
from pumice.sim.results import timeline
from pumice.sim.results.records import NodeRecord, PodRecord, RunRecord

_COLUMNS = 144
_ROWS = 48
_NAME = 12
"""Letters of a name that its column has room for, twice."""
LEVELS = 10
"""Shades, from idle to full."""


def heatmap(run: RunRecord) -> Markup:
    """Return the share in use of each node over time. More than 48 nodes share rows, in the order of their names."""
    resource = timeline.main_resource(run)
    nodes = [node for node in run.nodes if resource != "gpu" or node.gpus]
    if not nodes:
        return tag("p", "The run had no nodes.", class_="note")
    stays: dict[str, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        stays[node.name].append(node)  # several where it failed and came back
    machines = [times[0] for times in stays.values()]
    groups = _groups(sorted(machines, key=lambda node: (node.gpu_model, node.name)))
    borders = timeline.edges(run, _COLUMNS)
    by_node: dict[str, list[PodRecord]] = defaultdict(list)
    for pod in run.pods:
        by_node[pod.node].append(pod)
    cells = []
    for group in groups:
        pods = [pod for node in group for pod in by_node[node.name]]
        used = timeline.mean_use(pods, resource, borders, run.horizon)
        there = [stay for node in group for stay in stays[node.name]]
        offered = timeline.mean_capacity(there, resource, borders, run.horizon)
        cells.append(np.divide(used, offered, out=np.full_like(used, -1.0), where=offered > 0))
    height = len(groups)
    svg = tag(
        "svg",
        *(tag("path", class_=f"h{level}", d=path) for level, path in _paths(cells) if path),
        viewBox=f"0 0 {_COLUMNS} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label="Share in use of each node over time",
    )
    names = [_name(group) for group in groups]
    every, cut = max(1, -(-height // 16)), _common(nodes)
    labels = tag(
        "div",
        *(tag("span", _name(group, cut) if row % every == 0 else "") for row, group in enumerate(groups)),
        class_="names",
    )
    moments = [units.duration(float(moment - borders[0])) for moment in borders]
    shown = [[round(100 * float(value)) for value in row] for row in cells]
    return tag(
        "div",
        labels,
        tag("div", svg, tag("div", class_="cell"), class_="canvas"),
        x_axis(time_ticks(float(borders[-1] - borders[0]))),
        data({"rows": names, "moments": moments, "cells": shown}, class_="cells"),
        class_="heatmap",
        style=f"--rows:{height};--row:{_row_height(height)}px",
    )


def scale() -> Markup:
    """Return the legend of the shades."""
    shades = (tag("i", class_=f"h{level}") for level in range(LEVELS))
    return tag("div", tag("span", "idle"), *shades, tag("span", "full"), class_="shades")


def _groups(nodes: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    size = max(1, -(-len(nodes) // _ROWS))
    return [list(nodes[first : first + size]) for first in range(0, len(nodes), size)]


def _name(group: Sequence[NodeRecord], cut: int = 0) -> str:
    names = [f"…{node.name[cut:]}" if cut else node.name for node in (group[0], group[-1])]
    return names[0] if len(group) == 1 else f"{names[0]} to {names[1]}"


def _common(nodes: Sequence[NodeRecord]) -> int:
    """How much of the beginning of every name can be left out: what all share up to a separator, if names are long."""
    if max(len(node.name) for node in nodes) <= _NAME:
        return 0
    first, last = min(node.name for node in nodes), max(node.name for node in nodes)
    shared = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    return first.rfind("-", 0, shared) + 1


def _row_height(rows: int) -> int:
    return min(22, max(9, 420 // max(rows, 1)))


def _paths(cells: Sequence[timeline.Floats]) -> list[tuple[str, str]]:
    """One path for each shade, with a box for each run of equal cells in a row."""
    boxes: dict[str, list[str]] = defaultdict(list)
    for row, values in enumerate(cells):
        levels = [_level(float(value)) for value in values]
        start = 0
        for column in range(1, len(levels) + 1):
            if column == len(levels) or levels[column] != levels[start]:
                width = column - start
                boxes[levels[start]].append(f"M{start} {row}h{width}v1h-{width}z")
                start = column
    return [(level, "".join(boxes[level])) for level in ("x", *map(str, range(LEVELS)))]


def _level(share: float) -> str:
    """The shade of a share in use; "x" where there was no node."""
    if share < 0:
        return "x"
    return "0" if share < 0.005 else str(min(LEVELS - 1, 1 + int(share * (LEVELS - 1))))
