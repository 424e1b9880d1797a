"""Device claims (dynamic resource allocation): a node must have free devices for every claim of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.framework.points.callback import Event
from pumice.model import quantity
from pumice.model.api import DeviceClass, NodeSelector, PodResourceClaim, ResourceClaim, Toleration
from pumice.model.intents import DeviceChoice
from pumice.model.reason import Code, Unfit, reason_id
from pumice.model.task import Task
from pumice.plugins.predicates.allotment import (
    AskedDevices,
    Given,
    Key,
    WantedDevices,
    allocation_of,
    choose,
    counters_left,
)
from pumice.plugins.predicates.cel import STEPS, STEPS_PER_DEVICE, compile_selector
from pumice.plugins.predicates.cel_parts import CelBudget, TooCostly
from pumice.plugins.predicates.extended import UNMADE, ExtendedResources
from pumice.plugins.predicates.offered_device import Device
from pumice.plugins.predicates.slices import Slices, selected
from pumice.plugins.predicates.taken import FreeRows, Taken
from pumice.state.cluster import ClusterState

Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
ELSEWHERE: Final = reason_id(PLUGIN, "resourceclaim not available on the node", Code.UNRESOLVABLE)
NONE_FREE: Final = reason_id(PLUGIN, "cannot allocate all claims")
MOST_USERS: Final = 256
"""A claim has at most so many users: the API's limit."""
_TRIES: Final = 30_000
"""The number of failed tries for the claims of a task, and _TRIES_PER_NODE more for each node: some 0.3 s."""
_TRIES_PER_NODE: Final = 100
TOLD: Final = ("adminAccess", "tolerations")
"""Fields of a request that its results repeat: whoever evicts for a device's taint reads the results alone."""
Promise: TypeAlias = tuple[tuple[Key, ...], dict[str, str], dict[str, Any]]
"""Devices, users (UID -> node), and the allocation to be written."""


Selectors: TypeAlias = tuple[str, ...]
"""The expressions that a device must pass for one request: those of its class and its own."""
Selected: TypeAlias = Mapping[Selectors, set[Key]]


def placed_users(state: ClusterState, users: Mapping[str, str]) -> dict[str, str]:
    """Return the users of a promise, UID -> node, that still have their place."""
    return {uid: node for uid, node in users.items() if uid in state.tasks and state.tasks[uid].node_name == node}


