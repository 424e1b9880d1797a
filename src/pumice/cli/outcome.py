"""What a cycle decided, as a person reads it: who goes where, who makes room, who waits and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.cli import render
from pumice.cli.amounts import NOTHING, short
from pumice.framework.explaining.explain import Explanation, explain, waits
from pumice.framework.session.refusals import Stage
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.gpu import WHOLE
from pumice.model.intents import Evict
from pumice.model.job import Job
from pumice.model.resources import CPU, MEMORY, dim_name
from pumice.model.task import Task
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.words import counted

STOPPED = {
    Stage.ABSENT: "not considered",
    Stage.ENQUEUE: "not yet admitted to its queue",
    Stage.VALID: "not complete",
    Stage.QUEUE: "its queue cannot take it now",
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
        _title("Nobody was placed", "yellow")
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
    """What a task asks for; a share of GPUs, which an annotation says, first."""
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
    """Who said it, behind what was said."""
    return f" ({plugin})" if plugin else ""


_STOPPED_BY: Final[dict[str, str]] = {
    ReasonCode.CAN_NEVER_FIT: "can never fit",
    ReasonCode.SURPLUS_PAUSED: "wait, because pods of the job were evicted too often",
    ReasonCode.SET_ASIDE: "is left out for a while: the scheduler failed at it",
}


def stopped(why: Explanation) -> str:
    """What stopped a job, in a few words."""
    return _STOPPED_BY.get(why.code) or STOPPED[why.stage]


def state(why: Explanation) -> str:
    """How a job stands that was not served whole: what it runs with, and what stopped the rest."""
    return f"runs with {why.runs}; the others: {stopped(why)}" if why.runs else stopped(why)


def brief(why: Explanation) -> None:
    """Print why a job waits, in a few lines."""
    place = f", {why.position} of {why.waiting} that wait" if why.position else ""
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
