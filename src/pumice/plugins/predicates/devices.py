"""Device claims (dynamic resource allocation): a node must have free devices for every claim of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from pumice.engine.matching import term_matches
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.framework.plugin import Event
from pumice.model.api import DeviceClass, NodeSelector, ResourceClaim, ResourceSlice
from pumice.model.reason import Code, Unfit, reason_id
from pumice.model.task import Task
from pumice.plugins.predicates.allotment import Key, Wanted, choose, read_device
from pumice.plugins.predicates.cel import Device, compile_selector
from pumice.state.cluster import ClusterState

Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
ELSEWHERE: Final = reason_id(PLUGIN, "resourceclaim not available on the node", Code.UNRESOLVABLE)
NONE_FREE: Final = reason_id(PLUGIN, "cannot allocate all claims")


def wants_devices(task: Task) -> bool:
    """Has the task device claims?"""
    return bool(task._class.spec.resource_claims)


class Devices:
    """The filter, and which devices each claim was promised in this session or since."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.promised: dict[str, tuple[tuple[Key, ...], str, str]] = {}
        """Claim -> (devices, node, task)."""
        self._read_at: tuple[int, ...] = ()
        self._by_node: dict[str, list[Device]] = {}
        self._shared: list[tuple[NodeSelector | None, list[Device]]] = []

    @classmethod
    def kept(cls, store: dict[str, Any], state: ClusterState) -> Devices:
        """The one of a state that *store* keeps, made when first asked for."""
        found = store.get("devices")
        if not isinstance(found, cls) or found._state is not state:
            found = store["devices"] = cls(state)
        return found

    def forget_settled(self) -> None:
        """Drop promises that came true or whose task has no place any more."""
        for key, (_, node, uid) in list(self.promised.items()):
            task = self._state.tasks.get(uid)
            claim = self._state.kind("ResourceClaim").get(key)
            allocated = isinstance(claim, ResourceClaim) and claim.status.get("allocation")
            if task is None or task.node_name != node or claim is None or allocated:
                del self.promised[key]

    # -- reading --------------------------------------------------------------------------------------------------
    def claims(self, task: Task) -> list[ResourceClaim]:
        """The task's claims.

        :raises Unfit: one does not exist (yet); no node will do.
        """
        made = {s.name: s.resource_claim_name for s in task._pod.status.resource_claim_statuses or ()}
        known = self._state.kind("ResourceClaim")
        out = []
        for entry in task._class.spec.resource_claims or ():
            name = entry.resource_claim_name or made.get(entry.name)
            if entry.resource_claim_name is None and entry.name in made and name is None:
                continue
            if name is None:
                raise Unfit(f'waiting for the resourceclaim of "{entry.name}" to be created', unresolvable=True)
            found = known.get(f"{task._namespace}/{name}")
            if not isinstance(found, ResourceClaim):
                raise Unfit(f'resourceclaim "{name}" not found', unresolvable=True)
            out.append(found)
        return out

    def _read(self) -> None:
        """Take in the slices: of each pool the newest generation."""
        position = (self._state.versions.get("ResourceSlice", 0),)
        if position == self._read_at:
            return
        self._read_at = position
        self._by_node, self._shared = {}, []
        slices = [s for _, s in sorted(self._state.kind("ResourceSlice").items()) if isinstance(s, ResourceSlice)]
        newest: dict[tuple[str, str], int] = {}
        for one in slices:
            pool = one.spec.get("pool") or {}
            of = (str(one.spec.get("driver")), str(pool.get("name")))
            newest[of] = max(newest.get(of, 0), int(pool.get("generation", 0)))
        for one in slices:
            spec, pool = one.spec, one.spec.get("pool") or {}
            driver, name = str(spec.get("driver")), str(pool.get("name"))
            if int(pool.get("generation", 0)) != newest[driver, name]:
                continue
            devices = [read_device(driver, name, d) for d in spec.get("devices") or ()]
            if spec.get("nodeName"):
                self._by_node.setdefault(str(spec["nodeName"]), []).extend(devices)
            elif spec.get("nodeSelector") is not None:
                self._shared.append((msgspec.convert(spec["nodeSelector"], NodeSelector), devices))
            elif spec.get("allNodes"):
                self._shared.append((None, devices))

    def _wanted(self, claim: ResourceClaim) -> list[Wanted]:
        """What a claim asks for.

        :raises Unfit: a device class does not exist, or a selector cannot be read; no node will do.
        """
        out = []
        for request in (claim.spec.get("devices") or {}).get("requests") or ():
            exact = request.get("exactly") or request
            if request.get("firstAvailable"):
                raise Unfit(f"resourceclaim {claim.key}: firstAvailable is not supported", code=Code.ERROR)
            class_name = str(exact.get("deviceClassName") or "")
            known = self._state.kind("DeviceClass").get(class_name)
            if not isinstance(known, DeviceClass):
                raise Unfit(
                    f"request {request.get('name')}: device class {class_name} does not exist", unresolvable=True
                )
            try:
                selectors = [
                    compile_selector(str((s.get("cel") or {}).get("expression", "")))
                    for s in (*(known.spec.get("selectors") or ()), *(exact.get("selectors") or ()))
                ]
            except InvalidInput as exc:
                raise Unfit(str(exc), code=Code.ERROR) from exc
            every = exact.get("allocationMode") == "All"
            out.append(Wanted(str(request.get("name")), int(exact.get("count") or 1), every, selectors))
        return out

    def _taken(self) -> set[Key]:
        """Devices that claims hold, written or promised."""
        out: set[Key] = set()
        for claim in self._state.kind("ResourceClaim").values():
            if isinstance(claim, ResourceClaim):
                out.update(_allocated(claim))
        for devices, _, _ in self.promised.values():
            out.update(devices)
        return out

    # -- filter ---------------------------------------------------------------------------------------------------
    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """Allocated claims can be used on the node; free devices for the others are there."""
        out = np.zeros(len(rows), dtype=np.int32)
        waiting = []
        for claim in self.claims(task):
            allocation = claim.status.get("allocation")
            promise = self.promised.get(claim.key)
            if allocation:
                out[~_usable(allocation, rows)] = ELSEWHERE
            elif promise is not None:
                out[np.array([n.name != promise[1] for n in rows.nodes], dtype=np.bool_)] = ELSEWHERE
            else:
                waiting.append(claim)
        if waiting:
            wanted = [(claim, self._wanted(claim)) for claim in waiting]
            taken = self._taken()
            for at, devices in enumerate(self._present(rows)):
                if not out[at] and choose(wanted, devices, taken) is None:
                    out[at] = NONE_FREE
        return out

    def _present(self, rows: NodeRows) -> Iterator[list[Device]]:
        """Per row the devices that can be used there."""
        self._read()
        shared = []
        for selector, devices in self._shared:
            where = np.ones(len(rows), dtype=np.bool_) if selector is None else _selected(selector, rows)
            shared.append((where, devices))
        for at, node in enumerate(rows.nodes):
            own = self._by_node.get(node._name, [])
            yield own + [d for where, devices in shared if where[at] for d in devices]

    # -- placements -----------------------------------------------------------------------------------------------
    def placed(self, event: Event) -> None:
        """Promise the devices that the task will use on its node."""
        task = event.task
        node = task.node
        if node is None or not wants_devices(task):
            return
        waiting = [x for x in self.claims(task) if not x.status.get("allocation") and x.key not in self.promised]
        if not waiting:
            return
        rows = NodeRows(self._state.table, np.array([node._row], dtype=np.intp))
        wanted = [(claim, self._wanted(claim)) for claim in waiting]
        chosen = choose(wanted, next(self._present(rows)), self._taken())
        if chosen is None:
            event.err = f"node {node._name}: no devices for the claims of {task.key}"
            return
        for key, devices in chosen.items():
            self.promised[key] = (devices, node._name, task._uid)

    def placed_many(self, tasks: Sequence[Task]) -> None:
        """Tasks that are placed in bulk have no claims."""

    def taken_back(self, event: Event) -> None:
        """Give up what was promised to the task."""
        uid = event.task._uid
        for key in [k for k, (_, _, owner) in self.promised.items() if owner == uid]:
            del self.promised[key]


def _allocated(claim: ResourceClaim) -> Iterator[Key]:
    devices = (claim.status.get("allocation") or {}).get("devices") or {}
    for result in devices.get("results") or ():
        if not result.get("adminAccess"):
            yield str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def _usable(allocation: Mapping[str, Any], rows: NodeRows) -> npt.NDArray[np.bool_]:
    selector = allocation.get("nodeSelector")
    if selector is None:
        return np.ones(len(rows), dtype=np.bool_)
    return _selected(msgspec.convert(selector, NodeSelector), rows)


def _selected(selector: NodeSelector, rows: NodeRows) -> npt.NDArray[np.bool_]:
    result = np.zeros(len(rows), dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        result |= term_matches(term, rows)
    return result