class Devices:
    """The filter, and which devices each claim was promised in this session or since."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.slices = Slices(state)
        self.extended = ExtendedResources(state, self.slices)
        self.promised: dict[str, Promise] = {}
        """By claim. Saved with a cycle."""
        self._held_at = -1
        self._held: set[Key] = set()
        self._in_use = Taken()
        self._free = FreeRows(state, self.slices, self._in_use)
        self._passing: dict[tuple[Selectors, ...], Selected | str] = {}
        """A claim's selectors -> the devices that pass, or why there is no answer; valid until a slice changes."""
        self._passing_at = -1

    @classmethod
    def kept(cls, store: dict[str, Any], state: ClusterState) -> Devices:
        """The one of a state that *store* keeps, made when first asked for."""
        found = store.get("devices")
        if not isinstance(found, cls) or found._state is not state:
            found = store["devices"] = cls(state)
        return found

    def forget_settled(self) -> None:
        """Drop promises that came true or whose task has no place any more."""
        for key, (devices, users, allocation) in list(self.promised.items()):
            left = placed_users(self._state, users)
            made = UNMADE in key
            written = self.extended.key_of(next(iter(left), "")) if made else key
            claim = self._state.kind("ResourceClaim").get(written or "")
            gone = not isinstance(claim, ResourceClaim) and not made
            if not left or gone or _is_written(claim, devices):
                del self.promised[key]
            else:
                self.promised[key] = (devices, left, allocation)
        self._held_at = -1

    # -- reading --------------------------------------------------------------------------------------------------
    def wanted(self, task: Task) -> bool:
        """Report whether a task has device claims, or asks for resources that device classes stand for."""
        return bool(task.klass.spec.resource_claims) or bool(self.extended.asked(task))

    def offer(self) -> None:
        """Let nodes offer what their devices serve of the resources that device classes stand for."""

        def passing(known: DeviceClass) -> set[Key]:
            texts = _selectors({}, known)
            try:
                return self._selected((texts,))[texts]
            except Unfit:
                return set()

        self.extended.offer(passing)

    def claims(self, task: Task, extended: tuple[str, ...] = ()) -> list[ResourceClaim]:
        """The task's claims, with the one for those of its extended resources that devices serve.

        :raises Unfit: one does not exist (yet), or cannot be the task's; no node will do.
        """
        made = {s.name: s.resource_claim_name for s in task.pod.status.resource_claim_statuses or ()}
        known = self._state.kind("ResourceClaim")
        out = []
        for entry in task.klass.spec.resource_claims or ():
            name = entry.resource_claim_name or made.get(entry.name)
            if entry.resource_claim_name is None and entry.name in made and name is None:
                continue
            if name is None:
                raise Unfit(f'waiting for the resourceclaim of "{entry.name}" to be created', unresolvable=True)
            found = known.get(f"{task.namespace}/{name}")
            if not isinstance(found, ResourceClaim):
                raise Unfit(f'resourceclaim "{name}" not found', unresolvable=True)
            _check(found, entry, task)
            out.append(found)
        if extended:
            out.append(self.extended.claim(task, extended))
        return out

    def asked(self, claim: ResourceClaim) -> AskedDevices:
        """The requests of a claim.

        :raises Unfit: a device class does not exist, or a selector cannot be read; no node will do.
        """
        ways: list[list[tuple[str, Mapping[str, Any]]]] = []
        for request in (claim.spec.get("devices") or {}).get("requests") or ():
            name = str(request.get("name"))
            either = request.get("firstAvailable")
            if either:
                ways.append([(f"{name}/{way.get('name')}", way) for way in either])
            else:
                ways.append([(name, request.get("exactly") or request)])
        selectors = [[(*one, self._class_of(*one)) for one in request] for request in ways]
        question = tuple(_selectors(exact, known) for request in selectors for _, exact, known in request)
        selected = self._selected(question)
        return AskedDevices(claim, [[self._wanted(*one, selected) for one in request] for request in selectors])

    def _class_of(self, name: str, exact: Mapping[str, Any]) -> DeviceClass:
        class_name = str(exact.get("deviceClassName") or "")
        known = self._state.kind("DeviceClass").get(class_name)
        if not isinstance(known, DeviceClass):
            raise Unfit(f"request {name}: device class {class_name} does not exist", unresolvable=True)
        return known

    def _wanted(self, name: str, exact: Mapping[str, Any], known: DeviceClass, selected: Selected) -> WantedDevices:
        passing = selected[_selectors(exact, known)]
        return WantedDevices(
            name,
            int(exact.get("count") or 1),
            exact.get("allocationMode") == "All",
            lambda device: device.key in passing,
            [msgspec.convert(t, Toleration) for t in exact.get("tolerations") or ()],
            bool(exact.get("adminAccess")),
            {k: quantity.milli(v) for k, v in ((exact.get("capacity") or {}).get("requests") or {}).items()},
            known.spec.get("config") or (),
            {field: exact[field] for field in TOLD if exact.get(field)},
        )

    def _selected(self, question: tuple[Selectors, ...]) -> Selected:
        """The devices that pass each of a claim's selectors; worked out once until a slice changes.

        :raises Unfit: a selector cannot be read, or together they cost more than their budget.
        """
        if self._passing_at != self.slices.version:
            self._passing_at, self._passing = self.slices.version, {}
        found = self._passing.get(question)
        if found is None:
            self.slices.read()
            found = self._passing[question] = _evaluated(question, list(self.slices.by_key.values()))
        if isinstance(found, str):
            raise Unfit(found, code=Code.ERROR)
        return found

    def _taken(self) -> set[Key]:
        """Devices that claims hold, written or promised."""
        version = self._state.versions.get("ResourceClaim", 0)
        if version != self._held_at:
            claims = self._state.kind("ResourceClaim").values()
            self._held_at = version
            self._held = {key for claim in claims if isinstance(claim, ResourceClaim) for key in allocated(claim)}
            self._in_use.become(self._held.union(*(devices for devices, *_ in self.promised.values())))
        return self._in_use.keys

    # -- filter ---------------------------------------------------------------------------------------------------
    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """Allocated claims can be used on the node; free devices for the others are there."""
        parts = list(self.extended.parts(task, rows))
        if len(parts) == 1:
            return self._filter(task, rows, parts[0][0])
        out = np.zeros(len(rows), dtype=np.int32)
        for names, at in parts:
            out[at] = self._filter(task, NodeRows(self._state.table, rows.index[at]), names)
        return out

    def _filter(self, task: Task, rows: NodeRows, extended: tuple[str, ...]) -> Reasons:
        """Filter rows on which devices serve the same of a task's extended resources.

        A claim that is left over from a bind of this task that failed may give its devices back for others.
        """
        out = np.zeros(len(rows), dtype=np.int32)
        waiting: list[AskedDevices] = []
        movable: list[tuple[AskedDevices, npt.NDArray[np.bool_]]] = []
        taken = self._taken()
        for claim in self.claims(task, extended):
            promise = self.promised.get(claim.key)
            allocation = promise[2] if promise is not None else claim.status.get("allocation")
            if not allocation:
                waiting.append(self.asked(claim))
            elif promise is None and _only_for(claim, task):
                movable.append((self.asked(claim), usable_at(allocation, rows)))
            else:
                out[~usable_at(allocation, rows)] = ELSEWHERE
        if all(usable.all() for _, usable in movable):
            if waiting:
                question = msgspec.json.encode([asked.claim.spec.get("devices") for asked in waiting])
                budget = CelBudget(_TRIES + _TRIES_PER_NODE * len(rows))
                try:
                    served = self._free.ask(
                        question, rows, lambda d: self.choose(waiting, d, taken, budget.spend) is not None
                    )
                except TooCostly:
                    raise Unfit("too many combinations of devices for the claims to try them all") from None
                out[(out == 0) & ~served] = NONE_FREE
            return out
        taken = taken.difference(*(allocated(asked.claim) for asked, _ in movable))
        for at, devices in enumerate(self.slices.present(rows)):
            if out[at]:
                continue
            stays = {key for asked, usable in movable if usable[at] for key in allocated(asked.claim)}
            asked = waiting + [a for a, usable in movable if not usable[at]]
            if asked and self.choose(asked, devices, taken | stays) is None:
                out[at] = NONE_FREE
        return out

    def choose(
        self,
        asked: Sequence[AskedDevices],
        devices: Sequence[Device],
        taken: set[Key],
        spend: Callable[[int], None] | None = None,
    ) -> dict[str, tuple[Given, ...]] | None:
        """The devices of these for all requests, by claim; None if the free ones do not suffice.

        *spend* is told what was tried in vain.
        """
        slices = self.slices
        shares = any(d.consumes for d in devices)
        users = [slices.by_key[key] for key in taken if key in slices.by_key] if shares else []
        return choose(asked, devices, taken, counters_left(slices.counters, users) if shares else {}, spend)

    # -- placements -----------------------------------------------------------------------------------------------
    def placed(self, event: Event) -> None:
        """Promise the devices that the task will use on its node."""
        task = event.task
        node = task.node
        if node is None or not self.wanted(task):
            return
        rows = NodeRows(self._state.table, np.array([node.row], dtype=np.intp))
        taken = self._taken()
        waiting = []
        for claim in self.claims(task, self._extended(task)):
            allocation = claim.status.get("allocation")
            if claim.key in self.promised:
                self.promised[claim.key][1][task.uid] = node.name
                continue
            if allocation and usable_at(allocation, rows)[0]:
                continue
            if allocation:
                taken = taken.difference(allocated(claim))
            waiting.append(claim)
        if not waiting:
            return
        chosen = self.choose([self.asked(x) for x in waiting], next(self.slices.present(rows)), taken)
        if chosen is None:
            event.err = f"node {node.name}: no devices for the claims of {task.key}"
            return
        for claim in waiting:
            given = chosen[claim.key]
            devices = tuple(g.device.key for g in given if not g.request.admin)
            self.promised[claim.key] = (devices, {task.uid: node.name}, allocation_of(claim, given))
            self._in_use.add(devices)

    def placed_many(self, tasks: Sequence[Task]) -> None:
        """Tasks that are placed in bulk have no claims."""

    def taken_back(self, event: Event) -> None:
        """Give up what was promised to the task and to no other."""
        uid = event.task.uid
        for key in [k for k, (_, users, _) in self.promised.items() if uid in users]:
            devices, users, _ = self.promised[key]
            del users[uid]
            if not users:
                del self.promised[key]
                self._in_use.discard(set(devices) - self._held)

    def choices(self, task: Task) -> list[DeviceChoice]:
        """The writes to the task's claims before the bind."""
        if not self.wanted(task):
            return []
        out = []
        names = self._extended(task)
        claims = self.claims(task, names)
        for claim in claims:
            promise = self.promised.get(claim.key)
            made = self.extended.made(task, names) if names and claim is claims[-1] else None
            allocation = promise[2] if promise is not None else None
            out.append(DeviceChoice(claim.key, claim.metadata.uid, allocation, made))
        return out

    def _extended(self, task: Task) -> tuple[str, ...]:
        """The extended resources that devices serve on the node of a task."""
        return self.extended.of_devices(self.extended.asked(task), task.node_name)


