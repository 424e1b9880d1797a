"""A plan from the command line: read what is asked, play it, print what came of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer

from pumice.cli import render
from pumice.cli.studies import Files, executor_of, say_warnings, show_seeds, study_bar, write_output
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.sim.planning import (
    Goal,
    Sized,
    Variant,
    VariantPlayer,
    answer_in_words,
    parse_goal,
    remarks,
    side,
    size,
    size_in_words,
    sizes_in_words,
    tried_size,
)
from pumice.sim.planning.variants import NodeFailure, groups_of, nodes_of, struck
from pumice.sim.report import effects, html_seeds, units
from pumice.sim.results.seeds import compare_seeds
from pumice.sim.scenario import SimScenario
from pumice.sim.study.running import Played, parse_seeds
from pumice.sim.study.workers import usable_cores
from pumice.words import counted

NOW = "as it is"
_NAMED = 5
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_FAIL = re.compile(r"(\d+)@(.+)")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The values of the command line."""

    goal: str | None
    vary: str | None
    between: str | None
    load: float
    fail: str | None
    at: str | None
    repair: str | None
    seeds: str
    workers: int | None

    def wanted(self) -> Goal | None:
        """The goal."""
        if self.goal is None:
            return None
        try:
            return parse_goal(self.goal)
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--goal") from exc

    def numbers(self) -> list[int]:
        """The seeds."""
        try:
            return parse_seeds(self.seeds)
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--seeds") from exc

    def limits(self, now: int) -> tuple[int, int]:
        """The fewest and the most nodes."""
        if self.between is None:
            return 1, 4 * now
        found = _RANGE.fullmatch(self.between.strip())
        if found is None or not 1 <= int(found[1]) < int(found[2]):
            raise typer.BadParameter(
                f"must be two numbers of at least 1, such as 4..40, got {self.between!r}", param_hint="--between"
            )
        return int(found[1]), int(found[2])

    def variant(self, scenario: SimScenario) -> Variant:
        """What is changed."""
        if not (math.isfinite(self.load) and self.load > 0):
            raise typer.BadParameter(f"must be above 0, got {self.load!r}", param_hint="--load")
        if self.fail is None:
            for name in ("at", "repair"):
                if getattr(self, name) is not None:
                    raise typer.BadParameter("is about --fail", param_hint=f"--{name}")
            return Variant(load=self.load)
        found = _FAIL.fullmatch(self.fail.strip())
        if found is None or int(found[1]) < 1:
            raise typer.BadParameter(f"must be N@GROUP, such as 4@a100, got {self.fail!r}", param_hint="--fail")
        try:
            there = len(nodes_of(scenario, found[2]))
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--fail") from exc
        if int(found[1]) > there and self.vary != found[2]:
            raise typer.BadParameter(
                f"group {found[2]!r} has {counted(there, 'node')}, so {found[1]} cannot fail", param_hint="--fail"
            )
        at = amid(scenario.with_load(self.load) if self.load != 1 else scenario) if self.at is None else 0.0
        at = _seconds(self.at, "--at", at)
        return Variant(
            load=self.load,
            failure=NodeFailure(int(found[1]), found[2], at, _seconds(self.repair, "--repair", math.inf)),
        )


def _seconds(text: str | None, option: str, default: float) -> float:
    if text is None:
        return default
    try:
        return parse_duration(text, days=True) / SECOND
    except InvalidInput as exc:
        raise typer.BadParameter(str(exc), param_hint=option) from exc


def amid(scenario: SimScenario) -> float:
    """The middle of the submissions, in whole seconds."""
    submits = [job.submit_s for job in scenario.workload()]
    return float(round((min(submits) + max(submits)) / 2)) if submits else 0.0


