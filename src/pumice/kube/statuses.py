"""Status writes, coalesced: what changes several times in a moment is written once, and only if it is news."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from pumice.clock import Clock
from pumice.engine.diagnosis import FitError
from pumice.errors import InvalidInput
from pumice.framework.session.outcome import Stage
from pumice.kube.client import MERGE, STRATEGIC
from pumice.kube.kinds import RESOURCES, Resource
from pumice.kube.writer import ApiWriter
from pumice.model import native
from pumice.model.api import CONTRARY, AnyObject, Condition, PodGroup
from pumice.model.codes import ReasonCode
from pumice.model.intents import StatusUpdate
from pumice.model.queue import Queue
from pumice.model.resources import Number, Resources, amount_text, dim_name
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

EVERY = 1.0
"""Seconds between two looks at the queues."""


class QueueStatuses:
    """The queue statuses that are out of date."""

    def __init__(self) -> None:
        self._looked = float("-inf")

    def updates(self, state: ClusterState) -> list[StatusUpdate]:
        """The writes; none for queues with an equal status, or that were looked at a moment ago."""
        if 0 <= state.now - self._looked < EVERY:
            return []
        self._looked = state.now
        found = []
        for name, held in _sums(state).items():
            written = state.queues[name].object.status.allocated or {}
            if _written(written) != {d: v for d, v in held.items() if v}:
                allocated = {**dict.fromkeys(written, "0"), **{dim_name(d): amount_text(d, v) for d, v in held.items()}}
                found.append(StatusUpdate("Queue", name, {"allocated": dict(sorted(allocated.items()))}))
        return found


def _sums(state: ClusterState) -> dict[str, dict[int, Number]]:
    """Queue -> ledger of what its tasks hold; with a root, of what is below it as well."""
    sums: dict[str, dict[int, Number]] = {name: dict(queue.allocated.items()) for name, queue in state.queues.items()}
    if "root" in state.queues:
        for queue in state.queues.values():
            for above in _ancestors(state, queue):
                into = sums[above]
                for d, v in queue.allocated.items():
                    into[d] = into.get(d, 0) + v
    return sums


def _ancestors(state: ClusterState, queue: Queue) -> list[str]:
    """The queues above one; parents that are missing, or form a ring, end the way."""
    found: list[str] = []
    name = queue.parent
    while name in state.queues and name not in found and name != queue.name:
        found.append(name)
        name = state.queues[name].parent
    return found


def _written(allocated: dict[str, str | int | float]) -> dict[int, Number] | None:
    try:
        return {d: v for d, v in Resources.parse(allocated).items() if v}
    except InvalidInput:
        return None


AGAIN = 10.0
"""Seconds that pass at least before the pods of a job that fits nowhere are told another reason."""
AGAIN_REFUSED = 60.0
"""The same for jobs that were refused otherwise: numbers of queues change with every cycle."""
MANY = 100
"""So many jobs that were refused otherwise are told after one cycle; the others have their turn."""
_AT_NODES = (Stage.NODES, Stage.ABSENT, Stage.UNSEEN, Stage.SERVED)


@dataclass(frozen=True, slots=True)
class _Why:
    """Why the pods of a job wait."""

    reason: ReasonCode
    text: str
    again: float
    errors: Mapping[str, FitError]
    """The known data of single tasks, by UID."""


class PodConditions:
    """The statuses to write into pending pods: at once if they are new, seldom if only the reason changes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}

    def updates(self, report: CycleReport, state: ClusterState) -> list[StatusUpdate]:
        """The conditions to write after a cycle; none for pods that have them already."""
        found: list[StatusUpdate] = []
        told: dict[str, tuple[float, int]] = {}
        refused = 0
        for uid, why in _waiting(report):
            job = state.jobs.get(uid)
            if job is None:
                continue
            pending = job.with_status(TaskStatus.PENDING)
            before = self._told.get(uid)
            if before is not None and before[1] == len(pending) and 0 <= state.now - before[0] < why.again:
                told[uid] = before
                continue
            if why.reason is not ReasonCode.UNSCHEDULABLE and pending:
                refused += 1
                if refused > MANY:
                    continue
            told[uid] = (state.now, len(pending))
            for task in pending.values():
                if not task.pod.spec.scheduling_gates:
                    found.extend(_update(task, why.reason, str(why.errors.get(task.uid, why.text)), state.now))
        self._told = told
        return found


