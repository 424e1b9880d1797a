"""Volumes: bound ones must be reachable from the node, unbound ones must be found or made there; limits and zones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.framework.points.callback import Event
from pumice.model import keys
from pumice.model.api import PersistentVolumeClaim, StorageClass
from pumice.model.intents import VolumeChoice
from pumice.model.node import Node
from pumice.model.reason import Code, Unfit, reason_id
from pumice.model.task import Task
from pumice.plugins.predicates import task_claims as c
from pumice.plugins.predicates.attachments import Attachments
from pumice.plugins.predicates.offers import VolumeOffers
from pumice.plugins.predicates.once_pod import OncePod
from pumice.plugins.predicates.storage import StorageRoom
from pumice.plugins.predicates.task_claims import TaskClaim
from pumice.state.cluster import ClusterState

Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
OTHER_ZONE: Final = reason_id(PLUGIN, "node(s) had no available volume zone", Code.UNRESOLVABLE)
OUT_OF_REACH: Final = reason_id(PLUGIN, "node(s) had volume node affinity conflict", Code.UNRESOLVABLE)
NOTHING_TO_BIND: Final = reason_id(
    PLUGIN, "node(s) didn't find available persistent volumes to bind", Code.UNRESOLVABLE
)
_ZONES: Final = (keys.ZONE, keys.REGION)
_OLD_ZONES: Final = (keys.ZONE_OLD, keys.REGION_OLD)


class Volumes:
    """The filters, and which volume each waiting claim was promised in this session or since."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.attachments = Attachments(state)
        self.once_pod = OncePod(state)
        self._room = StorageRoom(state)
        self._offers = VolumeOffers(state)
        self.promised: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        """Claim -> (volume, node, tasks that use it); no volume where one will be made for the node. Valid until the
        last of these tasks has no place any more. Saved with a cycle."""
        self.within = 600.0
        """Seconds after which a claim that does not get its volume is given up."""

    @classmethod
    def kept(cls, store: dict[str, Any], state: ClusterState) -> Volumes:
        """The one of a state that *store* keeps, made when first asked for."""
        found = store.get("volumes")
        if not isinstance(found, cls) or found._state is not state:
            found = store["volumes"] = cls(state)
        return found

    def forget_settled(self) -> None:
        """Drop promises that came true or whose task has no place any more."""
        with_volume: dict[str, set[str]] = {}
        """UID of a task -> its claims that have their volume."""
        claims = self._state.kind("PersistentVolumeClaim")
        for key, (volume, node, users) in list(self.promised.items()):
            tasks = [
                task for uid in users if (task := self._state.tasks.get(uid)) is not None and task.node is not None
            ]
            for task in tasks[:1]:
                if task.uid not in with_volume:
                    with_volume[task.uid] = {x.key for x in c.claims_of(self._state, task) if x.volume}
            if key not in claims or not tasks or key in with_volume[tasks[0].uid]:
                del self.promised[key]
            else:
                self.promised[key] = volume, node, tuple(task.uid for task in tasks)

    # -- before any node ------------------------------------------------------------------------------------------
    def can_be_bound(self, task: Task) -> None:
        """Returns if every claim exists and is bound or waits for its first consumer.

        :raises Unfit: one does not; no node will do.
        """
        if not c.has_claims(task):
            return
        volumes = self._state.kind("PersistentVolume")
        for claim in c.claims_of(self._state, task):
            name = claim.key.partition("/")[2]
            if claim.object is None:
                raise Unfit(f'persistentvolumeclaim "{name}" not found', unresolvable=True)
            if claim.foreign:
                raise Unfit(f'persistentvolumeclaim "{name}" was not created for the pod', unresolvable=True)
            if claim.object.metadata.deletion_timestamp is not None:
                raise Unfit(f'persistentvolumeclaim "{name}" is being deleted', unresolvable=True)
            if claim.volume and claim.volume not in volumes:
                text = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
                raise Unfit(text, unresolvable=True)
            if not claim.volume and not c.waits_for_consumer(self._state, claim):
                raise Unfit("pod has unbound immediate PersistentVolumeClaims", unresolvable=True)

    # -- filters --------------------------------------------------------------------------------------------------
    def binding(self, task: Task, rows: NodeRows) -> Reasons:
        """Bound volumes can be used on the node; the other claims find a volume there or have one made."""
        self.can_be_bound(task)
        out = np.zeros(len(rows), dtype=np.int32)
        waiting: list[TaskClaim] = []
        for claim in c.claims_of(self._state, task):
            volume, node, _ = self.promised.get(claim.key, (claim.volume, claim.selected_node, ""))
            if volume:
                out[~rows._take(self._offers.reach(volume))] = OUT_OF_REACH
            elif node:
                there = np.array([n.name == node for n in rows.nodes], dtype=np.bool_)
                if claim.for_many_nodes and claim.key in self.promised:
                    there |= rows._take(self._offers.made(claim))  # the volume's own reach is looked at before the bind
                out[~there] = NOTHING_TO_BIND
            else:
                waiting.append(claim)
        taken = self._taken()
        for claim in waiting:
            possible = rows._take(self._offers.volumes_for(claim).free(taken)) | rows._take(self._offers.made(claim))
            out[(out == 0) & ~possible] = NOTHING_TO_BIND
        if len(waiting) > 1 or any(self._room.is_told(self._class_of(x)) for x in waiting):
            for at, row in enumerate(rows.nodes):
                if not out[at] and self.choice(waiting, row, taken) is None:
                    out[at] = NOTHING_TO_BIND
        return out

    def _taken(self) -> set[str]:
        """Volumes that were promised."""
        return {volume for volume, _, _ in self.promised.values() if volume}

    def choice(self, waiting: Sequence[TaskClaim], node: Node, promised: set[str]) -> dict[str, str] | None:
        """A volume for each claim on a node, the smallest that suits; no name where one will be made. None: no way."""
        taken = set(promised)
        chosen: dict[str, str] = {}
        beside: list[TaskClaim] = []
        for claim in sorted(waiting, key=lambda x: (x.size, x.key)):
            found = self._offers.volumes_for(claim).first(node.row, taken)
            if not found:
                if not self._offers.made(claim)[node.row] or not self._has_room(claim, node, beside):
                    return None
                beside.append(claim)
            chosen[claim.key] = found
            taken.add(found)
        return chosen

    def _class_of(self, claim: TaskClaim) -> StorageClass | None:
        return c.storage_class(self._state, claim)

    def _has_room(self, claim: TaskClaim, node: Node, beside: Sequence[TaskClaim]) -> bool:
        """Report whether there is storage for a new volume near the node, beside promised ones and *beside*."""
        storage = self._class_of(claim)
        if storage is None or not self._room.is_told(storage):
            return True
        others: list[tuple[str, int]] = [(node.name, x.size) for x in beside if x.class_name == claim.class_name]
        known = self._state.kind("PersistentVolumeClaim")
        for key, (volume, where, _) in self.promised.items():
            found = known.get(key)
            if not volume and key != claim.key and isinstance(found, PersistentVolumeClaim):
                other = TaskClaim(key, found)
                if other.class_name == claim.class_name:
                    others.append((where, other.size))
        return self._room.suffices(storage, claim.size, node, others)

    def zones(self, task: Task, rows: NodeRows) -> Reasons:
        """The node is in the zone and region that bound volumes are labelled with; nodes without zones will do."""
        out = np.zeros(len(rows), dtype=np.int32)
        zoned = np.zeros(len(rows), dtype=np.bool_)
        for key in (*_ZONES, *_OLD_ZONES):
            zoned |= rows.labels.has(key)
        volumes = self._state.kind("PersistentVolume")
        for claim in c.claims_of(self._state, task):
            volume = volumes.get(claim.volume)
            labels = (volume.metadata.labels or {}) if volume is not None else {}
            for new, old in zip(_ZONES, _OLD_ZONES, strict=True):
                for key, other in ((new, old), (old, new)):
                    if key in labels:
                        values = labels[key].split("__")
                        ok = np.zeros(len(rows), dtype=np.bool_)
                        for value in values:
                            ok |= rows.labels.equals(key, value)
                            ok |= ~rows.labels.has(key) & rows.labels.equals(other, value)
                        out[zoned & ~ok] = OTHER_ZONE
        return out

    # -- placements -----------------------------------------------------------------------------------------------
    def placed(self, event: Event) -> None:
        """Promise the volumes that the task will use on its node."""
        task = event.task
        node = task.node
        if node is None or not c.has_claims(task):
            return
        claims = [x for x in c.claims_of(self._state, task) if not x.volume and x.object]
        waiting = [x for x in claims if x.key not in self.promised]
        chosen = self.choice(waiting, node, self._taken()) if waiting else {}
        if chosen is None:
            event.err = f"node {node.name}: no volumes for the claims of {task.key}"
            return
        for claim in claims:
            volume, where, users = self.promised.get(claim.key, (chosen.get(claim.key, ""), node.name, ()))
            self.promised[claim.key] = volume, where, (*(uid for uid in users if uid != task.uid), task.uid)

    def placed_many(self, tasks: Sequence[Task]) -> None:
        """Tasks that are placed in bulk have no claims."""

    def taken_back(self, event: Event) -> None:
        """Give up what was promised to the task."""
        uid = event.task.uid
        for key in [k for k, (_, _, users) in self.promised.items() if uid in users]:
            volume, node, users = self.promised.pop(key)
            if left := tuple(user for user in users if user != uid):
                self.promised[key] = volume, node, left

    def choices(self, task: Task) -> list[VolumeChoice]:
        """The preparations of the task's claims before the bind: bound ones need none."""
        out = []
        for claim in c.claims_of(self._state, task) if c.has_claims(task) else ():
            if not claim.volume and claim.object is not None:
                volume, node, _ = self.promised.get(claim.key, ("", claim.selected_node, ""))
                elsewhere = node if not volume and node != task.node_name else ""
                out.append(VolumeChoice(claim.key, claim.uid, volume, elsewhere, self.within))
        return out
