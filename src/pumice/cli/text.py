"""What a cycle decided, and answers about a cluster, as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pumice.model.resources import Number

if TYPE_CHECKING:
    pass

from collections import Counter
from dataclasses import field
from datetime import UTC, datetime

from pumice.answers.queues import Share, Standing
from pumice.answers.when.answer import WhenAnswer, start_in_words
from pumice.answers.why import QueueEffect, TriedJob, TryAnswer, WhyAnswer
from pumice.cli import render
from pumice.framework.explaining.explain import Explanation, NearMiss, NodeReason, explain, waits
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.gpu import WHOLE
from pumice.model.intents import Evict
from pumice.model.job import Job
from pumice.model.limit import shown
from pumice.model.resources import CPU, MEMORY, dim_name
from pumice.model.task import Task
from pumice.scheduler.report import CycleReport
from pumice.sim.report.units import duration
from pumice.state.cluster import ClusterState
from pumice.words import counted

NOTHING = "nothing"
_GIB = 1 << 30


def short(amounts: Mapping[str, Number]) -> str:
    """The amounts of a task or queue, in a few words: ``4 gpu, 16 cpu, 64Gi``; the pod slot is left out."""
    parts = []
    for name, amount in sorted(amounts.items(), key=lambda item: ("/" not in item[0], item[0])):
        if name == "pods" or not amount:
            continue
        if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
            what = "" if name == "memory" else f" {name}"
            parts.append(f"{amount / _GIB:.4g}Gi{what}")
        else:
            parts.append(f"{amount:g} {name.rpartition('/')[2]}")
    return ", ".join(parts) or NOTHING


STOPPED = {
    Stage.ABSENT: "cannot be scheduled",
    Stage.ENQUEUE: "not yet admitted to its queue",
    Stage.VALID: "not complete",
    Stage.QUEUE: "over its queue's share",
    Stage.NODES: "no room on the nodes",
    Stage.TOPOLOGY: "no place with its network topology",
    Stage.READY: "not enough tasks have a place",
    Stage.OBJECTION: "a placement was objected to",
    Stage.BIND: "a bind could not be prepared",
    Stage.REFUSED: "the API server refused its bind",
    Stage.EVICTION: "the plan to make room for it was refused",
    Stage.UNSEEN: "not tried in this cycle",
    Stage.SERVED: "served",
}
"""The stages as people read them."""
_MANY_NODES = 24
_GIB = 1 << 30


@dataclass(slots=True)
class Waiting:
    """Collects, from the session of a cycle, why jobs wait; at most *limit* of them."""

    limit: int | None = None
    explained: list[Explanation] = field(default_factory=list)
    more: int = 0

    def inspect(self, ssn: Session) -> None:
        """Look at a session that has decided everything."""
        waiting = [j for j in ssn.state.jobs.values() if waits(j) or not j.in_session]
        waiting.sort(key=lambda job: (job.queue, job.uid))
        found = [why for job in waiting[: self.limit] if (why := explain(ssn, job)).stage is not Stage.SERVED]
        self.explained = sorted(found, key=lambda w: (w.queue, w.position))
        self.more = max(0, len(waiting) - self.limit) if self.limit is not None else 0


def as_data(report: CycleReport, waiting: Waiting, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """A cycle for programs; *warnings*: about the objects that it was read from."""
    return {
        "now": report.now,
        "conf": report.conf_digest,
        "binds": report.binds,
        "evictions": [i for i in report.intents if isinstance(i, Evict)],
        "nominations": report.nominations,
        "pipelined": report.pipelined,
        "phases": report.phases,
        "waiting": waiting.explained,
        "errors": report.errors,
        "warnings": [*warnings, *report.warnings],
        "milliseconds": {" ".join(key): round(seconds * 1000, 3) for key, seconds in report.timings.items()},
    }


def show(state: ClusterState, report: CycleReport, waiting: Waiting) -> None:
    """Print a cycle."""
    pods = sum(len(job.tasks) for job in state.jobs.values())
    parts = ((len(state.nodes), "node"), (len(state.queues), "queue"), (len(state.jobs), "job"), (pods, "pod"))
    size = ", ".join(counted(number, noun) for number, noun in parts)
    render.heading("One cycle", f"{size}, {report.timings.get(('cycle', 'total'), 0.0) * 1000:.1f} ms")
    _placed(state, report)
    _evicted(report)
    _promised(report)
    _waits(waiting)
    _nodes(state)
    for text in dict.fromkeys(report.errors):
        render.warning(text)
    for text in dict.fromkeys(report.warnings):
        render.warning(text)


def _title(text: str, style: str) -> None:
    render.line()
    render.line(text, style=f"bold {style}")


def _placed(state: ClusterState, report: CycleReport) -> None:
    by_job: dict[str, Counter[str]] = {}
    for pod, node in report.binds.items():
        by_job.setdefault(state.task_by_key[pod].job_key, Counter())[node] += 1
    if not by_job:
        _title("Nothing was placed", "yellow")
        return
    _title(f"Placed: {counted(len(report.binds), 'pod')} of {counted(len(by_job), 'job')}", "green")
    render.table(
        ["JOB", "QUEUE", "PODS", "EACH ASKS FOR", "NODES"],
        [
            (uid, state.jobs[uid].queue, sum(nodes.values()), _asks(state.jobs[uid]), _spread(nodes))
            for uid, nodes in sorted(by_job.items(), key=lambda item: (state.jobs[item[0]].queue, item[0]))
        ],
        wrap=["NODES", "EACH ASKS FOR"],
        names=["JOB", "QUEUE"],
        spare=["EACH ASKS FOR", "QUEUE"],
    )


def _spread(nodes: Counter[str]) -> str:
    return ", ".join(f"{node} ×{n}" if n > 1 else node for node, n in sorted(nodes.items()))


def _asks(job: Job) -> str:
    kinds = dict.fromkeys(_asks_for(task) for task in job.tasks.values())
    return " | ".join(kinds)


def _asks_for(task: Task) -> str:
    """The requests of a task; a share of GPUs, which an annotation says, first."""
    shared, rest = task.klass.gpu, short(task.requests.as_written())
    if shared is None or not any(task.klass.gpu_annotations):
        return rest
    each = f"{shared.memory} MiB of a gpu" if shared.memory else f"{shared.milli / WHOLE:g} gpu"
    asked = each if shared.devices == 1 else f"{shared.devices} × {each}"
    return f"{asked}, {rest}" if rest != NOTHING else asked


def _evicted(report: CycleReport) -> None:
    evictions = [i for i in report.intents if isinstance(i, Evict)]
    if not evictions:
        return
    _title(f"Evicted: {counted(len(evictions), 'pod')}", "red")
    rows = [(i.pod, i.node, i.action, i.beneficiary or "-") for i in evictions]
    render.table(["POD", "FROM", "BY", "FOR"], rows, names=["POD", "FROM", "FOR"])


def _promised(report: CycleReport) -> None:
    if not report.pipelined:
        return
    _title("Promised room that is being released", "cyan")
    rows = [(uid, len(pods), _spread(Counter(pods.values()))) for uid, pods in sorted(report.pipelined.items())]
    render.table(["JOB", "PODS", "NODES"], rows, wrap=["NODES"], names=["JOB"])


def _waits(waiting: Waiting) -> None:
    if not waiting.explained:
        return
    grows = [why for why in waiting.explained if why.runs]
    rest = [why for why in waiting.explained if not why.runs]
    for title, found, more in (("Grows", grows, 0), ("Waiting", rest, waiting.more)):
        if found or more:
            _title(f"{title}: {counted(len(found) + more, 'job')}", "yellow")
        for why in found:
            render.line()
            brief(why)
    if waiting.more:
        render.line(f"\n  and {waiting.more} more (-o json has all)", style="dim")


def by(plugin: str) -> str:
    """The plugin that said it, behind the text."""
    return f" ({plugin})" if plugin else ""


_STOPPED_BY: Final[dict[str, str]] = {
    ReasonCode.CAN_NEVER_FIT: "can never fit",
    ReasonCode.SURPLUS_PAUSED: "wait, because pods of the job were evicted too often",
    ReasonCode.SET_ASIDE: "is left out for a while: the scheduler failed at it",
}


def stopped(why: Explanation) -> str:
    """The reason that stopped a job, in a few words."""
    return _STOPPED_BY.get(why.code) or STOPPED[why.stage]


def state(why: Explanation) -> str:
    """How a job stands that was not served whole: what it runs with, and what stopped the rest."""
    return f"runs with {why.runs}; the others: {stopped(why)}" if why.runs else stopped(why)


def brief(why: Explanation) -> None:
    """Print why a job waits, in a few lines."""
    place = f", position {why.position} of {why.waiting}" if why.position else ""
    render.heading(f"  {why.job}", f"{state(why)} · queue {why.queue or '-'}{place}")
    render.paragraph(f"{why.text}{by(why.plugin)}", indent=4)
    for line in (*map(str, why.limits), *why.evictions):
        render.paragraph(line, indent=4)
    for hint in why.unblock:
        render.paragraph(hint, indent=4, lead="→ ")


def _nodes(state: ClusterState) -> None:
    if not state.nodes or len(state.nodes) > _MANY_NODES:
        return
    extended = sorted(
        {d for node in state.nodes.values() for d, v in node.allocatable.items() if v and "/" in dim_name(d)},
        key=dim_name,
    )
    _title("Nodes after the cycle", "blue")
    resources = [dim_name(d).rpartition("/")[2].upper() for d in extended]
    render.table(
        ["NODE", *resources, "", "CPU", "MEMORY", "PODS"],
        [
            (
                name,
                *(_of(used.get(d), node.allocatable.get(d), 1000) for d in extended),
                _bar(max((used.get(d) / whole for d in extended if (whole := node.allocatable.get(d))), default=None)),
                _of(node.used.get(CPU), node.allocatable.get(CPU), 1000),
                _of(node.used.get(MEMORY), node.allocatable.get(MEMORY), _GIB, "Gi"),
                len(node.tasks),
            )
            for name, node in sorted(state.nodes.items())
            for used in [state.devices.used_on(node)]
        ],
        names=["NODE"],
        spare=["", *reversed(resources)],
    )


def _of(used: float, whole: float, per: int, suffix: str = "") -> str:
    return f"{_short(used / per)}/{_short(whole / per)}{suffix}" if whole else "-"


def _short(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _bar(part: float | None) -> str:
    if part is None:
        return ""
    full = max(round(8 * min(part, 1)), part > 0)
    return "█" * full + "░" * (8 - full)


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
    render.heading(why.job, f"queue {why.queue or '-'} · {'runs' if served else state(why)}")
    render.line()
    rows: list[tuple[str, Any]] = []
    if served:
        rows.append(("state", why.text))
    else:
        if why.runs:
            rows.append(("state", f"runs with {why.runs}"))
        label = "more wait for" if why.runs else "waits for"
        rows.append((label, f"{why.text}{by(why.plugin)}" or stopped(why)))
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
        verdict = f"would wait: {stopped(job.why)}" if job.why is not None else "would wait"
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
    render.paragraph(f"{why.text}{by(why.plugin)}", indent=2)
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