def _selectors(exact: Mapping[str, Any], known: DeviceClass) -> Selectors:
    lines = (*(known.spec.get("selectors") or ()), *(exact.get("selectors") or ()))
    return tuple(str((s.get("cel") or {}).get("expression", "")) for s in lines)


def _evaluated(question: tuple[Selectors, ...], devices: Sequence[Device]) -> Selected | str:
    """The devices that pass each of a claim's selectors, for one budget; why not, if there is no answer."""
    steps = STEPS + STEPS_PER_DEVICE * len(devices)
    budget = CelBudget(steps)
    found: dict[Selectors, set[Key]] = {}
    try:
        for texts in dict.fromkeys(question):
            budget.spend(sum(map(len, texts)) >> 2)
            compiled = [compile_selector(text) for text in texts]
            found[texts] = {d.key for d in devices if budget.left >= 0 and all(s(d, budget) for s in compiled)}
    except InvalidInput as exc:
        return str(exc)
    except TooCostly:
        pass
    if budget.left < 0:
        return f"device selectors cost more than {steps} steps for {len(devices)} devices: use shorter expressions"
    return found


def _check(claim: ResourceClaim, entry: PodResourceClaim, task: Task) -> None:
    """A claim that was made for a pod belongs to it alone. A claim that is being deleted, or has too many users, cannot
    be used."""
    name = claim.metadata.name
    if claim.metadata.deletion_timestamp is not None:
        raise Unfit(f'resourceclaim "{name}" is being deleted', unresolvable=True)
    owners = [o.uid for o in claim.metadata.owner_references or ()]
    if entry.resource_claim_name is None and owners and task.uid not in owners:
        raise Unfit(f'resourceclaim "{name}" was not created for the pod', unresolvable=True)
    users = _users(claim)
    if len(users) >= MOST_USERS and task.uid not in users:
        raise Unfit(f'resourceclaim "{name}" has {len(users)} users, and at most {MOST_USERS} are possible')