def _waiting(report: CycleReport) -> Iterator[tuple[str, _Why]]:
    """Jobs that were not served, with what stopped them; those refused with others of their class too."""
    for uid, errors in report.fit_errors.items():
        if errors:
            yield uid, _Why(ReasonCode.UNSCHEDULABLE, str(next(iter(errors.values()))), AGAIN, errors)
    for uid, refusal in report.refusals.items():
        if report.fit_errors.get(uid):
            continue
        if refusal.error is not None:
            yield uid, _Why(ReasonCode.UNSCHEDULABLE, str(refusal.error), AGAIN, {})
        elif refusal.stage not in _AT_NODES and uid not in report.pipelined and refusal.told:
            by = f" ({refusal.plugin})" if refusal.plugin else ""
            yield uid, _Why(refusal.stage.code, f"{refusal.told}{by}", AGAIN_REFUSED, {})


def _update(task: Task, reason: ReasonCode, why: str, now: float) -> list[StatusUpdate]:
    """The update that says why, unless the pod says so already."""
    since = datetime.fromtimestamp(now, UTC)
    for present in task.pod.status.conditions or ():
        if present.type == "PodScheduled" and present.status == "False":
            if (present.reason, present.message) == (reason, why):
                return []
            since = present.last_transition_time or since
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": why,
        "lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return [StatusUpdate("Pod", task.key, {"conditions": [condition]})]


log = logging.getLogger("pumice.kube")

_BUILT_IN = ("Pod", native.POD_GROUP)
"""Kinds of Kubernetes' own: of these a patch names only the conditions that it changes."""
LINGER = 0.1
"""Seconds for which a status waits for the next change of the same object."""
ECHO = 10.0
"""Seconds within which a status is not written again: the watch has not shown the first yet."""
AT_ONCE = 16
SLICE = 256
"""Statuses that are written before it is looked what is urgent."""
GIVES_WAY = 10.0
"""Seconds for which statuses wait while binds wait too, because binds are more urgent; then they trickle."""


