"""Device claims (dynamic resource allocation) as a session changes them in its mind: who uses which devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.model.api import ResourceClaim
from pumice.model.intents import DeviceChoice
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task
from pumice.plugins.predicates.allotment import Key, allocation_of
from pumice.plugins.predicates.devices import MOST_USERS, Devices, devices_of, placed_users, usable_at
from pumice.plugins.predicates.slices import UNREADABLE
from pumice.state.cluster import ClusterState

Allocation: TypeAlias = Mapping[str, Any]
_MOST: Final = 10**6
"""GPUs that a claim counts as at most: more than that no cluster has, and sums stay small."""


@dataclass(slots=True, eq=False)
class HeldClaim:
    """One claim: its devices and its users, in mind."""

    claim: ResourceClaim
    gpus: int
    """GPUs that it asks for: devices of classes that are named after them."""
    allocation: Allocation | None
    users: set[str]
    """UIDs of pods."""

    def is_full_for(self, uid: str) -> bool:
        """Report whether it has as many users as permitted, and a pod is none of them."""
        return len(self.users) >= MOST_USERS and uid not in self.users


ClaimsBefore: TypeAlias = tuple[tuple[HeldClaim, Allocation | None], ...]
"""The claims of a task with what they had before a change."""


class ClaimedDevices:
    """All claims of a cluster."""

    def __init__(self, state: ClusterState, kept: dict[str, Any], promised: dict[str, Any]) -> None:
        """*kept*: store of what is read of slices; *promised*: claim -> users, allocation of binds under way."""
        self._state, self._promised = state, promised
        self._devices = Devices.kept(kept, state)
        self._taken: Counter[Key] = Counter()
        self._claims: dict[str, HeldClaim] = {}
        for key, claim in state.kind("ResourceClaim").items():
            if isinstance(claim, ResourceClaim):
                with suppress(*UNREADABLE):  # a claim that cannot be read is none
                    self._claims[key] = self._seen(claim)
        self._take_promises_in()

    def _seen(self, claim: ResourceClaim) -> HeldClaim:
        users = {str(user.get("uid")) for user in claim.status.get("reservedFor") or ()}
        held = HeldClaim(claim, _gpus(claim), None, users)
        self._give(held, claim.status.get("allocation") or None)
        return held

    def _take_promises_in(self) -> None:
        """The devices of binds that the cluster has not carried out yet."""
        for key, (users, allocation) in list(self._promised.items()):
            held, left = self._claims.get(key), placed_users(self._state, users)
            if held is None or held.allocation is not None or not left:
                del self._promised[key]
                continue
            self._promised[key] = (left, allocation)
            held.users.update(left)
            self._give(held, allocation)

    def _give(self, held: HeldClaim, allocation: Allocation | None) -> None:
        """The claim has these devices from now on, or none."""
        had, gets = list(devices_of(held.allocation or {})), list(devices_of(allocation or {}))
        self._taken.subtract(had)
        self._taken.update(gets)
        held.allocation = allocation

    # -- asking -----------------------------------------------------------------------------------------------------
    def of(self, task: Task) -> Iterator[HeldClaim]:
        """The claims of a task, as far as they exist."""
        made = {s.name: s.resource_claim_name for s in task.pod.status.resource_claim_statuses or ()}
        for entry in task.klass.spec.resource_claims or ():
            held = self._claims.get(f"{task.namespace}/{entry.resource_claim_name or made.get(entry.name)}")
            if held is not None:
                yield held

    def counted(self, task: Task) -> tuple[tuple[str, int], ...]:
        """(claim, GPUs that it counts as) of a task."""
        return tuple((held.claim.key, held.gpus) for held in self.of(task))

    def refusal(self, task: Task) -> str:
        """Why no node will do for the claims of a task; nothing where one may."""
        try:
            for claim in self._devices.claims(task):
                if self._claims[claim.key].allocation is None:
                    self._devices.asked(claim)
        except Unfit as exc:
            return str(exc)
        except UNREADABLE as exc:
            return f"a resource claim cannot be read: {exc}"
        return ""

    def fit(self, task: Task, node: Node) -> bool:
        """Report whether the claims of a task can be used on a node, and devices are there for those that have none."""
        return self._found(task, node) is not None

    def _found(self, task: Task, node: Node) -> list[tuple[HeldClaim, Allocation]] | None:
        """The devices that claims without devices would get on a node; None if one cannot be served."""
        rows = NodeRows(self._state.table, np.array([node.row], dtype=np.intp))
        waiting = [held for held in self.of(task) if held.allocation is None]
        taken = {key for key, n in self._taken.items() if n > 0}
        try:
            if not all(usable_at(h.allocation, rows)[0] for h in self.of(task) if h.allocation is not None):
                return None
            asked = [self._devices.asked(held.claim) for held in waiting]
        except (Unfit, *UNREADABLE):
            return None
        if not waiting:
            return []
        chosen = self._devices.choose(asked, next(self._devices.slices.present(rows)), taken)
        if chosen is None:
            return None
        return [(held, allocation_of(held.claim, chosen[held.claim.key])) for held in waiting]

    def still_free(self, before: ClaimsBefore) -> bool:
        """Report whether the claims of a task could have their devices again."""
        return all(
            had is None or held.allocation == had or (held.allocation is None and not self._in_use(had))
            for held, had in before
        )

    def _in_use(self, allocation: Allocation) -> bool:
        return any(self._taken[key] > 0 for key in devices_of(allocation))

    # -- changing ---------------------------------------------------------------------------------------------------
    def take(self, task: Task, node: Node) -> ClaimsBefore:
        """A task has a place: its claims get their devices, and it uses them."""
        before = tuple((held, held.allocation) for held in self.of(task))
        for held, allocation in self._found(task, node) or ():
            self._give(held, allocation)
        for held, _ in before:
            held.users.add(task.uid)
        return before

    def leave(self, task: Task) -> ClaimsBefore:
        """A task loses its place: a claim that nobody uses any more gives its devices back."""
        before = tuple((held, held.allocation) for held in self.of(task))
        for held, _ in before:
            held.users.discard(task.uid)
            if not held.users:
                self._give(held, None)
        return before

    def take_back(self, task: Task, before: ClaimsBefore) -> None:
        """A place is taken back."""
        for held, had in before:
            held.users.discard(task.uid)
            if not held.users:
                self._give(held, had)

    def stay(self, task: Task, before: ClaimsBefore) -> None:
        """A task keeps its place after all."""
        for held, had in before:
            held.users.add(task.uid)
            if held.allocation is None:
                self._give(held, had)

    # -- telling ----------------------------------------------------------------------------------------------------
    def choices(self, task: Task) -> list[DeviceChoice]:
        """The writes to a task's claims before its bind; remembered until they are done."""
        out = []
        for held in self.of(task):
            claim = held.claim
            fresh = held.allocation is not None and not claim.status.get("allocation")
            if fresh:
                users = self._promised[claim.key][0] if claim.key in self._promised else {}
                self._promised[claim.key] = ({**users, task.uid: task.node_name}, dict(held.allocation or {}))
            out.append(DeviceChoice(claim.key, claim.metadata.uid, dict(held.allocation or {}) if fresh else None))
        return out

    def states(self) -> Iterator[tuple[str, Allocation | None, list[str]]]:
        """Every claim with its devices and its users."""
        for key, held in self._claims.items():
            yield key, held.allocation, sorted(held.users)


def gpu_devices(state: ClusterState, kept: dict[str, Any]) -> dict[str, int]:
    """Node -> GPUs that drivers offer there, whether anybody claims any or not."""
    told = Devices.kept(kept, state).slices
    told.read()
    return Counter(
        device.place["nodeName"]
        for device in told.by_key.values()
        if "gpu" in device.driver and "nodeName" in device.place
    )


def _gpus(claim: ResourceClaim) -> int:
    """GPUs that a claim asks for, as KAI counts them: all of a class are one."""
    found = 0
    for request in (claim.spec.get("devices") or {}).get("requests") or ():
        either = request.get("firstAvailable")
        exact = either[0] if either else request.get("exactly") or request
        if "gpu" in str(exact.get("deviceClassName") or ""):
            found += 1 if exact.get("allocationMode") == "All" else int(exact.get("count") or 1)
    return min(found, _MOST)
