"""A tuning in words: what was searched, what is recommended or why nothing is, the conf and its difference."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from pumice.config import SchedulerConf
from pumice.notebook import html_table
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.report import effects, tables, units
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.page import html_seeds, plain_page
from pumice.sim.report.sections import card
from pumice.sim.scenario import SimScenario
from pumice.sim.tuning import BASE, Tuning, tune
from pumice.sim.tuning.evaluations import Evaluations, Objectives, OccasionSplit, Score
from pumice.sim.tuning.knobs import Candidate, Knob, made_of, worded


@dataclass(frozen=True, slots=True)
class TuningAccount:
    """Everything that is said about a tuning, for the terminal, for the page and for programs."""

    tuning: Tuning
    knobs: tuple[Knob, ...]
    base: Candidate
    queues: Mapping[str, int]
    split: OccasionSplit
    wanted: Objectives
    runs: int
    """All runs, those of the base included."""
    core_seconds: float = 0.0

    def searched(self) -> str:
        """Return what was done, in one sentence."""
        split = self.split
        parts = [("searched on", split.search), ("chose on", split.choose), ("held out", split.held_out)]
        on = "; ".join(f"{word} {effects.seeds(list(some), split.each)}" for word, some in parts)
        tried = len(self.tuning.race.tried)
        cost = f", {self.core_seconds / 3600:.2f} core-hours" if self.core_seconds >= 36 else ""
        return f"{tried:,} configurations, {self.runs:,} runs{cost}; {on}"

    def verdict(self) -> str:
        """Return what is recommended, or why nothing is."""
        if not self.tuning.recommended:
            return f"Nothing to recommend: {self.tuning.why_not}.{self._looks()}"
        assert self.tuning.comparison is not None
        row = self.tuning.comparison.row(self.wanted.figures[0].key)
        found = row.effects[1]
        assert found is not None
        change, limits = effects.change(found, row.unit), effects.limits(found, row.unit)
        on = effects.seeds(self.tuning.comparison.seeds, self.split.each)
        said = f"Recommended: {row.label.lower()} {change} ({limits}) on {on}, which had no part in the search."
        return said + self._looks()

    def _looks(self) -> str:
        """Say how often the days held out were looked at, if it was not the first time."""
        looks = self.tuning.looks
        if looks == 1:
            return ""
        return (
            f" This is look {looks} at these days, so the interval is one of {100 - 5 / looks:.1f} %: each look makes "
            "a lucky one likelier. Fresh days: other --seeds."
        )

    @property
    def recommended(self) -> bool:
        """Whether the winner is better beyond chance, and within what was allowed."""
        return self.tuning.recommended

    @property
    def conf(self) -> dict[str, Any] | None:
        """The conf that is recommended, as data; ``None`` if none is."""
        winner = self.tuning.winner
        return winner.conf.to_data() if self.recommended and winner is not None else None

    def __str__(self) -> str:
        return self.verdict()

    def _repr_html_(self) -> str:
        head = ("", "as it is", "tuned", "searched")
        return html_table(head, self.changes(), self.verdict(), [self.searched()])

    def changes(self) -> list[tuple[str, str, str, str]]:
        """Return each knob: its name, its value as it is, its value in the winner, and what was searched."""
        point = dict(self.tuning.winner.point) if self.tuning.winner is not None else {}
        return [
            (knob.name, present(knob, self.base.conf, self.queues), worded(point.get(knob.name, "")), knob.in_words())
            for knob in self.knobs
        ]

    def finalists(self) -> list[tuple[str, list[str], list[str]]]:
        """Return each finalist: what it sets, what its figures did in the search and where it was chosen."""
        return [
            (self._sets(one.tried.candidate), self._steps(one.tried.score), self._steps(one.chosen_on))
            for one in self.tuning.finalists
        ]

    def _sets(self, candidate: Candidate) -> str:
        return " ".join(f"{name}={worded(value)}" for name, value in candidate.point)

    def _steps(self, score: Score) -> list[str]:
        said = []
        for figure, step in zip(self.wanted.figures, score.steps, strict=True):
            signed = step if figure.better == "lower" else -step
            ratio = figure.as_ratio
            said.append(units.signed_percent(math.expm1(signed)) if ratio else units.signed(signed, figure.unit))
        return said

    def diff(self) -> list[str]:
        """Return how the conf of the winner differs from the conf as it is, as a unified diff; queues too."""
        winner = self.tuning.winner
        if winner is None:
            return []
        now, then = conf_text(self.base.conf), conf_text(winner.conf)
        lines = [*difflib.unified_diff(now.splitlines(), then.splitlines(), "as it is", "tuned", lineterm="", n=2)]
        if winner.weights:
            lines += ["--- queues as they are", "+++ queues tuned"]
            for name, weight in winner.weights:
                lines += [f" {name}:", f"-  weight: {self.queues.get(name, 1)}", f"+  weight: {weight}"]
        return lines

    def to_data(self) -> dict[str, Any]:
        """Return all of it for programs."""
        tuning, winner = self.tuning, self.tuning.winner
        return {
            "recommended": tuning.recommended,
            "why_not": tuning.why_not,
            "looks": tuning.looks,
            "configurations": len(tuning.race.tried),
            "runs": self.runs,
            "knobs": [
                {"name": name, "as_it_is": now, "tuned": then, "searched": space}
                for name, now, then, space in self.changes()
            ],
            "finalists": [
                {
                    "sets": dict(one.tried.candidate.point),
                    "search": one.tried.score.steps,
                    "choose": one.chosen_on.steps,
                }
                for one in tuning.finalists
            ],
            "conf": None if winner is None else winner.conf.to_data(),
            "queue_weights": None if winner is None else dict(winner.weights),
            "queue_losses": {
                name: {"grew": loss.grew.estimate, "low": loss.grew.low, "high": loss.grew.high}
                for name, loss in tuning.losses.items()
            },
        }


def present(knob: Knob, base: SchedulerConf, queues: Mapping[str, int]) -> str:
    """Return what a knob stands at in the conf as it is; ``default`` where the conf does not say."""
    if knob.kind == "queue":
        return str(queues.get(knob.owner, 1))
    if knob.kind == "actions":
        return ", ".join(base.actions)
    entries = [listed.plugin for listed in base.listed() if listed.plugin.name == knob.owner]
    if knob.kind == "plugin":
        return worded(bool(entries))
    value = next((entry.arguments[knob.argument] for entry in entries if knob.argument in entry.arguments), None)
    return "default" if value is None else worded(value)


def conf_text(conf: SchedulerConf) -> str:
    """Return a conf as a file holds it."""
    return yaml.safe_dump(conf.to_data(), sort_keys=False, allow_unicode=True)


def queue_manifests(queues: Sequence[tuple[str, int]]) -> str:
    """Return weights of queues as patches for `kubectl apply --server-side`: only the weight is said."""
    documents = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": weight},
        }
        for name, weight in queues
    ]
    return yaml.safe_dump_all(documents, sort_keys=False)


def tuned(
    scenario: SimScenario,
    knobs: Sequence[Knob],
    split: OccasionSplit,
    wanted: Objectives,
    *,
    runs: int = 200,
    seed: int = 0,
    executor: Executor | None = None,
    path: Path | None = None,
    watch: Callable[[], None] = lambda: None,
) -> TuningAccount:
    """Tune the one conf of a scenario, called `BASE`, and return the account of it.

    :param path: a file that remembers every run, and how often the days held out have judged a tuning.
    :param watch: is told after every run.
    :raises InvalidInput: the file is of another scenario; no run has the wanted figures.
    """
    base, before = Candidate(scenario.configurations[BASE]), _cpu_s()
    queues, catalogue = scenario.queue_weights, catalogue_of(scenario.registry)
    asked = (base.key, [str(knob) for knob in knobs], [f.key for f in wanted.figures], wanted.most_loss, runs, seed)
    evaluate = Evaluations(scenario, executor=executor, path=path, stamp=_stamp(scenario, split), watch=watch)
    try:
        tuning = tune(
            knobs,
            lambda point: made_of(base.conf, knobs, point, queues, catalogue),
            base,
            split,
            wanted,
            evaluate,
            runs=runs,
            seed=seed,
            look=lambda: evaluate.look(split.held_out, _digest(*asked)),
        )
    finally:
        evaluate.close()
    return TuningAccount(tuning, tuple(knobs), base, queues, split, wanted, len(evaluate.known), _cpu_s() - before)


def _stamp(scenario: SimScenario, split: OccasionSplit) -> str:
    """The key of a file of runs: the same scenario, plugins, kind of days and version."""
    origin, horizon_s = scenario.setting.origin, scenario.setting.horizon_s
    inputs = sorted(origin.inputs.items())
    return _digest(version("pumice"), origin.scenario_digest, inputs, horizon_s, split.each, scenario.lead_s)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _cpu_s() -> float:
    """CPU time of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# -- the report -----------------------------------------------------------------------------------------------------
