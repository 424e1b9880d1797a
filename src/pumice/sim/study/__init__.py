"""``Study``: what came of a scenario under several configurations on many seeds, as tables, comparisons and plots.

``pumice.simulate`` and the command ``simulate`` are made of the same parts: ``playing`` (one run), ``running`` (all
runs, on any executor), ``workers`` (processes of this machine), ``stopping`` (which seeds, and when they are enough),
``sweeping`` (confs from a grid of arguments), ``columns`` and ``plots`` (what comes of it).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pumice.errors import InvalidInput
from pumice.notebook import html_table
from pumice.sim.report import effects, html_seeds, units
from pumice.sim.results.intervals import ALPHA
from pumice.sim.results.records import RunRecord, encode
from pumice.sim.results.seeds import PRIMARY, SeedComparison, SeedRow, compare_seeds
from pumice.sim.study.columns import ColumnTable, effects_table, jobs_table, runs_table
from pumice.sim.study.plots import Plots
from pumice.sim.study.running import LOOK_ALPHA, Lost, Played, Runs, Sure
from pumice.words import counted


@dataclass(repr=False)
class Study:
    """The result of a study. Figures are over the seeds that every configuration was played on to its end."""

    title: str
    results: Runs
    primary: str = PRIMARY
    """The figure that was declared to judge by."""
    sure: Sure | None = None
    """The exception that ended it, if its figures failed."""

    def __repr__(self) -> str:
        confs, played = self.results.configurations, self.results.played
        seeds = counted(len({task.seed for task in played}), "seed")
        return f"<Study {self.title!r}: {', '.join(confs)}; {seeds}, {counted(len(played), 'run')}>"

    @cached_property
    def comparison(self) -> SeedComparison:
        """Every figure of every configuration over all seeds, with verdicts against the first."""
        looked = self.sure is not None and self.sure.metric.key == self.primary
        return compare_seeds(self.results.summaries(), primary=self.primary, alpha=LOOK_ALPHA if looked else ALPHA)

    @property
    def verdict(self) -> str:
        """The verdict on the primary figure, in a sentence or two."""
        return effects.sentence(self.comparison)

    def _repr_html_(self) -> str:
        comparison = self.comparison
        rows = [row for row in comparison.overall if effects.says_something(row)]
        rows.sort(key=lambda row: row.key != comparison.primary)
        if len(comparison.configurations) == 1:
            head = ["", comparison.configurations[0], "95 % interval"]
            cells = [
                [row.label, _value(row, 0), effects.value_limits(row.values[0], row.unit)]
                for row in rows
                if row.values[0]
            ]
            return html_table(head, cells, self.title, comparison.notes)
        means = f"mean of {counted(len(comparison.seeds), comparison.each.partition(' ')[0])}"
        base, *others = comparison.configurations
        head = [means, "", base, "value", "change", "95 % interval", "better on", ""]
        cells = [
            [row.label if at == 1 else "", name, _value(row, 0) if at == 1 else "", _value(row, at), *_judged(row, at)]
            for row in rows
            for at, name in enumerate(others, 1)
        ]
        notes = [effects.how_to_read(comparison), *effects.remarks(comparison), *comparison.notes]
        return html_table(head, cells, f"{self.title}: {self.verdict}", notes)

    @property
    def lost(self) -> list[Lost]:
        """Runs that gave no result, each with the reason."""
        return self.results.lost

    @cached_property
    def runs(self) -> ColumnTable:
        """One row for each run: configuration, seed and every figure by its name."""
        return runs_table(done.summary for done in self._ordered())

    @cached_property
    def jobs(self) -> ColumnTable:
        """One row for each job of each run.

        :raises InvalidInput: the study kept no records.
        """
        return jobs_table(self.records())

    def records(self) -> list[RunRecord]:
        """Return the whole records of all runs.

        :raises InvalidInput: the study kept none.
        """
        if not all(done.packed_record for done in self._ordered()):
            raise InvalidInput("study: was played with keep_records=False, so only figures are there")
        return [done.record() for done in self._ordered()]

    def compare(self, *figures: str) -> ColumnTable:
        """Return what each configuration changes about the named figures (``wait.mean``, …), or about all of them.

        :raises InvalidInput: there is no such figure.
        """
        return effects_table(self.comparison, figures or [row.key for row in self.comparison.overall])

    @property
    def plot(self) -> Plots:
        """Plots of the study, with matplotlib (the extra ``plots``)."""
        return Plots(self)

    def to_html(self, path: Path | str) -> None:
        """Write the report as one page; the runs of the first seed are in it in full, where records were kept."""
        first = min((task.seed for task in self.results.played), default=0)
        kept = [done.record() for done in self._ordered() if done.task.seed == first and done.packed_record]
        Path(path).write_text(html_seeds(self.comparison, kept, title=self.title), encoding="utf-8")

    def to_records(self, path: Path | str) -> None:
        """Write the records of all runs, one JSON line each, for ``pumice report`` or another day."""
        Path(path).write_bytes(b"".join(encode(record) + b"\n" for record in self.records()))

    def _ordered(self) -> list[Played]:
        order = {name: at for at, name in enumerate(self.results.configurations)}
        tasks = sorted(self.results.played, key=lambda task: (task.seed, order[task.configuration]))
        return [self.results.played[task] for task in tasks if not self.results.played[task].failure]


def _value(row: SeedRow, at: int) -> str:
    value = row.values[at]
    return units.amount(None if value is None else value.estimate, row.unit, at_least=row.at_least[at])


def _judged(row: SeedRow, at: int) -> list[str]:
    """The change, its interval, the seeds won and the verdict."""
    effect = row.effects[at]
    if effect is None:
        return [""] * 4
    told = effect.verdict not in effects.UNJUDGED
    words = [effects.change(effect, row.unit), effects.limits(effect, row.unit), effects.won(effect)]
    return [*(text if told else "" for text in words), effects.verdict(effect)]


__all__ = ["ColumnTable", "Study"]
