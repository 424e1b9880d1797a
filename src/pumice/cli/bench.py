"""``pumice bench``: the measured shapes, beside what the Go schedulers reach."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pumice.bench.children import run_shape
from pumice.bench.figures import FIGURES
from pumice.bench.shapes import SHAPES
from pumice.cli import render
from pumice.cli.options import JsonOption, Output, OutputOption, as_json


def bench(
    shapes: Annotated[list[str] | None, typer.Argument(help="Shapes to run; all of them by default.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Runs per shape; the best one counts.")] = 1,
    times: Annotated[bool, typer.Option("--times", help="Also show the time of each action and plugin.")] = False,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Measure deciding: events in, one whole cycle, intents out to a sink that does nothing."""
    results: dict[str, dict[str, Any]] = {}
    for name in shapes or list(SHAPES):
        render.note(f"{name} …")
        results[name] = run_shape(name, repeat)
    if as_json(output, json):
        render.data(results)
    else:
        render.table(
            ["SHAPE", "PUMICE", "CPU A TASK", "MEMORY", "VOLCANO", "KAI", "FLOOR", "REACH", "VERDICT"],
            [row(name, r) for name, r in results.items()],
        )
        if times:
            for name, r in results.items():
                render.note("")
                render.table([name.upper(), "MS"], time_rows(r))
    for name, r in results.items():
        for problem in r["wrong"]:
            render.error(f"{name}: {problem}")
    if any(r["wrong"] for r in results.values()):
        raise typer.Exit(1)


def row(name: str, r: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    figure = FIGURES[name]
    if r["per_cycle"]:
        ours, floor, reach = seconds(r["wall"]), seconds(figure.floor), seconds(figure.reach)
        verdict = "reach" if r["wall"] <= figure.reach else "floor" if r["wall"] <= figure.floor else "missed"
    else:
        speed = r["per_second"]
        ours, floor, reach = f"{speed:,.0f} /s", f"{figure.floor:,.0f} /s", f"{figure.reach:,.0f} /s"
        verdict = "reach" if speed >= figure.reach else "floor" if speed >= figure.floor else "missed"
    cpu = f"{r['cpu'] / max(r['tasks'], 1) * 1e6:,.0f} us"
    return name, ours, cpu, f"{r['peak_mib']:,.0f} MiB", figure.volcano, figure.kai, floor, reach, verdict


def seconds(value: float) -> str:
    """A time in the unit that reads best."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.1f} ms" if value >= 0.01 else f"{value * 1e3:.2f} ms"


def time_rows(r: dict[str, Any]) -> list[tuple[str, str]]:
    """Where the time went, longest first."""
    pairs = sorted(r["timings"].items(), key=lambda item: -item[1])
    return [(name, f"{value * 1e3:.2f}") for name, value in pairs if value >= 1e-5]
