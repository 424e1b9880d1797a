"""Answers about a cluster as a person reads them: why a job waits, how a queue stands, what a job would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pumice.answers.queues import Share, Standing
from pumice.answers.when.answer import WhenAnswer, start_in_words
from pumice.answers.why import QueueEffect, TriedJob, TryAnswer, WhyAnswer
from pumice.cli import outcome, render
from pumice.framework.explaining.explain import Explanation, NearMiss, NodeReason, Stage
from pumice.model.limit import shown
from pumice.sim.report.units import duration
from pumice.words import counted

FROM = {
    "scheduler": "the scheduler",
    "cycle": "a saved cycle",
    "manifests": "manifests",
    "objects": "the objects in the cluster",
}


def show_why(answer: WhyAnswer, *, whole: bool = False) -> None:
    """Print why a job waits on one screen; *whole*: also every reason with its nodes."""
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
    if whole and why.task:
        rows.append(("example pod", f"{why.task} ({_amounts(why.wants)})"))
    if whole and why.nearest is not None:
        rows.append(("closest node", _miss(why.nearest)))
    render.pairs(rows)
    if whole and why.reasons:
        render.line()
        columns: list[tuple[str, list[Any]]] = [
            ("NODES", [r.nodes for r in why.reasons]),
            ("REASON", [r.text for r in why.reasons]),
        ]
        if any(r.plugin for r in why.reasons):
            columns.append(("FROM", [r.plugin or "-" for r in why.reasons]))
        if any(r.eviction_helps is not None for r in why.reasons):
            columns.append(("EVICTING HELPS", [_eviction(r) for r in why.reasons]))
        titles = [title for title, _ in columns]
        render.table(titles, list(zip(*(cells for _, cells in columns), strict=True)), wrap=["REASON"])
    if answer.standing is not None and answer.standing.shares:
        render.line()
        show_standing(answer.standing)
    _hints(why.unblock)
    _unseen(answer.unseen, answer.source)


def place(why: Explanation) -> str:
    """Return where a job stands among the pending jobs of its queue."""
    if why.position:
        inside = "" if why.let_in else ", not yet admitted"
        return f"position {why.position} of {why.waiting} in queue {why.queue}{inside}"
    return "none: it cannot be scheduled" if why.stage is Stage.ABSENT else "none: no pod of it waits"


def likely_start(answer: WhenAnswer) -> str:
    """Return when a job will likely start, in one line."""
    known = answer.low is not None and answer.high is not None
    return start_in_words(answer, _clock(answer.now, answer.low or 0.0, answer.high or 0.0) if known else "")


def _clock(now: float, low: float, high: float) -> str:
    """Return the two times of day in UTC, or nothing if *now* is simulated time."""
    if now < 1e9:
        return ""
    early, late = (datetime.fromtimestamp(now + seconds, UTC) for seconds in (low, high))
    same = early.date() == late.date() == datetime.fromtimestamp(now, UTC).date()
    form = "%H:%M" if same else "%b %d %H:%M"
    return f", {early:{form}} to {late:{form}} UTC"


def _eviction(reason: NodeReason) -> str:
    if reason.eviction_helps is None:
        return "unknown"
    if not reason.helps_on:
        return "no"
    return "yes" if reason.helps_on == reason.nodes else f"on {counted(reason.helps_on, 'node')}"


def _amounts(amounts: dict[str, str]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items()) or "nothing"


def _miss(near: NearMiss) -> str:
    if near.lacks:
        return f"{near.node}, short of {_amounts(near.lacks)}"
    return f"{near.node}: {near.objection}" if near.objection else near.node


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
    columns = ["RESOURCE", "HOLDS", "DESERVES", "AT MOST", "PENDING", "BORROWS"]
    rows = [
        (share.resource, *share_cells(share), shown(share.resource, share.borrowed) if share.borrowed else "-")
        for share in standing.shares
    ]
    render.table(columns, rows, spare=["BORROWS"])


def share_cells(share: Share) -> tuple[str, str, str, str]:
    """Return what a queue holds, deserves, may have at most and asks for of a resource."""
    amounts = (share.allocated, share.deserved, share.capability, share.asked)
    holds, deserves, at_most, asked = ("-" if a is None else shown(share.resource, a) for a in amounts)
    return holds, deserves, at_most, asked


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
        name, (_, deserves, at_most, _) = share.resource, share_cells(share)
        own = effect.by_them.get(name, 0)
        more = f"+{shown(name, own)}" if own else "-"
        rows.append((name, shown(name, share.allocated - own), more, shown(name, share.allocated), deserves, at_most))
    if rows:
        render.line()
        render.heading(f"Queue {effect.after.queue}")
        render.table(
            ["RESOURCE", "OTHERS HOLD", "IT ADDS", "THEN", "DESERVES", "AT MOST"], rows, spare=["DESERVES", "AT MOST"]
        )
