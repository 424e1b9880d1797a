"""Plots of a study for papers and notebooks, with matplotlib: an extra, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pumice.errors import InvalidInput, MissingExtra
from pumice.sim.results import timeline
from pumice.sim.results.metrics import metric
from pumice.sim.results.records import RunRecord

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
        """Return the share of all jobs that waited longer than so long (or any other column of ``study.jobs``).

        Jobs of all seeds are taken together. In many scenarios most jobs do not wait, so the share that waits longer
        is drawn, on two logarithmic axes. A curve that ends above the ground shows the jobs that never started.
        """
        jobs = self._study.jobs
        if column not in jobs or jobs[column].dtype.kind not in "fi":
            raise InvalidInput(f"column {column!r}: must be a column of numbers of the table of jobs")
        figure, axes = _figure()
        for at, name in enumerate(self._study.results.configurations):
            rows = jobs.where(configuration=name, measured=True)
            values = rows[column].astype(float)
            known = np.sort(values[~(rows["wait.at_least"] if column == "wait" else np.isnan(values))])
            longer = 1 - np.arange(known.size + 1) / max(1, values.size)
            times = np.maximum(np.concatenate(([1.0], known)), 1.0)
            axes.step(times, 100 * longer, where="post", label=name, **_style(at))
        axes.set(xscale="log", yscale="log", title=f"{self._study.title}: jobs with a longer {column}")
        axes.set(xlabel=f"{column}, seconds", ylabel="share of jobs, %", ylim=(None, 110))
        axes.legend(frameon=False)
        return figure

    def waits(self, by: str = "queue", figure_name: str = "wait.mean") -> Any:
        """Return the mean wait of each queue (or size) under each configuration, with its 95 % interval."""
        comparison = self._study.comparison
        tables = {"queue": comparison.by_queue, "size": comparison.by_size}.get(by)
        if tables is None:
            raise InvalidInput(f"by: must be queue or size, got {by!r}")
        found = [(one.name, row) for one in tables for row in one.rows if row.key == figure_name]
        if not found:
            raise InvalidInput(f"figure {figure_name!r}: no {by} has a value of it")
        figure, axes = _figure()
        names, wide = comparison.configurations, 0.8 / len(comparison.configurations)
        places = np.arange(len(found))
        for at, name in enumerate(names):
            values = [row.values[at] for _, row in found]
            heights = np.array([0.0 if value is None else value.estimate for value in values])
            ends = [
                (height if v is None or v.low is None else v.low, height if v is None or v.high is None else v.high)
                for v, height in zip(values, heights, strict=True)
            ]
            errors = np.abs(np.array(ends).T - heights) / 60
            middle = places + (at - (len(names) - 1) / 2) * wide
            axes.bar(middle, heights / 60, 0.92 * wide, yerr=errors, label=name, color=_colour(at), capsize=2)
        axes.set(title=f"{self._study.title}: {found[0][1].label.lower()} by {by}", ylabel="minutes")
        axes.set(xticks=places, ylim=(0, None))
        axes.set_xticklabels([name for name, _ in found])
        axes.legend(frameon=False)
        return figure

    def jobs(self, configuration: str | None = None, seed: int | None = None, most: int = 60) -> Any:
        """Return a Gantt chart of one run: each job from submission (thin) and start to its end, coloured by queue.

        Among more jobs than *most*, those with the most GPU time, or CPU time, are drawn.
        """
        run = self._run(configuration, seed)
        first, last = timeline.span(run)
        chosen = sorted(run.jobs, key=lambda job: -(job.gpus or job.cpus) * (job.duration or 0.0))[:most]
        chosen.sort(key=lambda job: (job.submit, job.key))
        queues = sorted({job.queue for job in run.jobs})
        figure, axes = _figure()
        for row, job in enumerate(chosen):
            end = last if job.end is None else job.end
            start = end if job.start is None else job.start
            colour = _colour(queues.index(job.queue))
            axes.hlines(row, _hours(job.submit - first), _hours(start - first), color="0.6", lw=0.8)
            axes.barh(row, _hours(end - start), 0.8, _hours(start - first), color=colour)
        for at, queue in enumerate(queues):
            axes.barh(0, 0, color=_colour(at), label=queue)
        more = f", the {most} largest of {len(run.jobs):,}" if len(run.jobs) > most else ""
        axes.set(title=f"{run.name}, {self._study.comparison.each.split()[0]} {run.seed}: jobs{more}", xlabel="hours")
        axes.set(yticks=[], ylim=(len(chosen) - 0.4, -0.6))
        axes.legend(frameon=False, fontsize="small")
        figure.set_size_inches(6.4, min(7.0, 1.4 + 0.09 * len(chosen)))
        return figure

    def nodes(
        self, configuration: str | None = None, seed: int | None = None, resource: timeline.Resource = "gpu"
    ) -> Any:
        """Return a heat map of one run: the share of each node that was in use over time."""
        run = self._run(configuration, seed)
        borders = timeline.edges(run, _BUCKETS)
        names = sorted({node.name for node in run.nodes})
        rows = []
        for name in names:
            there = [node for node in run.nodes if node.name == name]
            offered = timeline.mean_capacity(there, resource, borders, run.horizon)
            used = timeline.mean_use([pod for pod in run.pods if pod.node == name], resource, borders, run.horizon)
            rows.append(np.divide(used, offered, out=np.full_like(used, np.nan), where=offered > 0))
        figure, axes = _figure()
        axes.grid(visible=False)
        extent = (0, _hours(borders[-1] - borders[0]), len(names), 0)
        image = axes.imshow(
            100 * np.array(rows),
            aspect="auto",
            extent=extent,
            vmin=0,
            vmax=100,
            cmap="viridis",
            interpolation="nearest",
        )
        figure.colorbar(image, ax=axes, label=f"{resource.upper()} in use, %")
        axes.set(title=f"{run.name}, {self._study.comparison.each.split()[0]} {run.seed}: nodes", xlabel="hours")
        step = max(1, len(names) // 16)
        axes.set_yticks(np.arange(0, len(names), step) + 0.5, names[::step])
        return figure

    def _run(self, configuration: str | None, seed: int | None) -> RunRecord:
        """The record of one run: the first of a configuration or seed that is not named."""
        for run in self._study.records():
            if configuration in (None, run.name) and seed in (None, run.seed):
                return run
        raise InvalidInput(f"study: no run of configuration {configuration!r} and seed {seed!r}")

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
        axes.set(title=f"{self._study.title}: {resource.upper()} in use", xlabel="hours")
        axes.set(ylabel="share of what nodes offer, %", ylim=(0, 101))
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
        axes.set(title=f"{self._study.title}: {row.label.lower()} on {len(comparison.seeds)} seeds")
        axes.set(xlabel=f"change against {comparison.configurations[0]}, {what}")
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


def _hours(seconds: float) -> float:
    return float(seconds) / 3600


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def _style(at: int) -> dict[str, Any]:
    return {"color": COLOURS[at % len(COLOURS)], "linestyle": _DASHES[at % len(_DASHES)], "lw": 1.6}
