"""Numbers as pictures and words: what templates are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from markupsafe import Markup

from pumice.answers.standing import Standing
from pumice.answers.survey import NodeRow
from pumice.answers.what_if.wording import counts, fares, shares, summary
from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.spans import start_in_words
from pumice.dashboard.chronicle import UseSample
from pumice.dashboard.seeing import View
from pumice.model.api import make_known
from pumice.model.limit import Limit, shown
from pumice.sim.report.units import duration
from pumice.words import counted

GPU: Final = "nvidia.com/gpu"
make_known(WhenAnswer, Limit)


def told(resource: str, amount: float) -> str:
    """An amount as a page shows it: ``512Gi``, ``1.5``, ``106,656``."""
    text = shown(resource, amount)
    return f"{amount:,.1f}".removesuffix(".0") if abs(amount) >= 1000 and text[-1].isdigit() else text


class ShareBar(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a queue, or of the cluster: amounts in words, and as parts of the widest."""

    resource: str
    words: str
    held: float
    deserved: float | None = None
    borrowed: float = 0.0
    most: float | None = None
    """All from 0 to 100."""


class QueueBranch(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in the tree."""

    queue: str
    level: int
    waiting: int
    jobs: int
    weight: int
    state: str
    bars: list[ShareBar]
    own: str = ""


def tree_of(view: View) -> list[QueueBranch]:
    """The queues, each below its parent. For who may not see queues: what his own jobs hold in each."""
    if view.queues is None:
        rows: dict[str, list[Any]] = {}
        for row in view.jobs:
            rows.setdefault(row.queue, []).append(row)
        return [
            QueueBranch(
                queue=name,
                level=1,
                waiting=sum(row.waits for row in jobs),
                jobs=len(jobs),
                weight=0,
                state="",
                bars=[],
                own=", ".join(f"{told(r, a)} {r}" for r, a in sorted(view.own.get(name, {}).items())) or "nothing",
            )
            for name, jobs in sorted(rows.items())
        ]
    below: dict[str, list[Standing]] = {}
    names = {standing.queue for standing in view.queues}
    for standing in view.queues:
        parent = standing.parent if standing.parent in names and standing.parent != standing.queue else ""
        below.setdefault(parent, []).append(standing)
    widest = {
        share.resource: max(
            max(s.allocated, s.deserved or 0, s.capability or 0)
            for q in view.queues
            for s in q.shares
            if s.resource == share.resource
        )
        for q in view.queues
        for share in q.shares
    }
    found: list[QueueBranch] = []

    def walk(parent: str, level: int) -> None:
        for standing in below.get(parent, ()):
            found.append(_branch(standing, level, widest))
            if level < 12:
                walk(standing.queue, level + 1)

    walk("", 1)
    return found


def _branch(standing: Standing, level: int, widest: dict[str, float]) -> QueueBranch:
    bars_ = []
    for share in standing.shares:
        whole = widest.get(share.resource) or 1
        words = f"{told(share.resource, share.allocated)} {share.resource}"
        if share.deserved is not None:
            words += f", deserves {told(share.resource, share.deserved)}"
        if share.borrowed:
            words += f", borrows {told(share.resource, share.borrowed)}"
        if share.capability is not None:
            words += f", at most {told(share.resource, share.capability)}"
        if share.asked:
            words += f"; asks for {told(share.resource, share.asked)} more"
        bars_.append(
            ShareBar(
                resource=share.resource,
                words=words,
                held=100 * (share.allocated - share.borrowed) / whole,
                deserved=100 * share.deserved / whole if share.deserved is not None else None,
                borrowed=100 * share.borrowed / whole,
                most=100 * share.capability / whole if share.capability is not None else None,
            )
        )
    return QueueBranch(
        queue=standing.queue,
        level=level,
        waiting=standing.waiting,
        jobs=standing.jobs,
        weight=standing.weight,
        state=standing.state,
        bars=bars_,
    )


def bars(nodes: Iterable[NodeRow]) -> list[ShareBar]:
    """How much of the cluster is used, by resource."""
    has: dict[str, float] = {}
    used: dict[str, float] = {}
    for node in nodes:
        for resource, amount in node.has.items():
            has[resource] = has.get(resource, 0) + amount
            used[resource] = used.get(resource, 0) + node.used.get(resource, 0)
    return [
        ShareBar(
            resource=resource,
            words=_of(resource, used[resource], whole),
            held=100 * used[resource] / whole,
        )
        for resource, whole in sorted(has.items(), key=lambda item: ("/" not in item[0], item[0]))
        if (whole and resource in ("cpu", "memory")) or "/" in resource
    ]


def _of(resource: str, used: float, whole: float) -> str:
    return f"{told(resource, used)} of {told(resource, whole)}, free {told(resource, whole - used)}"


def gpu_cells(node: NodeRow) -> dict[str, Any]:
    """A node in the map: its devices taken and free, else how much of its CPU is used."""
    device = next((name for name in sorted(node.has) if "/" in name and "gpu" in name and node.has[name]), "")
    cpu = node.used.get("cpu", 0) / node.has["cpu"] if node.has.get("cpu") else 0.0
    total = round(node.has.get(device, 0)) if device else 0
    taken = min(round(node.used.get(device, 0)), total)
    words = ", ".join(
        f"{told(name, node.used.get(name, 0))} of {told(name, node.has[name])} {name}"
        for name in ("cpu", "memory", *([device] if device else []))
        if node.has.get(name)
    )
    return {
        "cells": Markup("<b></b>" * taken + "<i></i>" * (total - taken)),  # short: there may be 10,000 of them
        "level": min(9, int(cpu * 10)),
        "percent": round(100 * cpu),
        "words": f"{words}; {counted(node.pods, 'pod')}" + ("; takes no new pods" if node.closed else ""),
    }


def chart_of(samples: Sequence[UseSample]) -> dict[str, Any]:
    """Series for the charts: use by resource, share and waiting jobs by queue, fairness."""
    at = [round(sample.at, 1) for sample in samples]
    used = sorted({name for s in samples for name in s.used if name in ("cpu", "memory") or "/" in name})
    last = samples[-1].shares if samples else {}
    queues = sorted({name for s in samples for name in s.shares}, key=lambda n: (-last.get(n, 0.0), n))[:8]
    return {
        "use": _chart(
            "Use of the cluster, in percent", at, {n: [_percent(s.used.get(n)) for s in samples] for n in used}
        ),
        "shares": _chart(
            "Share of each queue, in percent", at, {n: [_percent(s.shares.get(n)) for s in samples] for n in queues}
        ),
        "waiting": _chart("Waiting jobs", at, {n: [s.waiting.get(n, 0) for s in samples] for n in queues}),
        "fairness": _chart("Fairness of shares", at, {"Jain's index": [s.fairness for s in samples]}),
    }


def _chart(title: str, at: list[float], series: dict[str, list[Any]]) -> dict[str, Any]:
    empty = all(value is None for values in series.values() for value in values)
    data = "" if empty else msgspec.json.encode([at, *series.values()]).decode()
    return {"title": title, "names": list(series), "data": data}


def _percent(part: float | None) -> float:
    return round(100 * (part or 0.0), 1)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M")


def _when(when: WhenAnswer | dict[str, Any]) -> WhenAnswer:
    """An answer, also where it is plain data by now."""
    return when if isinstance(when, WhenAnswer) else msgspec.convert(when, WhenAnswer)


TICKS: Final = (
    ("1 min", 60.0),
    ("10 min", 600.0),
    ("1 h", 3600.0),
    ("6 h", 21_600.0),
    ("1 d", 86_400.0),
    ("1 week", 604_800.0),
)


class RangeBar(msgspec.Struct, frozen=True, kw_only=True):
    """A range of time on a scale on which a week is as far from a day as ten minutes from one: from 0 to 100."""

    begins: float
    likely: float
    ends: float
    ticks: list[tuple[str, float]]


def range_bar(when: WhenAnswer | dict[str, Any]) -> RangeBar | None:
    """When a job will likely start, as a picture; None where there is no range."""
    known = _when(when)
    if known.low is None or known.likely is None or known.high is None:
        return None
    return RangeBar(
        begins=_on_scale(known.low),
        likely=_on_scale(known.likely),
        ends=_on_scale(known.high),
        ticks=[(name, _on_scale(seconds)) for name, seconds in TICKS],
    )


def _on_scale(seconds: float) -> float:
    return min(max(100 * math.log(max(seconds, 0.0) / 20 + 1) / math.log(2 * 604_800 / 20 + 1), 0.0), 100.0)


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "amount": lambda amount, resource: told(resource, amount),
    "clock": _clock,
    "minute": _minute,
    "duration": duration,
    "counted": counted,
    "limit": lambda limit: str(msgspec.convert(limit, Limit)),
    "start": lambda when: start_in_words(_when(when)),
    "range_bar": range_bar,
    "fares": fares,
    "summary": summary,
    "counts": counts,
    "shares": shares,
}
