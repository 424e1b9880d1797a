"""Plots of a study for papers and notebooks, with matplotlib: an extra, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pumice.errors import InvalidInput, MissingExtra
from pumice.sim.results import timeline
from pumice.sim.results.metrics import metric

if TYPE_CHECKING:
    from pumice.sim.study import Study

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: they can be told apart by those who do not see all colours."""
_DASHES: Final = ("-", "--", "-.", ":")
_BUCKETS = 240


class Plots:
    """Figures of a study; each is a matplotlib ``Figure``, to be shown or saved: ``.savefig("wait.pdf")``."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def ecdf(self, column: str = "wait") -> Any:
        """Return the share of all jobs that waited at most so long (or any other column of ``study.jobs``).

        Jobs of all seeds are taken together. A curve that ends below 100 % shows the jobs that never started.
        """
        jobs = self._study.jobs
        if column not in jobs or jobs[column].dtype.kind not in "fi":
            raise InvalidInput(f"column {column!r}: must be a column of numbers of the table of jobs")
        figure, axes = _figure()
        for at, name in enumerate(self._study.results.configurations):
            rows = jobs.where(configuration=name, measured=True)
            values = rows[column].astype(float)
            known = np.sort(values[~(rows["wait.at_least"] if column == "wait" else np.isnan(values))])
            share = np.arange(1, known.size + 1) / max(1, values.size)
            axes.step(np.maximum(known, 1.0), 100 * share, where="post", label=name, **_style(at))
        axes.set_xscale("log")
        axes.set(xlabel=f"{column}, seconds", ylabel="share of jobs, %", ylim=(0, 101))
        axes.legend(frameon=False)
        return figure

    def over_time(self, resource: timeline.Resource = "gpu") -> Any:
        """Return the share in use over time, the mean over seeds, a line for each configuration."""
        records = self._study.records()
        figure, axes = _figure()
        last = max(timeline.span(run)[1] - timeline.span(run)[0] for run in records)
        hours = np.linspace(0, last, _BUCKETS + 1)
        for at, name in enumerate(self._study.results.configurations):
            curves = []
            for run in (run for run in records if run.name == name):
                borders = timeline.span(run)[0] + hours
                used = timeline.mean_use(run.pods, resource, borders, run.horizon)
                offered = timeline.mean_capacity(run.nodes, resource, borders, run.horizon)
                curves.append(np.divide(used, offered, out=np.zeros_like(used), where=offered > 0))
            axes.plot((hours[1:] + hours[:-1]) / 7200, 100 * np.mean(curves, axis=0), label=name, **_style(at))
        axes.set(xlabel="hours", ylabel=f"{resource.upper()} in use, %", ylim=(0, 101))
        axes.legend(frameon=False)
        return figure

    def pairs(self, figure_name: str = "wait.mean") -> Any:
        """Return the change of one figure, a dot for each seed, over its 95 % interval, for each configuration."""
        comparison = self._study.comparison
        row, unit = comparison.row(figure_name), metric(figure_name)
        figure, axes = _figure()
        names = comparison.configurations[1:]
        for at in range(len(names)):
            effect = row.effects[at + 1]
            if effect is None:
                continue
            pairs = zip(row.by_seed[0], row.by_seed[at + 1], strict=True)
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            if effect.scale == "ratio":
                steps = [100 * (max(b, 1.0) / max(a, 1.0) - 1) for a, b in known]
                scale = 100.0
            else:
                scale = 100.0 if unit.unit == "share" else 1.0
                steps = [scale * (b - a) for a, b in known]
            change = effect.change
            if change.low is not None and change.high is not None:
                axes.plot([scale * change.low, scale * change.high], [at, at], lw=9, alpha=0.25, color=COLOURS[0])
            axes.plot(steps, [at] * len(steps), "o", ms=5, alpha=0.8, color=COLOURS[0])
            axes.plot([scale * change.estimate], [at], "|", ms=18, color=COLOURS[1])
        axes.axvline(0, color="0.4", lw=1)
        what = "%" if row.effects[1] is not None and row.effects[1].scale == "ratio" else "points"
        what = what if unit.unit in ("seconds", "ratio", "share") else unit.unit
        axes.set(xlabel=f"{row.label}: change against {comparison.configurations[0]}, {what}")
        axes.set(yticks=range(len(names)), ylim=(-0.6, max(0, len(names) - 1) + 0.6))
        axes.set_yticklabels(names)
        axes.margins(x=0.08)
        figure.set_size_inches(6.4, 1.2 + 0.6 * max(1, len(names)))
        return figure


def _figure() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot", "matplotlib", "plots") from None
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def _style(at: int) -> dict[str, Any]:
    return {"color": COLOURS[at % len(COLOURS)], "linestyle": _DASHES[at % len(_DASHES)], "lw": 1.6}