def go(scenario: SimScenario, configuration: str, asked: PlanOptions, report: Path | None, as_data: bool) -> None:
    """Answer what is asked."""
    goal, seeds = asked.wanted(), asked.numbers()
    variant = asked.variant(scenario)
    if asked.vary is None and variant == Variant():
        raise typer.BadParameter(
            "say what to plan: --group GROUP with --goal GOAL, --load or --fail", param_hint="--group"
        )
    if asked.vary is not None and goal is None:
        raise typer.BadParameter("needs a goal: --goal 'wait.p95 < 10m'", param_hint="--group")
    if asked.vary is not None and report is not None:
        raise typer.BadParameter("is for --load and --fail, where two runs are compared", param_hint="--report")
    if asked.vary is not None and asked.vary not in groups_of(scenario):
        try:
            nodes_of(scenario, asked.vary)
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--group") from exc
    Files(report=report).prepare(1)
    say_warnings(scenario)
    with study_bar(None) as tell, executor_of(asked.workers or usable_cores()) as executor:
        player = VariantPlayer(scenario, configuration, seeds, executor, tell, keep=variant.failure is not None)
        if asked.vary is not None:
            assert goal is not None
            low, high = asked.limits(len(nodes_of(scenario, asked.vary)))
            sized = size(player, variant, asked.vary, goal, low, high)
        else:
            before, after = player(Variant()), player(variant)
    if asked.vary is not None:
        assert goal is not None
        if as_data:
            render.data({**msgspec.to_builtins(sized.told()), "goal": goal.text, "seeds": seeds})
        else:
            _show_size(sized, goal, scenario.name, seeds, variant)
        if sized.found.answer is None:
            raise typer.Exit(1)
        return
    name = _worded(variant)
    runs = {NOW: before, name: after}
    summaries = {key: {seed: done.summary for seed, done in found.items()} for key, found in runs.items()}
    comparison = compare_seeds(summaries)
    if variant.failure is not None:
        notes = _struck(scenario, variant.failure, after)
        comparison = msgspec.structs.replace(comparison, notes=(*comparison.notes, *notes))
    if report is not None:
        write_output("--report", report, html_seeds(comparison, title=f"{scenario.name}: {name}"))
    if as_data:
        render.data({"comparison": msgspec.to_builtins(comparison)})
    else:
        show_seeds(scenario.name, comparison, summaries[NOW])
        if report is not None:
            render.note(f"The report is in {report}")
    if goal is not None:
        _say_goal(goal, after)


def _say_goal(goal: Goal, after: Mapping[int, Played]) -> None:
    """Say whether the goal is met under the change, and fail if it surely is not."""
    one = tried_size(0, after, goal, None)
    _, mean, bound, met, word, _ = size_in_words(one, goal)
    text = f"mean {mean}, surely {side(goal)} {bound}, met on {met} days"
    if word == "met":
        render.line(f"{goal.text}: met. {text}")
    elif word == "perhaps":
        render.warning(f"{goal.text}: cannot tell. {text}")
    else:
        render.error(f"{goal.text}: not met. {text}")
        raise typer.Exit(1)


def _worded(variant: Variant) -> str:
    """The change, as the name of a column."""
    parts = [f"load × {variant.load:g}"] if variant.load != 1 else []
    if variant.failure is not None:
        parts.append(f"{variant.failure.count} of {variant.failure.group} fail")
    return ", ".join(parts)


def _struck(scenario: SimScenario, failure: NodeFailure, runs: Any) -> list[str]:
    """Which jobs the failure hits."""
    hit = {seed: struck(done, failure.nodes(scenario, seed), failure.at_s) for seed, done in runs.items()}
    seed, jobs = next(iter(hit.items()))
    named = f" (on seed {seed}: {', '.join(jobs[:_NAMED])}{', …' if len(jobs) > _NAMED else ''})" if jobs else ""
    back = "for good" if math.isinf(failure.for_s) else f"for {units.duration(failure.for_s)}"
    mean = sum(map(len, hit.values())) / len(hit)
    who = f"{counted(failure.count, f'{failure.group} node')} (random per seed)"
    fails = "fails" if failure.count == 1 else "fail"
    return [f"{who} {fails} at {units.duration(failure.at_s)} {back}: {mean:.1f} jobs are hit on average{named}"]


# -- sizes ----------------------------------------------------------------------------------------------------------
def _show_size(sized: Sized, goal: Goal, title: str, seeds: Sequence[int], variant: Variant) -> None:
    changed = _worded(variant)
    aside = f"{effects.seeds(seeds)} on {len(sized.tried)} sizes{f'; {changed}' if changed else ''}"
    render.heading(title, aside)
    render.table(*sizes_in_words(sized, goal, len(seeds)))
    render.line()
    render.paragraph(answer_in_words(sized, goal))
    for text in remarks(sized, goal, len(seeds)):
        render.warning(text)
