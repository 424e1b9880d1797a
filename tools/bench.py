"""Measure how long one whole scheduling cycle takes, on clusters of several shapes, beside Go schedulers.

    python tools/bench.py [SHAPE ...] [--against COMMIT] [-o json]

It needs an environment in which Pumice is installed, and no other package.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from command_line import run_tool
from pumice_bench.figures import BASE, FIGURES, VOLCANO_TIMES, Figure
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
        ["SHAPE", "PUMICE", "CPU A TASK", "MEMORY", "VOLCANO", "KAI", "× VOLCANO", "FLOOR"],
        [row(name, r) for name, r in results.items()],
        wrap=["CPU A TASK"],
        spare=["MEMORY", "KAI", "VOLCANO"],
    )


def show_compared(then: str, results: dict[str, dict[str, Any]]) -> None:
    """Print what was measured, beside a commit."""
    render.table(
        ["SHAPE", then.upper(), "NOW", "CHANGE", "95 % INTERVAL", "MEMORY", "VERDICT", "SPEED", "FLOOR"],
        [compared_row(name, r, floors=then.startswith(BASE)) for name, r in results.items()],
        spare=["MEMORY", "CHANGE", "VERDICT"],
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


def compared_row(name: str, r: dict[str, Any], *, floors: bool) -> tuple[str, ...]:
    """One line of the comparison with a commit; *floors*: it is the one of which floors are shares."""
    if "ratio" not in r:
        return name, "–", "–", "–", "–", "–", r["verdict"], "–", "–"
    memory = r["peak_mib"]["now"] / r["peak_mib"]["then"]
    interval = f"{change(r['low'])} to {change(r['high'])}"
    cpu, figure = r["cpu"], FIGURES.get(name)
    share = figure.share if figure is not None and floors else None
    floor = "–" if share is None else f"{share:.2f} {'holds' if r['speed'] >= share else 'MISSED'}"
    ours = (seconds(cpu["then"]), seconds(cpu["now"]), change(r["ratio"]), interval, change(memory), r["verdict"])
    return name, *ours, f"{r['speed']:.2f}", floor


def change(ratio: float) -> str:
    """A ratio as a change in per cent."""
    return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")


def row(name: str, r: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table. Floors are looked at in CPU time; those that are shares of a speed show with --against."""
    figure = FIGURES.get(name, Figure())
    ours = seconds(r["wall"]) if r["per_cycle"] else f"{r['per_second']:,.0f} /s"
    times, floor = "–", "–"
    if figure.best is not None:
        factor = figure.best / r["cpu"] if r["per_cycle"] else r["tasks"] / r["cpu"] / figure.best
        times, floor = f"{factor:,.0f}", f"{VOLCANO_TIMES} × {'holds' if factor >= VOLCANO_TIMES else 'MISSED'}"
    elif figure.longest is not None:
        floor = f"{seconds(figure.longest)} {'holds' if r['cpu'] <= figure.longest else 'MISSED'}"
    cpu = f"{r['cpu'] / max(r['tasks'], 1) * 1e6:,.0f} us"
    return name, ours, cpu, f"{r['peak_mib']:,.0f} MiB", figure.volcano, figure.kai, times, floor


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
