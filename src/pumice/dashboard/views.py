"""The content of the pages: a survey filtered for the caller, numbers as pictures and words, the form of a what-if."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from markupsafe import Markup

from pumice.answers.jobs import Amounts, JobRow
from pumice.answers.queues import Loan, Standing, fairness_of, leaves_of, loans_of
from pumice.answers.supposition import WhatIf, read_what_if
from pumice.answers.survey import NodeRow, PluginRow, QueueSetting, Survey
from pumice.answers.visibility import Visibility, VisibleNames, seen
from pumice.answers.what_if import counts, fares, shares, summary
from pumice.answers.when.answer import WhenAnswer, start_in_words
from pumice.dashboard.history import UseSample
from pumice.errors import InvalidInput
from pumice.model.api import make_known
from pumice.model.limit import Limit, shown
from pumice.sim.report.units import duration
from pumice.words import counted


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A survey for one reader."""

    now: float
    source: str
    jobs: list[JobRow]
    """Those that he may see."""
    own: dict[str, Amounts]
    """Queue -> what these jobs hold."""
    queues: list[Standing] | None
    """None: he may not see how queues stand."""
    nodes: list[NodeRow] | None
    conf: str
    conf_text: str
    """Nothing for who may not see everything: a conf names queues, nodes and addresses."""
    actions: list[str]
    plugins: list[PluginRow]
    unseen: list[str]

    @property
    def waiting(self) -> list[JobRow]:
        """Those who wait, the longest first."""
        return sorted((row for row in self.jobs if row.waits), key=lambda row: (row.since, row.job))

    def reasons(self) -> list[tuple[str, int]]:
        """Why they wait, the most frequent first."""
        return Counter(row.reason for row in self.jobs if row.waits and row.reason).most_common()

    def loans(self) -> list[Loan]:
        """Borrowing between queues, by resource; the largest part of a resource first."""
        return loans_of(leaves_of(self.queues or ()))

    def fair_in_words(self) -> str:
        """Report whether the cluster is shared as the conf says. Nothing for who may not see how queues stand, or where
        no queue is short and none borrows."""
        if self.queues is None:
            return ""
        found = fairness_of(self.queues, {}, self.actions, self.now, "scheduler")
        return found.text if found.short or found.loans else ""


def seen_by(survey: Survey, sight: Visibility) -> View:
    """The user's view. Rows that he may not see are not there, so nothing of them is in any sum."""
    jobs = [row for row in survey.jobs if sight.namespaces is None or row.namespace in sight.namespaces]
    own: dict[str, Amounts] = {}
    for row in jobs:
        into = own.setdefault(row.queue, {})
        for resource, amount in row.holds.items():
            into[resource] = into.get(resource, 0) + amount
    unseen = []
    if sight.namespaces is not None:
        unseen.append("jobs of other namespaces: needs the right to list podgroups in the cluster")
    if not sight.queues:
        unseen.append("how queues stand: needs the right to get queues")
    if not sight.nodes:
        unseen.append("nodes: needs the right to list nodes")
    return View(
        now=survey.now,
        source=survey.source,
        jobs=jobs,
        own=own,
        queues=survey.queues if sight.queues else None,
        nodes=survey.nodes if sight.nodes else None,
        conf=survey.conf,
        conf_text=survey.conf_text if sight.namespaces is None and sight.queues and sight.nodes else "",
        actions=survey.actions,
        plugins=[_without_words(row) for row in survey.plugins] if sight.namespaces is not None else survey.plugins,
        unseen=unseen,
    )


def shown_rows(rows: Iterable[JobRow], survey: Survey, sight: Visibility) -> list[JobRow]:
    """Rows as they are shown: names in their texts that are not to be seen are taken out."""
    listed = list(rows)
    if sight.namespaces is None and sight.nodes:
        return listed
    names = VisibleNames(frozenset(row.namespace for row in survey.jobs), frozenset(node.name for node in survey.nodes))
    texts = seen([row.text for row in listed], sight, names)
    return [msgspec.structs.replace(row, text=text) for row, text in zip(listed, texts, strict=True)]


def _without_words(row: PluginRow) -> PluginRow:
    """A failure names jobs and nodes: only who may see all of them reads it."""
    return msgspec.structs.replace(row, last="")


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


MOST_QUEUES: Final = 60
"""Queues that the form shows."""
AMOUNTS: Final = ("deserved", "capability")
_NAMES: Final = re.compile(r"[\s,;]+")


class QueueFields(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in the form: what stands in its fields."""

    queue: str
    weight: str
    deserved: str
    capability: str


class SupposedForm(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the form."""

    queues: list[QueueFields]
    hidden: int
    """Queues that it has no room for."""
    many: str = "1"
    like: str = ""
    drained: str = ""
    conf: str = ""
    job: str = ""


def form_of(settings: Iterable[QueueSetting], given: Mapping[str, str]) -> SupposedForm:
    """The form, with the user's input, else with the current values."""
    listed = list(settings)
    rows = [
        QueueFields(
            queue=one.queue,
            weight=given.get(f"weight:{one.queue}", str(one.weight)),
            deserved=given.get(f"deserved:{one.queue}", written(one.deserved)),
            capability=given.get(f"capability:{one.queue}", written(one.capability)),
        )
        for one in listed[:MOST_QUEUES]
    ]
    known = {name: given[name] for name in ("many", "like", "drained", "conf", "job") if name in given}
    return SupposedForm(queues=rows, hidden=len(listed) - len(rows), **known)


def asked_in(form: SupposedForm, settings: Iterable[QueueSetting]) -> WhatIf:
    """The question that a form puts: what stands in it otherwise than it is set.

    :raises InvalidInput: something cannot be read, or nothing is otherwise.
    """
    known = {one.queue: one for one in settings}
    queues: dict[str, Any] = {}
    for row in form.queues:
        change = _changed(row, known[row.queue])
        if change:
            queues[row.queue] = change
    more = [{"like": form.like.strip(), "count": _whole(form.many, "nodes")}] if form.like.strip() else []
    drained = [name for name in _NAMES.split(form.drained) if name]
    return read_what_if(
        {"queues": queues, "more": more, "drained": drained, "conf": form.conf, "job": form.job.strip()}
    )


def _changed(row: QueueFields, setting: QueueSetting) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if row.weight.strip() != str(setting.weight):
        found["weight"] = _whole(row.weight, f"weight of {row.queue}")
    for field in AMOUNTS:
        was = _read(written(getattr(setting, field)), field)
        now: dict[str, str | None] = {**_read(getattr(row, field), f"{field} of {row.queue}")}
        changed = {name: now.get(name) for name in (*was, *now) if now.get(name) != was.get(name)}
        if changed:
            found[field] = changed
    return found


def written(amounts: Mapping[str, str]) -> str:
    """Amounts as the form shows them."""
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _read(text: str, what: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in text.replace("\n", ",").split(","))):
        name, _, amount = part.replace("=", " ").replace(":", " ").partition(" ")
        if not amount.strip():
            raise InvalidInput(f"{what}: {part!r}: must be a resource and an amount, as in: cpu 64, nvidia.com/gpu 8")
        found[name] = amount.strip()
    return found


def _whole(text: str, what: str) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and len(plain) < 8):
        raise InvalidInput(f"{what}: {plain!r}: must be a whole number")
    return int(plain)
