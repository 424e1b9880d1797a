"""Answers about a cluster as a person reads them: why a job waits, how a queue stands, what a job would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pumice.answers.standing import Share, Standing
from pumice.answers.tried import QueueEffect, TriedJob, TryAnswer
from pumice.answers.why import WhyAnswer
from pumice.cli import outcome, render
from pumice.cli.explanation import place
from pumice.cli.when import likely_start
from pumice.framework.explaining.explain import Explanation, Stage
from pumice.model.limit import shown
from pumice.sim.report.units import duration
from pumice.words import counted

FROM = {
    "scheduler": "the scheduler",
    "cycle": "a saved cycle",
    "manifests": "manifests",
    "objects": "the objects in the cluster",
}


def show_why(answer: WhyAnswer) -> None:
    """Print why a job waits: one screen."""
    why = answer.explanation
    served = why.stage is Stage.SERVED
    render.heading(why.job, f"queue {why.queue or '-'} · {'runs' if served else outcome.state(why)}")
    render.line()
    rows: list[tuple[str, Any]] = []
    if served:
        rows.append(("state", why.text))
    else:
        if why.runs:
            rows.append(("state", f"runs with {why.runs}"))
        label = "more wait for" if why.runs else "waits for"
        rows.append((label, f"{why.text}{outcome.by(why.plugin)}" or outcome.stopped(why)))
        rows += [("limit" if n == 0 else "", str(at)) for n, at in enumerate(why.limits)]
        rows += [("evictions" if n == 0 else "", line) for n, line in enumerate(why.evictions)]
        rows.append(("reason", str(why.code)))
        rows.append(("place", place(why)))
    if answer.when is not None and not served:
        start = likely_start(answer.when).rpartition("the others: ")[2].removeprefix("likely starts ")
        rows.append(("more start" if why.runs else "likely start", start))
        rows += [("assuming" if n == 0 else "", text) for n, text in enumerate(answer.when.assumes)]
    if answer.since is not None and answer.now > answer.since:
        rows.append(("age", duration(answer.now - answer.since)))
    counts = ", ".join(f"{n} {status}" for status, n in why.tasks.items()) or "none yet"
    rows.append(("pods", f"{counts}; needs {why.min_available} together"))
    render.pairs(rows)
    if answer.standing is not None and answer.standing.shares:
        render.line()
        show_standing(answer.standing)
    _hints(why.unblock)
    _unseen(answer.unseen, answer.source)


def _hints(hints: Sequence[str]) -> None:
    if hints:
        render.line()
        render.line("Sooner if", style="bold")
        for hint in hints:
            render.paragraph(hint, indent=2, lead="→ ")


def _unseen(unseen: Sequence[str], source: str) -> None:
    if unseen:
        render.line()
        render.paragraph(f"Answered from {FROM[source]}. Not seen: {'; '.join(unseen)}.")


def show_standing(standing: Standing) -> None:
    """Print how a queue stands."""
    waiting = f"{standing.waiting} of {counted(standing.jobs, 'job')} {'waits' if standing.waiting == 1 else 'wait'}"
    render.heading(f"Queue {standing.queue}", f"weight {standing.weight}, {standing.state}, {waiting}")
    columns = ["RESOURCE", "HOLDS", "DESERVES", "BORROWS", "AT MOST", "ASKED FOR"]
    render.table(columns, [_share(share) for share in standing.shares], spare=["BORROWS"])


def _share(share: Share) -> tuple[str, ...]:
    def told(amount: float | None) -> str:
        return "-" if amount is None else shown(share.resource, amount)

    borrowed = told(share.borrowed) if share.borrowed else "-"
    return (
        share.resource,
        told(share.allocated),
        told(share.deserved),
        borrowed,
        told(share.capability),
        told(share.asked),
    )


def show_tried(tried: TryAnswer) -> None:
    """Print what jobs would do."""
    for job in tried.jobs:
        _tried(job)
    if tried.evicted:
        render.line()
        render.line(f"Evicted for it: {counted(len(tried.evicted), 'pod')}", style="bold red")
        names = ["POD", "JOB", "NODE"]
        rows = [(e.pod, e.job or "-", e.node, e.action) for e in tried.evicted]
        render.table(["POD", "JOB", "NODE", "BY"], rows, names=names)
    for effect in tried.queues:
        _effect(effect)
    render.line()
    render.line(f"Tried in {tried.milliseconds:g} ms on {FROM[tried.source]}; nothing was written.", style="dim")
    _unseen(tried.unseen, tried.source)


def _tried(job: TriedJob) -> None:
    many = counted(job.tasks, "pod")
    if job.starts:
        verdict = f"would start now, {len(job.placed)} of {many} placed" if job.placed else "would start now"
    elif job.promised:
        verdict = f"would start when room is released: {len(job.promised)} of {many} are promised a place"
    else:
        verdict = f"would wait: {outcome.stopped(job.why)}" if job.why is not None else "would wait"
    render.heading(job.job, f"queue {job.queue} · {verdict}")
    for what, places in (("on", job.placed), ("once it is free, on", job.promised)):
        if places:
            nodes = ", ".join(f"{node} ×{n}" if n > 1 else node for node, n in sorted(Counter(places.values()).items()))
            render.paragraph(f"{what} {nodes}", indent=2)
    if job.why is not None:
        _reasons(job.why)
    if job.when is not None:
        render.paragraph(likely_start(job.when), indent=2)


def _reasons(why: Explanation) -> None:
    render.paragraph(f"{why.text}{outcome.by(why.plugin)}", indent=2)
    for line in (*map(str, why.limits), *why.evictions):
        render.paragraph(line, indent=2)
    for hint in why.unblock:
        render.paragraph(hint, indent=2, lead="→ ")


def _effect(effect: QueueEffect) -> None:
    rows = []
    for share in effect.after.shares:
        name, told = share.resource, _share(share)
        own = effect.by_them.get(name, 0)
        more = f"+{shown(name, own)}" if own else "-"
        rows.append((name, shown(name, share.allocated - own), more, told[1], told[2], told[4]))
    if rows:
        render.line()
        render.heading(f"Queue {effect.after.queue}")
        render.table(
            ["RESOURCE", "OTHERS HOLD", "IT ADDS", "THEN", "DESERVES", "AT MOST"], rows, spare=["DESERVES", "AT MOST"]
        )
