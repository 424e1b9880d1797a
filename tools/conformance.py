"""Run conformance cases: a conf, the objects of a cluster, and the decisions that one cycle must make.

    python tools/conformance.py run PATH... [--need NAME] [--skip-missing] [-o json]

It needs an environment in which Pumice is installed, and no other package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from command_line import run_tool

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption, PluginsDirOption, registry_with

if TYPE_CHECKING:
    from pumice_conformance.runner import Result
    from pumice_conformance.suite import Suite

app = Commands(help="Run conformance cases.", no_args_is_help=True)
_STYLES = {"passed": "green", "failed": "red", "skipped": "dim", "differs": "yellow"}


@app.callback()
def group() -> None:
    """Conformance cases: a conf, the objects of a cluster, and the decisions that one cycle must make."""


@app.command()
def run(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or directories with cases.")],
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print every case and what it expected.")] = False,
    text: Annotated[str, typer.Option("--filter", metavar="TEXT", help="Only cases whose id contains TEXT.")] = "",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Skip cases that need a plugin or action that does not exist.")
    ] = False,
    need: Annotated[
        list[str] | None, typer.Option("--need", metavar="NAME", help="Only cases that need NAME (beyond the core).")
    ] = None,
    without_need: Annotated[
        list[str] | None, typer.Option("--without-need", metavar="NAME", help="Leave out cases that need NAME.")
    ] = None,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run every case below the paths; exit code 0 only if none failed.

    Examples:
        python tools/conformance.py run cases --skip-missing
        python tools/conformance.py run cases --need extender -v
    """
    from pumice_conformance.runner import CaseOutcome
    from pumice_conformance.suite import run_suite

    suite = run_suite(
        paths,
        registry_with(plugins_dir),
        text=text,
        skip_missing=skip_missing,
        needs=need or (),
        without_needs=without_need or (),
    )
    if output is Output.JSON:
        render.data(as_data(suite))
    else:
        _print(suite, verbose)
    if suite.counts[CaseOutcome.FAILED]:
        raise typer.Exit(1)


def as_data(suite: Suite) -> dict[str, object]:
    """The results for programs."""
    from pumice_conformance.runner import CaseOutcome

    return {
        "passed": suite.counts[CaseOutcome.PASSED],
        "failed": suite.counts[CaseOutcome.FAILED],
        "skipped": suite.counts[CaseOutcome.SKIPPED],
        "differ": suite.counts[CaseOutcome.DIFFERS],
        "missing": dict(suite.missing),
        **({"observed": dict(zip(("agree", "of"), suite.observed, strict=True))} if suite.observed[1] else {}),
        "results": [
            {
                "id": r.id,
                "outcome": r.outcome.value,
                "details": r.details,
                **({"missing": r.missing} if r.missing else {}),
                **({"deviations": r.deviations} if r.deviations else {}),
            }
            for r in suite.results
        ],
    }


def _print(suite: Suite, verbose: bool) -> None:
    from pumice_conformance.runner import CaseOutcome

    for result in suite.results:
        if verbose:
            render.line(f"{result.outcome.value:8}{result.id}", style=_STYLES[result.outcome.value])
            for deviation in result.deviations or ():
                render.line(f"        observed: {deviation}")
            for detail in [*result.details, *([f"needs {result.missing}"] if result.missing else [])]:
                render.line(f"        {detail}")
        elif result.outcome is CaseOutcome.FAILED:
            render.line(f"FAILED {result.id}: {_short(result)}", style="red")
    if suite.missing:
        names = ", ".join(f"{name} ({n})" for name, n in sorted(suite.missing.items()))
        render.line(f"skipped for want of: {names}", style="dim")
    render.line(last_line(suite))
    agree, of = suite.observed
    if of:
        render.line(f"observed: {agree} of {of} agree")


def _short(result: Result) -> str:
    return " ".join("; ".join(result.details).split())


def last_line(suite: Suite) -> str:
    """The line that sums up a run."""
    words = {"passed": "passed", "failed": "failed", "skipped": "skipped", "differs": "differ"}
    counts = {outcome.value: n for outcome, n in suite.counts.items()}
    always = ("passed", "failed")
    return ", ".join(f"{counts.get(w, 0)} {said}" for w, said in words.items() if w in always or counts.get(w))


if __name__ == "__main__":
    run_tool(app)