def html_tuning(told: TuningAccount, *, title: str = "") -> str:
    """Return the report of a tuning. The same tuning gives the same page."""
    parts = [
        tag("p", told.verdict(), class_="lead"),
        tag("p", told.searched(), class_="lead"),
        card("What was tuned", "A value for each of them.", _changes(told), anchor="knobs"),
    ]
    if told.tuning.finalists:
        note = "Those that came through the search, and what they did on occasions that were new to them."
        parts.append(card("Finalists", note, _finalists(told), anchor="finalists"))
    if diff := told.diff():
        note = "As it is, and as tuned." if told.tuning.recommended else "What was tried; it is not recommended."
        parts.append(card("The conf", note, tag("pre", "\n".join(diff)), anchor="diff"))
    heading = title or "A tuning"
    if told.tuning.comparison is None:
        return plain_page(heading, parts)
    return html_seeds(told.tuning.comparison, title=heading, before=parts)


def _changes(told: TuningAccount) -> Markup:
    return tables.table(["Knob", "As it is", "Tuned", "Searched"], [list(row) for row in told.changes()])


def _finalists(told: TuningAccount) -> Markup:
    figures = [figure.label for figure in told.wanted.figures]
    head = ["Sets", *(f"{name}, search" for name in figures), *(f"{name}, choosing" for name in figures)]
    return tables.table(head, [[sets, *search, *choose] for sets, search, choose in told.finalists()])