def _users(claim: ResourceClaim) -> list[str]:
    return [str(user.get("uid")) for user in claim.status.get("reservedFor") or ()]


def _only_for(claim: ResourceClaim, task: Task) -> bool:
    """Report whether an allocated claim is reserved only for a task without a node: left over from a failed bind."""
    return not task.pod.spec.node_name and _users(claim) == [task.uid]


def _is_written(claim: object, devices: Sequence[Key]) -> bool:
    """Report whether a claim got just these devices."""
    if not isinstance(claim, ResourceClaim) or not claim.status.get("allocation"):
        return False
    return set(allocated(claim)) == set(devices)


def allocated(claim: ResourceClaim) -> Iterator[Key]:
    """The devices that a claim has."""
    yield from devices_of(claim.status.get("allocation") or {})


def devices_of(allocation: Mapping[str, Any]) -> Iterator[Key]:
    """The devices of an allocation that nobody else may have."""
    devices = allocation.get("devices") or {}
    for result in devices.get("results") or ():
        if not result.get("adminAccess"):
            yield str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def usable_at(allocation: Mapping[str, Any], rows: NodeRows) -> npt.NDArray[np.bool_]:
    """Per row: whether the devices of an allocation can be used there."""
    selector = allocation.get("nodeSelector")
    if selector is None:
        return np.ones(len(rows), dtype=np.bool_)
    return selected(msgspec.convert(selector, NodeSelector), rows)
