"""Volume claims on the way to their volumes: told for which node to make one, or bound to one that is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping
from typing import Any, Final

import msgspec

from pumice.kube.editing import ClaimUnusable, Editor, Object, check_claim
from pumice.model import keys
from pumice.model.api import AnyObject, NodeSelector, PersistentVolume, PersistentVolumeClaim
from pumice.model.intents import Bind, VolumeChoice
from pumice.model.quantity import whole_number
from pumice.model.selectors import node_selector_matches

log = logging.getLogger("pumice.kube")

SELECTED: Final = keys.SELECTED_NODE
"""The annotation that tells a provisioner to make a claim's volume, and where."""
BOUND_BY_US: Final = keys.BOUND_BY_CONTROLLER
"""The annotation of a volume that was reserved by the cluster, not by its owner: who reserved it may give it back."""
COMPLETED: Final = keys.BIND_COMPLETED
POLL: Final = 0.1
"""Seconds between two looks at what the watch told."""
_PVC: Final = "PersistentVolumeClaim"


class VolumeClaims:
    """Makes claims ready for pods. What the watches know is looked at in *claims*, *volumes*, *nodes* and *pods*.

    The volume itself is made by its provisioner, and bound by the volume controller, as with kube-scheduler: we say
    which and where, and wait.
    """

    def __init__(
        self,
        editor: Editor,
        claims: Mapping[str, AnyObject],
        volumes: Mapping[str, AnyObject],
        nodes: Mapping[str, AnyObject],
        pods: Container[str] | None = None,
    ) -> None:
        self._editor, self._claims, self._volumes, self._nodes, self._pods = editor, claims, volumes, nodes, pods
        self._users: dict[str, set[str]] = {}
        """Claim -> the pods that wait for it, or whose bind is under way."""
        self._written: dict[str, VolumeChoice] = {}
        """What we wrote for claims that are not bound yet."""

    # -- writing ----------------------------------------------------------------------------------------------------
    async def begin(self, choice: VolumeChoice, bind: Bind) -> int:
        """Say which volume the claim gets, or for which node one is to be made; returns the version that says so.

        :raises Unprepared: it cannot be done.
        """
        self._users.setdefault(choice.claim, set()).add(bind.uid)
        wanted = choice.node or bind.node

        def select(claim: Object) -> Object | None:
            check_claim(_PVC, claim, choice.claim, choice.uid)
            if _is_bound(claim):
                return None
            node = (claim["metadata"].get("annotations") or {}).get(SELECTED, "")
            if node and node != wanted:
                raise ClaimUnusable(f"{_PVC} {choice.claim}: its volume is being made for node {node}")
            if node:
                return None
            self._written[choice.claim] = choice  # before it is sent: an answer can get lost
            return {"metadata": {"annotations": {SELECTED: wanted}}}

        def reserve(volume: Object) -> Object | None:
            holder = volume["spec"].get("claimRef") or {}
            namespace, _, name = choice.claim.partition("/")
            if holder and (holder.get("namespace"), holder.get("name")) != (namespace, name):
                who = f"{holder.get('namespace')}/{holder.get('name')}"
                raise ClaimUnusable(f"{_PVC} {choice.claim}: volume {choice.volume} was taken by {who}")
            if holder.get("uid", choice.uid) != choice.uid:
                raise ClaimUnusable(f"{_PVC} {choice.claim}: volume {choice.volume} belongs to an earlier claim")
            if holder.get("uid"):
                return None
            self._written[choice.claim] = choice
            ours = {"apiVersion": "v1", "kind": _PVC, "namespace": namespace, "name": name, "uid": choice.uid}
            note = {"metadata": {"annotations": {BOUND_BY_US: "yes"}}} if not holder else {}
            return {"spec": {"claimRef": ours}, **note}

        if choice.volume:
            found = await self._editor.edit("PersistentVolume", choice.volume, reserve)
        else:
            found = await self._editor.edit(_PVC, choice.claim, select)
        return _version(found["metadata"].get("resourceVersion"))

    async def bound(self, choice: VolumeChoice, bind: Bind, version: int) -> None:
        """Return when the claim is bound to a volume that the pod's node can use. *version*: what ``begin`` returned.

        :raises Unprepared: that will not happen, or did not in time.
        """
        try:
            async with asyncio.timeout(choice.within):
                while not self._is_ready(choice, bind, version):
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise ClaimUnusable(f"{_PVC} {choice.claim}: it got no volume within {choice.within:g} s") from None

    def _is_ready(self, choice: VolumeChoice, bind: Bind, version: int) -> bool:
        """Whether the claim is ready, as far as the watches know."""
        if self._pods is not None and bind.pod not in self._pods:
            raise ClaimUnusable(f"pod {bind.pod}: it is gone")
        claim, node = self._claims.get(choice.claim), self._nodes.get(bind.node)
        if node is None:
            raise ClaimUnusable(f"node {bind.node}: it is gone")
        if not isinstance(claim, PersistentVolumeClaim) or (choice.uid and claim.metadata.uid != choice.uid):
            raise ClaimUnusable(f"{_PVC} {choice.claim}: it is gone")
        if claim.status.get("phase") == "Lost":
            raise ClaimUnusable(f"{_PVC} {choice.claim}: its volume is lost")
        notes = claim.metadata.annotations or {}
        name = str(claim.spec.get("volumeName") or "")
        if name and (COMPLETED in notes or claim.status.get("phase") == "Bound"):
            volume = self._volumes.get(name)
            if isinstance(volume, PersistentVolume) and not _reaches(volume, node):
                raise ClaimUnusable(f"{_PVC} {choice.claim}: its volume {name} cannot be used on node {bind.node}")
            return volume is not None
        if choice.volume:
            self._still_ours(choice, version)
        elif _version(claim.metadata.resource_version) >= version and notes.get(SELECTED) != (choice.node or bind.node):
            raise ClaimUnusable(f"{_PVC} {choice.claim}: its volume is not made any more")
        return False

    def _still_ours(self, choice: VolumeChoice, version: int) -> None:
        volume = self._volumes.get(choice.volume)
        if not isinstance(volume, PersistentVolume):
            raise ClaimUnusable(f"{_PVC} {choice.claim}: volume {choice.volume} is gone")
        holder = volume.spec.get("claimRef") or {}
        if _version(volume.metadata.resource_version) >= version and holder.get("uid") != choice.uid:
            raise ClaimUnusable(f"{_PVC} {choice.claim}: volume {choice.volume} was taken away")

    # -- the end of a bind ------------------------------------------------------------------------------------------
    async def done(self, choice: VolumeChoice, bind: Bind, *, failed: bool) -> None:
        """The pod was bound, or will not be: then what we wrote is taken back, if nobody else waits for it."""
        users = self._users.get(choice.claim, set())
        users.discard(bind.uid)
        if users:
            return
        self._users.pop(choice.claim, None)
        written = self._written.pop(choice.claim, None)
        if not failed or written is None:
            return

        def deselect(claim: Object) -> Object | None:
            notes = claim["metadata"].get("annotations") or {}
            ours = not claim["spec"].get("volumeName") and notes.get(SELECTED) == (choice.node or bind.node)
            return {"metadata": {"annotations": {SELECTED: None}}} if ours else None

        def give_back(volume: Object) -> Object | None:
            holder, notes = volume["spec"].get("claimRef") or {}, volume["metadata"].get("annotations") or {}
            bound = (volume.get("status") or {}).get("phase") == "Bound"
            if bound or holder.get("uid") != written.uid or BOUND_BY_US not in notes:
                return None
            return {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_US: None}}}

        try:
            if written.volume:
                await self._editor.edit("PersistentVolume", written.volume, give_back)
            else:
                await self._editor.edit(_PVC, written.claim, deselect)
        except ClaimUnusable as exc:
            log.warning("what was chosen for claim %s is not taken back: %s", written.claim, exc)


def _is_bound(claim: Object) -> bool:
    notes = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and (
        COMPLETED in notes or (claim.get("status") or {}).get("phase") == "Bound"
    )


def _reaches(volume: PersistentVolume, node: AnyObject) -> bool:
    """Can a volume be used on a node?"""
    required: Any = (volume.spec.get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    labels = node.metadata.labels or {}
    return node_selector_matches(msgspec.convert(required, NodeSelector), labels, node.metadata.name)


def _version(text: Any) -> int:
    """A resource version as a number; 0 where a server's are none."""
    return whole_number(text) or 0 if isinstance(text, str) else 0
