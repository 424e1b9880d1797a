"""Intents on their way to the API server: many binds in flight, evictions plan by plan, the rest coalesced."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Protocol

import numpy as np

from pumice.answers.visibility import for_owner
from pumice.kube.claims import Preparer
from pumice.kube.events import NoteWriter
from pumice.kube.statuses import StatusWriter
from pumice.kube.writer import ApiWriter
from pumice.model.api import Toleration
from pumice.model.codes import ReasonCode
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed
from pumice.model.intents import Bind, Evict, Intent, Nominate, Note, StatusUpdate
from pumice.model.node import Node
from pumice.model.resources import dim_name
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.ports import Binder
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.kube")


LET_IN = "Inqueue"
"""The phase that controllers wait for before they make pods: it is written at once, unless the pods are there."""
_APART = 0.002
"""Seconds between the first connections for binds: of many that are made at once none is ready soon."""
BOUND_WITHIN = (0.1, 0.4, 1.5)
"""Seconds between looks whether a pod has the node that an extender says it bound it to."""


class Outcomes(Protocol):
    """The observer of binds and evictions."""

    def bound(self, uid: str, seconds: float, ok: bool) -> None:
        """A bind was answered after so many seconds."""
        ...

    def evicted(self, ok: bool) -> None:
        """An eviction was answered."""
        ...

    def refused(self, what: str) -> None:
        """A status, a nomination or annotations could not be written."""
        ...


class Outbox:
    """Takes intents over and carries them out. Belongs to one event loop.

    Every bind and every eviction ends in one of two ways: the watch shows it, or a `BindFailed` or `EvictFailed` goes
    to *report*.
    """

    def __init__(
        self,
        writer: ApiWriter,
        statuses: StatusWriter,
        notes: NoteWriter,
        report: Callable[[Sequence[ClusterEvent]], None],
        *,
        in_flight: int = 64,
        binders: Mapping[str, Binder] | None = None,
        nodes: Container[str] | None = None,
        namespaces: Iterable[str] = (),
        preparer: Preparer | None = None,
        outcomes: Outcomes | None = None,
    ) -> None:
        self._writer, self._statuses, self._notes, self._report = writer, statuses, notes, report
        self._in_flight = in_flight
        self._binders = binders if binders is not None else {}
        self._nodes, self._outcomes, self._namespaces = nodes, outcomes, namespaces
        self._threads = ThreadPoolExecutor(min(in_flight, 32), "pumice-bind")
        self._binds: asyncio.Queue[Bind] = asyncio.Queue()
        self._begun = asyncio.Event()
        """Something was to be bound."""
        statuses.busy = lambda: not self._binds.empty()
        if outcomes is not None:
            writer.refused = outcomes.refused
        self._preparer = preparer
        self._unprepared: asyncio.Queue[list[Bind]] = asyncio.Queue()
        """Binds with claims, with all others of their job."""
        self._closing = False
        self._plans: asyncio.Queue[list[Evict]] = asyncio.Queue()
        self._nominations: asyncio.Queue[Nominate] = asyncio.Queue()
        self._nominated: dict[str, str] = {}
        self._waiting: set[str] = set()
        """UIDs of binds and evictions that were not begun."""
        self._withdrawn: dict[str, str] = {}
        """The writes that must not be sent, and why."""

    def withdraw(self, whys: Mapping[str, str]) -> None:
        """These binds and evictions, by the pods' UIDs, are not to happen any more; those that were begun go on."""
        self._withdrawn.update({uid: why for uid, why in whys.items() if uid in self._waiting})

    def _begin(self, uid: str) -> str:
        """A bind or an eviction is due; returns why it is not to be, or nothing."""
        self._waiting.discard(uid)
        return self._withdrawn.pop(uid, "")

    def put(self, intents: Sequence[Intent]) -> None:
        """Take over a batch of intents."""
        evictions: list[Evict] = []
        binds: list[Bind] = []
        placed = {intent.job for intent in intents if isinstance(intent, Bind)}
        namespaces = frozenset(self._namespaces)
        for written in intents:
            intent = for_owner(written, namespaces) if isinstance(written, (Note, StatusUpdate)) else written
            match intent:
                case Bind():
                    self._nominated.pop(intent.uid, None)
                    self._statuses.drop("Pod", intent.pod)
                    binds.append(intent)
                case Evict():
                    evictions.append(intent)
                case Nominate():
                    if self._nominated.get(intent.uid) != intent.node:
                        self._nominated[intent.uid] = intent.node
                        self._nominations.put_nowait(intent)
                case StatusUpdate():
                    self._statuses.put(intent, urgent=intent.status.get("phase") == LET_IN and intent.key not in placed)
                case Note():
                    self._notes.put(intent)
        self._waiting.update(bind.uid for bind in binds)
        self._waiting.update(eviction.uid for eviction in evictions)
        self._put_binds(binds)
        for _, plan in groupby(evictions, key=lambda e: (e.action, e.beneficiary)):
            self._plans.put_nowait(list(plan))

    def _put_binds(self, binds: Sequence[Bind]) -> None:
        """Send binds on their way; those of a job with claims together, by way of the claims."""
        if binds:
            self._begun.set()
        together: dict[str, list[Bind]] = {b.job or b.uid: [] for b in binds if b.prepare} if self._preparer else {}
        for bind in binds:
            if together and (bind.job or bind.uid) in together:
                together[bind.job or bind.uid].append(bind)
            else:
                self._binds.put_nowait(bind)
        for group in together.values():
            self._unprepared.put_nowait(group)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._preparer is not None:
                group.create_task(self._prepare_all(self._preparer, group))
            for number in range(self._in_flight):
                group.create_task(self._bind_all(number))
            for _ in range(4):
                group.create_task(self._evict_all())
            group.create_task(self._nominate_all())
            group.create_task(self._statuses.run())
            group.create_task(self._notes.run())

    async def finish(self, *, claims: bool = True) -> None:
        """Return when everything that was taken over has been carried out (events for people excepted).

        Without *claims*, binds that still wait for theirs are left to whoever comes after us.
        """
        self._closing = not claims
        if claims:
            await self._unprepared.join()
        await self._binds.join()
        await self._plans.join()
        await self._nominations.join()
        await self._statuses.idle.wait()

    # -- binds ------------------------------------------------------------------------------------------------------
    async def _bind_all(self, number: int) -> None:
        await self._begun.wait()
        await asyncio.sleep(number * _APART)
        while True:
            intent = await self._binds.get()
            begun = time.perf_counter()
            try:
                why, refused = self._begin(intent.uid), False
                if not why:
                    why, refused = await self._bind(intent)
            except Exception as exc:
                log.exception("binding %s", intent.pod)
                why, refused = f"{type(exc).__name__}: {exc}", True
            if self._outcomes is not None:
                self._outcomes.bound(intent.uid, time.perf_counter() - begun, not why)
            if intent.prepare and self._preparer is not None:
                await self._preparer.done(intent, failed=bool(why))
            if why:
                self._failed(intent, why, refused=refused)
            self._binds.task_done()

    def _failed(self, intent: Bind, why: str, *, refused: bool) -> None:
        self._writer.refusals.tell(f"pod {intent.pod} was not bound: {why}", intent.pod)
        self._report([BindFailed(intent.pod, intent.uid, why, intent.node, refused)])

    async def _prepare_all(self, preparer: Preparer, group: asyncio.TaskGroup) -> None:
        while True:
            binds = await self._unprepared.get()
            group.create_task(self._prepare(preparer, binds))

    async def _prepare(self, preparer: Preparer, binds: Sequence[Bind]) -> None:
        """Make the claims of some binds ready, then let them go on; it takes as long as their volumes take."""
        try:
            refused = await preparer.prepare(binds)
        except Exception as exc:
            log.exception("preparing the claims of %s", binds[0].job or binds[0].pod)
            refused = {bind.uid: f"{type(exc).__name__}: {exc}" for bind in binds}
        for bind in binds if not self._closing else ():
            if bind.uid in refused:
                why = refused[bind.uid]
                self._begin(bind.uid)
                text = f"{bind.node}: {why}"
                self._notes.put(Note("Pod", bind.pod, "Warning", ReasonCode.FAILED_BINDING, text), bind.uid)
                self._failed(bind, why, refused=True)
            else:
                self._binds.put_nowait(bind)
        self._unprepared.task_done()

    async def _bind(self, intent: Bind) -> tuple[str, bool]:
        """Bind a pod; returns why it did not happen, or nothing, and whether it would be refused again."""
        if self._nodes is not None and intent.node not in self._nodes:
            return "the node is gone", False  # the server does not look, and would bind to nowhere
        if not intent.binder:
            no = await self._writer.bind(intent)
            return ("", False) if no is None else (str(no), no.for_good)
        binder = self._binders.get(intent.binder)
        if binder is None:
            return f"binder {intent.binder!r}: there is none of that name", True
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, binder.bind, intent)
        except Exception as exc:  # whatever a binder raises, it may have bound: the pod tells
            return ("" if await self._writer.node_of(intent) == intent.node else str(exc)), True
        return await self._seen_bound(intent), True

    async def _seen_bound(self, intent: Bind) -> str:
        """Whether a pod that somebody else bound has its node; the server is asked, for a binder may be wrong."""
        for wait in (*BOUND_WITHIN, None):
            node = await self._writer.node_of(intent)
            if node == intent.node:
                return ""
            if node or wait is None:
                break
            await asyncio.sleep(wait)
        has = f"the pod is on {node}" if node else "the pod has no node"
        return f"binder {intent.binder!r} says that it is bound, but {has}"

    # -- evictions --------------------------------------------------------------------------------------------------
    async def _evict_all(self) -> None:
        while True:
            plan = await self._plans.get()
            try:
                await self._carry_out(plan)
            finally:
                self._plans.task_done()

    async def _carry_out(self, plan: list[Evict]) -> None:
        """Evict one after the other; the first refusal stops the rest, for they may be in vain now."""
        freed: set[str] = set()
        for at, intent in enumerate(plan):
            in_vain = self._begin(intent.uid)
            if in_vain:
                log.info("pod %s is not evicted: %s", intent.pod, in_vain)
                self._report([_not_evicted(intent, in_vain, freed)])
                continue
            why = await self._evict(intent)
            if self._outcomes is not None:
                self._outcomes.evicted(not why)
            if why:
                rest = plan[at + 1 :]
                for one in rest:
                    self._begin(one.uid)
                text = f"the eviction of {intent.pod} was refused"
                failed = [_not_evicted(one, text, freed) for one in rest]
                self._report([_not_evicted(intent, why, freed, tried=True), *failed])
                return
            freed.add(intent.node)
            text = f"Pod is evicted, because of {intent.action}{_for_whom(intent)}"
            self._notes.put(Note("Pod", intent.pod, "Warning", ReasonCode.EVICT, text), intent.uid)

    async def _evict(self, intent: Evict) -> str:
        """Evict a pod; returns why it did not happen, or nothing."""
        try:
            why = await self._writer.evict(intent)
        except Exception as exc:
            log.exception("evicting %s", intent.pod)
            why = f"{type(exc).__name__}: {exc}"
        if why:
            self._writer.refusals.tell(f"pod {intent.pod} was not evicted: {why}", intent.pod)
        return why

    async def _nominate_all(self) -> None:
        while True:
            intent = await self._nominations.get()
            try:
                await self._writer.nominate(intent)
            except Exception:
                log.exception("nominating %s for %s", intent.node, intent.pod)
            self._nominations.task_done()
            if len(self._nominated) > 100_000:
                self._nominated.clear()


