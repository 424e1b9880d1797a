"""Why a job waits, and what two runs of a cycle decided differently, as a person reads it."""

from __future__ import annotations

from typing import Any

from pumice.cli import outcome, render
from pumice.framework.explaining.explain import Explanation, NearMiss, NodeReason, Stage
from pumice.words import counted


def show(why: Explanation) -> None:
    """Print why a job waits."""
    phase = f", phase {why.phase}" if why.phase else ""
    render.heading(why.job, f"queue {why.queue or '-'}{phase}{f', runs with {why.runs}' if why.runs else ''}")
    served = why.stage is Stage.SERVED
    counts = ", ".join(f"{n} {status}" for status, n in why.tasks.items()) or "none yet"
    rows: list[tuple[str, Any]] = [
        ("tasks", f"{counts}; needs {why.min_available} together"),
        ("position", place(why)),
    ]
    if not served:
        rows.append(("stopped at", f"{why.code}: {outcome.stopped(why)}{outcome.by(why.plugin)}"))
    rows.append(("state" if served else "because", f"served: {why.text}" if served else why.text))
    rows += [("limit", str(at)) for at in why.limits]
    rows += [("evictions", line) for line in why.evictions]
    if why.task:
        rows.append(("about", f"{why.task}, asks for {_amounts(why.wants)}"))
    if why.nearest is not None:
        rows.append(("nearest miss", _miss(why.nearest)))
    render.pairs(rows)
    if why.reasons:
        render.line()
        columns = [("NODES", [r.nodes for r in why.reasons]), ("REASON", [r.text for r in why.reasons])]
        if any(r.plugin for r in why.reasons):
            columns.append(("FROM", [r.plugin or "-" for r in why.reasons]))
        if any(r.eviction_helps is not None for r in why.reasons):
            columns.append(("EVICTION", [_eviction(r) for r in why.reasons]))
        names = [name for name, _ in columns]
        render.table(names, list(zip(*(cells for _, cells in columns), strict=True)), wrap=["REASON"])
    if why.unblock:
        render.line()
        render.line("What would unblock it", style="bold")
        for hint in why.unblock:
            render.paragraph(hint, indent=2, lead="→ ")


def place(why: Explanation) -> str:
    """Where it stands among those that wait."""
    if why.position:
        inside = "" if why.let_in else ", and not let in yet"
        return f"{why.position} of {counted(why.waiting, 'job')} waiting in queue {why.queue}{inside}"
    return "none: nobody looks at it" if why.stage is Stage.ABSENT else "none: nothing of it waits"


def _eviction(reason: NodeReason) -> str:
    if reason.eviction_helps is None:
        return "not known"
    if not reason.helps_on:
        return "no use"
    return "could help" if reason.helps_on == reason.nodes else f"could help on {reason.helps_on}"


def _amounts(amounts: dict[str, str]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items()) or "nothing"


def _miss(near: NearMiss) -> str:
    if near.lacks:
        return f"{near.node} lacks {_amounts(near.lacks)}"
    return f"{near.node}: {near.objection}" if near.objection else near.node


def differences(then: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Pods for which two lists of decisions say different things, by name."""
    before, after = _by_pod(then), _by_pod(now)
    return [
        {"pod": pod, "then": before.get(pod, "waits"), "now": after.get(pod, "waits")}
        for pod in sorted(before.keys() | after.keys())
        if before.get(pod) != after.get(pod)
    ]


def _by_pod(decisions: list[dict[str, Any]]) -> dict[str, str]:
    words = {"bind": "on {node}", "evict": "evicted from {node}", "nominate": "room is made on {node}"}
    return {d["pod"]: words[d["do"]].format(node=d["node"]) for d in decisions}
