"""Measure how long one whole scheduling cycle takes, on clusters of several shapes, beside what Go schedulers reach.

    python tools/bench.py [SHAPE ...] [--against COMMIT] [-o json]

It needs an environment in which Pumice is installed, and no other package.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from command_line import run_tool
from pumice_bench.figures import FIGURES
from pumice_bench.pairs import FEWEST

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption, WrongUsage


def bench(
    shapes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SHAPE...]",
            help="Shapes to run; all of them by default. `scale`: clusters of 5,000 to 100,000 nodes instead.",
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Runs per shape; the best one counts.")
    ] = 1,
    commit: Annotated[
        str | None,
        typer.Option("--against", metavar="COMMIT", help="Compare the CPU time with that of an earlier commit."),
    ] = None,
    pairs: Annotated[
        int, typer.Option("--pairs", metavar="N", min=FEWEST, help="Runs of each side, with --against.")
    ] = 9,
    times: Annotated[bool, typer.Option("--times", help="Also show the time of each action and plugin.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Measure how long one whole scheduling cycle takes, on clusters of several shapes. Nothing is carried out.

    Examples:
        python tools/bench.py gangs singles --times
        python tools/bench.py --against main singles
    """
    from pumice_bench.children import run_shape
    from pumice_bench.shapes import SHAPES

    if shapes and "scale" in shapes:
        if len(shapes) > 1 or commit is not None:
            raise WrongUsage("scale: is measured alone, without other shapes and without --against")
        _scale(output is Output.JSON)
        return
    for name in shapes or ():
        if name not in SHAPES:
            raise WrongUsage(f"shape {name!r}: must be one of {', '.join(SHAPES)}")
    names = list(dict.fromkeys(shapes or SHAPES))
    if commit is not None:
        _compare(commit, names, pairs, output is Output.JSON)
        return
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        render.note(f"{name} …")
        results[name] = run_shape(name, repeat)
    if output is Output.JSON:
        render.data(results)
    else:
        show(results)
        if times:
            for name, r in results.items():
                render.note("")
                render.table([name.upper(), "MS"], time_rows(r))
    _fail_if_wrong(results)


def _scale(for_programs: bool) -> None:
    from dataclasses import asdict

    from pumice_bench.scale import SIZES, in_child

    sizes = []
    for nodes in SIZES:
        render.note(f"{nodes:,} nodes …")
        sizes.append(in_child(nodes))
    if for_programs:
        render.data([asdict(size) for size in sizes])
    else:
        render.table(
            ["NODES", "PODS", "A NODE", "A POD", "MEMORY", "EVENTS IN", "FIRST", "STEADY", "NODE JOINED"],
            [
                (
                    *(f"{s.nodes:,}", f"{s.pods:,}", f"{s.node_bytes:,.0f} B", f"{s.pod_bytes:,.0f} B"),
                    *(f"{s.peak_mib:,.0f} MiB", seconds(s.events), seconds(s.first), seconds(s.steady)),
                    seconds(s.joined),
                )
                for s in sizes
            ],
        )


def _compare(commit: str, names: list[str], pairs: int, for_programs: bool) -> None:
    from pumice_bench.against import against

    then, results = against(commit, names, pairs, render.note)
    if for_programs:
        render.data({"against": then, "shapes": results})
    else:
        show_compared(then, results)
    _fail_if_wrong(results)


def show(results: dict[str, dict[str, Any]]) -> None:
    """Print what was measured, beside the others."""
    render.table(
        ["SHAPE", "PUMICE", "CPU A TASK", "MEMORY", "VOLCANO", "KAI", "FLOOR", "REACH", "VERDICT"],
        [row(name, r) for name, r in results.items()],
        wrap=["CPU A TASK"],
        spare=["MEMORY", "REACH", "FLOOR"],
    )


def show_compared(then: str, results: dict[str, dict[str, Any]]) -> None:
    """Print what was measured, beside a commit."""
    render.table(
        ["SHAPE", then.upper(), "NOW", "CHANGE", "95 % INTERVAL", "MEMORY", "VERDICT"],
        [compared_row(name, r) for name, r in results.items()],
        spare=["MEMORY"],
    )
    for r in results.values():
        if "reason" in r:
            render.note(r["reason"])


def _fail_if_wrong(results: dict[str, dict[str, Any]]) -> None:
    for name, r in results.items():
        for problem in r["wrong"]:
            render.error(f"{name}: {problem}")
    if any(r["wrong"] for r in results.values()):
        raise typer.Exit(1)


def compared_row(name: str, r: dict[str, Any]) -> tuple[str, ...]:
    """One line of the comparison with a commit."""
    if "ratio" not in r:
        return name, "–", "–", "–", "–", "–", r["verdict"]
    memory = r["peak_mib"]["now"] / r["peak_mib"]["then"]
    interval = f"{change(r['low'])} to {change(r['high'])}"
    cpu = r["cpu"]
    return (
        name,
        seconds(cpu["then"]),
        seconds(cpu["now"]),
        change(r["ratio"]),
        interval,
        change(memory),
        r["verdict"],
    )


def change(ratio: float) -> str:
    """A ratio as a change in per cent."""
    return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")


def row(name: str, r: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    figure = FIGURES.get(name)
    cpu = f"{r['cpu'] / max(r['tasks'], 1) * 1e6:,.0f} us"
    memory = f"{r['peak_mib']:,.0f} MiB"
    if figure is None:  # nobody else was measured, nothing was promised
        return name, f"{r['per_second']:,.0f} /s", cpu, memory, "–", "–", "–", "–", "–"
    if r["per_cycle"]:
        ours, floor, reach = seconds(r["wall"]), seconds(figure.floor), seconds(figure.reach)
        verdict = "reach" if r["wall"] <= figure.reach else "floor" if r["wall"] <= figure.floor else "missed"
    else:
        speed = r["per_second"]
        ours, floor, reach = f"{speed:,.0f} /s", f"{figure.floor:,.0f} /s", f"{figure.reach:,.0f} /s"
        verdict = "reach" if speed >= figure.reach else "floor" if speed >= figure.floor else "missed"
    return name, ours, cpu, memory, figure.volcano, figure.kai, floor, reach, verdict


def seconds(value: float) -> str:
    """A time in the unit that reads best."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.1f} ms" if value >= 0.01 else f"{value * 1e3:.2f} ms"


def time_rows(r: dict[str, Any]) -> list[tuple[str, str]]:
    """Where the time went, longest first."""
    pairs = sorted(r["timings"].items(), key=lambda item: -item[1])
    return [(name, f"{value * 1e3:.2f}") for name, value in pairs if value >= 1e-5]


app = Commands(add_completion=False, rich_markup_mode=None)
app.command()(bench)

if __name__ == "__main__":
    run_tool(app)
