"""Which volumes could serve a claim, and on which nodes: worked out once for claims that ask alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from pumice.engine import matching
from pumice.engine.rows import NodeRows
from pumice.model.api import PersistentVolume, Requirement
from pumice.plugins.predicates import task_claims as c
from pumice.plugins.predicates.task_claims import TaskClaim
from pumice.state.cluster import ClusterState

Bools = npt.NDArray[np.bool_]


class Offer:
    """Volumes that suit a claim, its own and then the smallest first.

    *where* has a line for each row of the node table and a column for each volume: can it be used there?
    """

    __slots__ = ("_columns", "_counts", "_names", "_where")

    def __init__(self, names: list[str], where: Bools) -> None:
        self._names, self._where = names, where
        self._columns = {name: at for at, name in enumerate(names)}
        self._counts = where.sum(axis=1)

    def free(self, taken: set[str]) -> Bools:
        """Per row of the node table: whether there is a volume that is not taken."""
        gone = [self._columns[name] for name in taken if name in self._columns]
        result: Bools = self._counts > self._where[:, gone].sum(axis=1) if gone else self._counts > 0
        return result

    def first(self, row: int, taken: set[str]) -> str:
        """The best volume for a node that is not taken, or nothing."""
        found = (self._names[at] for at in np.flatnonzero(self._where[row]).tolist())
        return next((name for name in found if name not in taken), "")


class VolumeOffers:
    """Results about volumes and storage classes, valid until a volume, a class or a node's labels change.

    Columns have an entry for each row of the node table: take the rows' part with ``rows._take``.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._cached_for: tuple[int, ...] = ()
        self._cached: dict[Hashable, Any] = {}

    def volumes_for(self, claim: TaskClaim) -> Offer:
        """The volumes that suit a claim, wherever they are."""
        cache = self._fresh()
        by_class, held = self._sorted_volumes()
        spec = claim.spec
        asked = msgspec.json.encode([spec.get(k) for k in ("volumeMode", "accessModes", "selector")])
        whose = (claim.key, claim.uid) if claim.key in held else ("", "")
        key = ("volumes", claim.class_name, asked, claim.size, whose)
        known: Offer | None = cache.get(key)
        if known is None:
            own = held.get(claim.key, []) if whose[0] else []
            fitting = [v for v in (*own, *by_class.get(claim.class_name, ())) if c.suits(v, claim)]
            names = [v.metadata.name for v in fitting]
            where = np.zeros((self._state.table.size, len(names)), dtype=np.bool_)
            for at, name in enumerate(names):
                where[:, at] = self.reach(name)
            known = cache[key] = Offer(names, where)
        return known

    def _sorted_volumes(self) -> tuple[dict[str, list[PersistentVolume]], dict[str, list[PersistentVolume]]]:
        """Free volumes by class, and reserved ones by claim; the smallest first."""
        cache = self._fresh()
        known: tuple[dict[str, list[PersistentVolume]], dict[str, list[PersistentVolume]]] | None = cache.get("sorted")
        if known is None:
            by_class: dict[str, list[PersistentVolume]] = {}
            held: dict[str, list[PersistentVolume]] = {}
            volumes = [v for v in self._state.kind("PersistentVolume").values() if isinstance(v, PersistentVolume)]
            for volume in sorted(volumes, key=lambda v: (c.volume_size(v), v.metadata.name)):
                holder = volume.spec.get("claimRef")
                if holder is not None:
                    held.setdefault(f"{holder.get('namespace', '')}/{holder.get('name', '')}", []).append(volume)
                else:
                    by_class.setdefault(str(volume.spec.get("storageClassName") or ""), []).append(volume)
            known = cache["sorted"] = (by_class, held)
        return known

    def reach(self, name: str) -> Bools:
        """Per row of the node table: whether a volume can be used there."""
        return self._column(("reach", name), lambda rows: self._reach(name, rows))

    def made(self, claim: TaskClaim) -> Bools:
        """Per row of the node table: whether the claim's storage class can make a volume there."""
        return self._column(("made", claim.class_name), lambda rows: self._made(claim, rows))

    def _reach(self, name: str, rows: NodeRows) -> Bools:
        volume = self._state.kind("PersistentVolume").get(name)
        if not isinstance(volume, PersistentVolume):
            return np.zeros(len(rows), dtype=np.bool_)
        terms = c.node_terms(volume)
        if terms is None:
            return np.ones(len(rows), dtype=np.bool_)
        return _any([matching.term_matches(term, rows) for term in terms], rows)

    def _made(self, claim: TaskClaim, rows: NodeRows) -> Bools:
        storage = c.storage_class(self._state, claim)
        if storage is None or not storage.provisioner or storage.provisioner == c.NO_PROVISIONER:
            return np.zeros(len(rows), dtype=np.bool_)
        if not storage.allowed_topologies:
            return np.ones(len(rows), dtype=np.bool_)
        found = []
        for term in storage.allowed_topologies:
            ok = np.ones(len(rows), dtype=np.bool_)
            for line in term.get("matchLabelExpressions") or ():
                wanted = Requirement(key=line["key"], operator="In", values=tuple(line.get("values") or ()))
                ok &= matching.label_matches(wanted, rows)
            found.append(ok)
        return _any(found, rows)

    def _column(self, key: Hashable, make: Callable[[NodeRows], Bools]) -> Bools:
        cache = self._fresh()
        known: Bools | None = cache.get(key)
        if known is None:
            table = self._state.table
            rows = np.flatnonzero(table.valid[: table.size])
            known = cache[key] = np.zeros(table.size, dtype=np.bool_)
            known[rows] = make(NodeRows(table, rows))
        return known

    def _fresh(self) -> dict[Hashable, Any]:
        state = self._state
        versions = (state.versions.get(kind, 0) for kind in ("PersistentVolume", "StorageClass"))
        key = (state.table.changed.position, state.table.size, *versions)
        if self._cached_for != key:
            self._cached_for, self._cached = key, {}
        return self._cached


def _any(found: Sequence[Bools], rows: NodeRows) -> Bools:
    result = np.zeros(len(rows), dtype=np.bool_)
    for one in found:
        result |= one
    return result