def _not_evicted(intent: Evict, why: str, freed: Container[str], *, tried: bool = False) -> EvictFailed:
    return EvictFailed(intent.pod, intent.uid, why, intent.node, intent.beneficiary, tried, intent.node in freed)


def _for_whom(intent: Evict) -> str:
    """For whose good a pod goes, as its owner may know it: names of other namespaces are not told."""
    whom = intent.beneficiary_pod or intent.beneficiary
    if not whom:
        return ""
    namespace, _, name = whom.partition("/")
    if namespace == intent.pod.partition("/")[0]:
        return f", to make room for {name}"
    return ", to make room for a pod of another namespace"


S = TaskStatus
_CORDONED = "node.kubernetes.io/unschedulable"


class StaleIntents:
    """Looks once more at what was handed over, against the newest view of the cluster.

    Beside another scheduler, or after a takeover with thousands of binds, seconds pass between a decision and its
    request. A write in here is withdrawn if it was not sent yet, and decided anew.
    """

    def __init__(self) -> None:
        self._binds: dict[str, Bind] = {}
        self._evictions: dict[str, Evict] = {}

    def handed_over(self, intents: Iterable[Intent]) -> None:
        """These are on their way."""
        for intent in intents:
            match intent:
                case Bind():
                    self._binds[intent.uid] = intent
                case Evict():
                    self._evictions[intent.uid] = intent

    def look(self, state: ClusterState) -> dict[str, str]:
        """Why something should not be sent any more, by the pod's UID. Cost: what is on its way."""
        found: dict[str, str] = {}
        nodes: dict[int, Node] = {}
        for uid, bind in list(self._binds.items()):
            task = state.assumed.get(uid)
            if task is not None and task.status is S.BINDING and task.node is not None:
                nodes[task.row] = task.node
                if task.node.unschedulable and not _tolerates_cordon(task):
                    found[uid] = f"node {bind.node} was cordoned"
                continue
            del self._binds[uid]
            gone = state.tasks.get(uid)
            if gone is None or gone.status in (S.RELEASING, S.SUCCEEDED, S.FAILED):
                found[uid] = "the pod is gone or leaving"
        for uid, why in self._crowded(state, nodes.values()):
            found.setdefault(uid, why)
        for uid, eviction in list(self._evictions.items()):
            task = state.assumed.get(uid)
            if task is None or task.status is not S.RELEASING:
                del self._evictions[uid]
                continue
            helped = state.task_by_key.get(eviction.beneficiary_pod)
            if eviction.beneficiary_pod and (helped is None or helped.status is not S.PENDING):
                what = "is gone" if helped is None else "has its place"
                found[uid] = f"{eviction.beneficiary_pod}, for which it was to make room, {what}"
        return found

    def _crowded(self, state: ClusterState, nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
        """Binds to nodes on which more is held than there is: those handed over last, until the rest fits."""
        idle = state.table.idle
        for node in nodes:
            short = {d: -int(idle[d, node.row]) for d in np.flatnonzero(idle[:, node.row] < 0).tolist()}
            if not short:
                continue
            for uid in reversed([uid for uid in self._binds if uid in node.tasks]):
                held = dict(state.tasks[uid].klass.items)
                helps = [d for d, lacking in short.items() if lacking > 0 and held.get(d, 0) > 0]
                if helps:
                    yield uid, f"{dim_name(helps[0])} of node {node.name} was taken by others"
                    short = {d: lacking - held.get(d, 0) for d, lacking in short.items()}


def _tolerates_cordon(task: Task) -> bool:
    def tolerates(one: Toleration) -> bool:
        return one.key == _CORDONED or (not one.key and one.operator == "Exists")

    return any(map(tolerates, task.pod.spec.tolerations or ()))