class StatusWriter:
    """Writes the latest status of each object. Belongs to one event loop."""

    def __init__(
        self,
        writer: ApiWriter,
        groups: Mapping[str, Mapping[str, AnyObject]],
        clock: Clock,
        versions: Mapping[str, str] | None = None,
        where: Callable[[str], Resource] = RESOURCES.__getitem__,
    ) -> None:
        """*groups*: PodGroups by kind and key, as they were last seen. *where*: where a kind is kept."""
        self._where = where
        self._writer, self._groups, self._clock = writer, groups, clock
        self._versions = versions if versions is not None else {}
        self._pending: dict[tuple[str, str], dict[str, Any]] = {}
        self._written: dict[tuple[str, str], tuple[dict[str, Any], float, str]] = {}
        """The written status, its time, and the object of that name."""
        self._marks: dict[tuple[str, str], dict[str, str | None]] = {}
        """Annotations that are to be written."""
        self._some = asyncio.Event()
        self._urgent: set[tuple[str, str]] = set()
        self._since = 0.0
        self.busy: Callable[[], bool] = lambda: False
        """Whether there is more urgent work."""
        self.idle = asyncio.Event()
        """Nothing is waiting or being written."""
        self.idle.set()

    def put(self, update: StatusUpdate, *, urgent: bool = False) -> None:
        """A status is to be written; it joins what is waiting for the same object.

        An urgent one never gives way, unless its phase waits already and was not urgent.
        """
        if update.kind not in RESOURCES:
            log.warning("status of %s %s: a kind that is not written", update.kind, update.key)
            return
        if not self._pending:
            self._since = time.monotonic()
        waiting = self._pending.setdefault((update.kind, update.key), {})
        if update.annotations:
            self._marks.setdefault((update.kind, update.key), {}).update(update.annotations)
        if urgent and waiting.get("phase") != update.status.get("phase"):
            self._urgent.add((update.kind, update.key))
        conditions: dict[str, dict[str, Any]] = {}
        for c in (*waiting.get("conditions", ()), *update.status.get("conditions", ())):
            conditions.pop(_contrary(c), None)
            conditions[c["type"]] = c
        waiting.update(update.status)
        if conditions:
            waiting["conditions"] = list(conditions.values())
        self.idle.clear()
        self._some.set()

    def drop(self, kind: str, key: str) -> None:
        """A waiting write about an object is out of date."""
        self._pending.pop((kind, key), None)

    async def run(self) -> None:
        """Write until cancelled."""
        gate = asyncio.Semaphore(AT_ONCE)
        while True:
            await self._some.wait()
            await asyncio.sleep(LINGER)
            batch = self._due()
            await asyncio.gather(*(self._write(kind, key, status, gate) for (kind, key), status in batch.items()))
            if not self._pending:
                self._some.clear()
                self.idle.set()
                self._forget()

    def _due(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The writes for now: urgent ones, and a slice of the rest, unless it gives way to binds."""
        pending = self._pending
        room = SLICE
        if self.busy():
            room = AT_ONCE if time.monotonic() - self._since >= GIVES_WAY else 0
        urgent = [key for key in pending if key in self._urgent]
        rest = list(islice((key for key in pending if key not in self._urgent), room))
        self._urgent.clear()
        return {key: pending.pop(key) for key in (*urgent, *rest)}

    async def _mark(self, kind: str, key: str, marks: dict[str, str | None], gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                await self._writer.patch(self._where(kind).path(key), {"metadata": {"annotations": marks}}, MERGE)
            except Exception:
                log.exception("annotations of %s %s", kind, key)

    async def _write(self, kind: str, key: str, status: dict[str, Any], gate: asyncio.Semaphore) -> None:
        marks = self._marks.pop((kind, key), None)
        if marks:
            await self._mark(kind, key, marks, gate)
        if not status:
            return
        last = self._written.get((kind, key))
        group = self._groups.get(kind, {}).get(key)
        uid = group.metadata.uid if group is not None else ""
        if last is not None and (last[0], last[2]) == (status, uid) and time.monotonic() - last[1] < ECHO:
            return
        body = dict(status)
        if "conditions" in body:
            body["conditions"] = self._conditions(kind, key, body["conditions"])
        content = STRATEGIC if kind in _BUILT_IN else MERGE
        patch: dict[str, Any] = {"status": body}
        if kind == "Pod" and key in self._versions:
            # a pod that changed since, for it was bound perhaps, is not told that it cannot be
            patch["metadata"] = {"resourceVersion": self._versions[key]}
        async with gate:
            try:
                done = await self._writer.patch_status(self._where(kind), key, patch, content)
            except Exception:
                log.exception("status of %s %s", kind, key)
                return
        if done:
            self._written[kind, key] = (status, time.monotonic(), uid)

    def _conditions(self, kind: str, key: str, fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The whole list to write: a merge patch replaces lists, so conditions of other types go along.

        A condition that a new one contradicts becomes False with the new one's reason.
        """
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        group = self._groups.get(kind, {}).get(key)
        old = {c.type: c for c in group.status.conditions or ()} if isinstance(group, PodGroup) else {}
        if kind == native.POD_GROUP:
            called = native.SCHEDULED[0 if self._where(kind).prefix.endswith("v1alpha2") else 1]
            fresh = [{**c, "type": called} for c in fresh]
        types = {c["type"] for c in fresh}
        for kind, reason in [(_contrary(c), c.get("reason", "")) for c in fresh]:
            if kind in old and kind not in types and old[kind].status == "True":
                types.add(kind)
                fresh = [*fresh, {"type": kind, "status": "False", "reason": reason}]
        found = [_data(c) for c in old.values() if c.type not in types and kind not in _BUILT_IN]
        for c in fresh:
            before = old.get(c["type"])
            same = before is not None and before.status == c.get("status") and before.last_transition_time is not None
            stamp = _data(before)["lastTransitionTime"] if same and before is not None else now
            found.append({"lastTransitionTime": stamp, **c})
        return found

    def _forget(self) -> None:
        horizon = time.monotonic() - ECHO
        self._written = {k: v for k, v in self._written.items() if v[1] > horizon}


def _contrary(condition: Mapping[str, Any]) -> str:
    """The type of the condition that cannot be True beside this one; empty if there is none."""
    return CONTRARY.get(condition["type"], "") if condition.get("status") == "True" else ""


def _data(condition: Condition) -> dict[str, Any]:
    stamp = condition.last_transition_time
    data = {"type": condition.type, "status": condition.status}
    if condition.reason:
        data["reason"] = condition.reason
    if condition.message:
        data["message"] = condition.message
    if stamp is not None:
        data["lastTransitionTime"] = stamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return data
