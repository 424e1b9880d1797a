"""Device and volume claims, made ready before their pods are bound."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import structs

from pumice.clock import Clock
from pumice.kube.events import NoteWriter
from pumice.kube.writer import ApiWriter, Change, ClaimUnusable, Object, check_claim
from pumice.model import keys
from pumice.model.api import AnyObject, NodeSelector, PersistentVolume, PersistentVolumeClaim
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind, DeviceChoice, MadeClaim, Note, VolumeChoice
from pumice.model.quantity import whole_number
from pumice.model.selectors import node_selector_matches

log = logging.getLogger("pumice.kube")

PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim: by it the claim controller knows that it must free the devices."""
_MOST_USERS: Final = 256
_KIND: Final = "ResourceClaim"
_STAMP: Final = "allocationTimestamp"
_LONGEST_STEM: Final = 220
"""Characters of a pod's name that go into the name of its claim, which has 253 at most."""


class DeviceClaims:
    """Makes device claims ready for pods. When a pod is done, the cluster's claim controller frees the devices."""

    def __init__(self, writer: ApiWriter, notes: NoteWriter, clock: Clock) -> None:
        self._writer, self._notes, self._clock = writer, notes, clock

    async def begin(self, choice: DeviceChoice, bind: Bind) -> None:
        """Write what the claim gets, and that the pod uses it.

        :raises Unprepared: it cannot be done.
        """
        me = {"resource": "pods", "name": bind.pod.partition("/")[2], "uid": bind.uid}
        if choice.made is not None:
            choice = await self._made(choice, choice.made, bind)

        def protect(claim: Object) -> Object | None:
            check_claim(_KIND, claim, choice.claim, choice.uid)
            present = claim["metadata"].get("finalizers") or []
            return None if PROTECTION in present else {"metadata": {"finalizers": [*present, PROTECTION]}}

        def reserve(claim: Object) -> Object | None:
            check_claim(_KIND, claim, choice.claim, choice.uid)
            allocation, users = _status(claim)
            if allocation is None:
                if choice.allocation is None:
                    raise ClaimUnusable(f"{_KIND} {choice.claim}: it has no devices any more")
                now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                return {"status": {"allocation": {**choice.allocation, _STAMP: now}, "reservedFor": [me]}}
            if choice.allocation is not None and _devices(allocation) != _devices(choice.allocation):
                if any(user.get("uid") != bind.uid for user in users):
                    raise ClaimUnusable(f"{_KIND} {choice.claim}: it got other devices in the meantime")
                return {"status": {"allocation": None, "reservedFor": None}}  # it must be free to get others
            if any(user.get("uid") == bind.uid for user in users):
                return None
            if len(users) >= _MOST_USERS:
                raise ClaimUnusable(f"{_KIND} {choice.claim}: it has {len(users)} users, the most that are possible")
            return {"status": {"reservedFor": [*users, me]}}

        if choice.allocation is not None:
            await self._protected(choice, protect)
        for _ in range(3):
            found = await self._writer.edit(_KIND, choice.claim, reserve, "status")
            if any(user.get("uid") == bind.uid for user in _status(found)[1]):
                return
        raise ClaimUnusable(f"{_KIND} {choice.claim}: it does not keep what is written")

    async def _made(self, choice: DeviceChoice, made: MadeClaim, bind: Bind) -> DeviceChoice:
        """Make the claim for a pod's extended resources, if the server has none, and name it in the pod's status.

        The kubelet reads there which container gets which devices. The name of the claim follows from the pod, so that
        a request whose answer was lost makes no second one.
        """
        if not choice.uid:
            pod = bind.pod.partition("/")[2]
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": bind.uid, "controller": True}
            meta = {"annotations": {keys.EXTENDED_RESOURCE_CLAIM: "true"}, "ownerReferences": [owner]}
            spec = {"devices": {"requests": made.requests}}
            claim = _claim_for(bind)
            found = await self._writer.ensure(_KIND, claim, {"metadata": meta, "spec": spec})
            if all(o.get("uid") != bind.uid for o in found["metadata"].get("ownerReferences") or ()):
                raise ClaimUnusable(f"{_KIND} {claim}: it belongs to another pod")
            choice = structs.replace(choice, claim=claim, uid=found["metadata"]["uid"])
        told = {"requestMappings": made.mappings, "resourceClaimName": choice.claim.partition("/")[2]}
        named = {"status": {"extendedResourceClaimStatus": told}}
        await self._writer.edit("Pod", bind.pod, _of_pod(bind, named), "status")
        return choice

    async def _protected(self, choice: DeviceChoice, protect: Change) -> None:
        """Write the finalizer, if the server takes it.

        The server keeps the parameters of drivers as the bytes that were sent, and spells them anew in every patch. If
        they were sent with spaces, it sees a change of the spec. It takes the status all the same.
        """
        try:
            await self._writer.edit(_KIND, choice.claim, protect)
        except ClaimUnusable as exc:
            if not exc.invalid:
                raise
            text = f"The claim is used without the finalizer {PROTECTION}: {exc}"
            self._notes.put(Note(_KIND, choice.claim, "Warning", ReasonCode.UNPROTECTED, text), choice.uid)

    async def give_back(self, choice: DeviceChoice, bind: Bind) -> None:
        """The pod will not be bound: it uses the claim no more; devices that we gave are free if nobody else uses it.

        The finalizer stays: the claim controller removes it when the claim is deleted. A claim that was made for the
        pod's extended resources stays for the next try, and goes with the pod; the pod's status names it no more.
        """

        def release(claim: Object) -> Object | None:
            allocation, users = _status(claim)
            others = [user for user in users if user.get("uid") != bind.uid]
            if len(others) == len(users):
                return None
            freed = choice.allocation is not None and not others and allocation is not None
            return {"status": {"reservedFor": others or None, **({"allocation": None} if freed else {})}}

        try:
            key = choice.claim
            if choice.made is not None:
                key = key if choice.uid else _claim_for(bind)
                unnamed = {"status": {"extendedResourceClaimStatus": None}}
                await self._writer.edit("Pod", bind.pod, _of_pod(bind, unnamed), "status")
            await self._writer.edit(_KIND, key, release, "status")
        except ClaimUnusable as exc:
            log.warning("the devices of claim %s are not given back: %s", choice.claim, exc)


def _claim_for(bind: Bind) -> str:
    """The key of the claim for a pod's extended resources."""
    namespace, _, pod = bind.pod.partition("/")
    return f"{namespace}/{pod[:_LONGEST_STEM]}-extended-resources-{bind.uid[:8]}"


def _of_pod(bind: Bind, patch: Object) -> Change:
    """A change of the pod of a bind, and of no other that has its name."""

    def change(found: Object) -> Object | None:
        if found["metadata"].get("uid") != bind.uid:
            raise ClaimUnusable(f"pod {bind.pod}: it is gone, and another one has its name")
        return patch

    return change


def _status(claim: Object) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The allocation and the users of a claim."""
    status = claim.get("status") or {}
    return status.get("allocation"), status.get("reservedFor") or []


def _devices(allocation: dict[str, Any]) -> list[tuple[Any, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return sorted((r.get("request"), r.get("driver"), r.get("pool"), r.get("device")) for r in results)


SELECTED: Final = keys.SELECTED_NODE
"""The annotation that tells a provisioner to make a claim's volume, and where."""
BOUND_BY_US: Final = keys.BOUND_BY_CONTROLLER
"""The annotation of a volume that was reserved by the cluster, not by its owner: who reserved it may give it back."""
COMPLETED: Final = keys.BIND_COMPLETED
POLL: Final = 0.1
"""Seconds between two looks at what the watch told."""
_PVC: Final = "PersistentVolumeClaim"


class VolumeClaims:
    """Makes claims ready for pods. The data of the watches are *claims*, *volumes*, *nodes* and *pods*.

    The volume itself is made by its provisioner, and bound by the volume controller, as with kube-scheduler: we say
    which and where, and wait.
    """

    def __init__(
        self,
        writer: ApiWriter,
        claims: Mapping[str, AnyObject],
        volumes: Mapping[str, AnyObject],
        nodes: Mapping[str, AnyObject],
        pods: Container[str] | None = None,
    ) -> None:
        self._writer, self._claims, self._volumes, self._nodes, self._pods = writer, claims, volumes, nodes, pods
        self._users: dict[str, set[str]] = {}
        """Claim -> the pods that wait for it, or whose bind is under way."""
        self._written: dict[str, VolumeChoice] = {}
        """The written data of claims that are not bound yet."""

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
            found = await self._writer.edit("PersistentVolume", choice.volume, reserve)
        else:
            found = await self._writer.edit(_PVC, choice.claim, select)
        return _version(found["metadata"].get("resourceVersion"))

    async def bound(self, choice: VolumeChoice, bind: Bind, version: int) -> None:
        """Return when the claim is bound to a volume that the pod's node can use. *version*: what ``begin`` returned.

        :raises Unprepared: that will not happen, or did not in time.
        """
        try:
            async with asyncio.timeout(choice.within):
                while not self._is_ready(choice, bind, version):  # noqa: ASYNC110 (asked at an interval)
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
                await self._writer.edit("PersistentVolume", written.volume, give_back)
            else:
                await self._writer.edit(_PVC, written.claim, deselect)
        except ClaimUnusable as exc:
            log.warning("what was chosen for claim %s is not taken back: %s", written.claim, exc)


def _is_bound(claim: Object) -> bool:
    notes = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and (
        COMPLETED in notes or (claim.get("status") or {}).get("phase") == "Bound"
    )


def _reaches(volume: PersistentVolume, node: AnyObject) -> bool:
    """Report whether a volume can be used on a node."""
    required: Any = (volume.spec.get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    labels = node.metadata.labels or {}
    return node_selector_matches(msgspec.convert(required, NodeSelector), labels, node.metadata.name)


def _version(text: Any) -> int:
    """A resource version as a number; 0 where a server's are none."""
    return whole_number(text) or 0 if isinstance(text, str) else 0


_Versions: TypeAlias = dict[str, list[int]]
"""Per pod, by UID, the versions of what was written for its claims."""
_Step: TypeAlias = Callable[[Bind, _Versions], Awaitable[None]]


class Preparer:
    """Makes the claims of pods ready before they are bound, and takes that back where they are not."""

    def __init__(self, writer: ApiWriter, volumes: VolumeClaims, devices: DeviceClaims) -> None:
        self._writer, self._volumes, self._devices = writer, volumes, devices

    async def prepare(self, binds: Sequence[Bind]) -> dict[str, str]:
        """Make the claims of one job's binds ready; returns why not, by UID, for those that must not be bound.

        If fewer than the job needs can be bound, none is, and nothing of what was written for them stays.
        """
        needed = min(max(bind.needed for bind in binds), len(binds))
        versions: _Versions = {}
        begun = await asyncio.gather(*(self._tried(self._write, bind, versions) for bind in binds))
        refused = {bind.uid: why for bind, why in zip(binds, begun, strict=True) if why}
        waits = [bind for bind in binds if bind.uid not in refused]
        tasks = {asyncio.create_task(self._tried(self._wait, bind, versions)): bind for bind in waits}
        waiting = set(tasks)
        try:
            while waiting and len(binds) - len(refused) >= needed:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                refused |= {tasks[task].uid: why for task in done if (why := task.result())}
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if len(binds) - len(refused) < needed:
            first = next(iter(refused.values()))
            text = f"{len(refused)} of {len(binds)} pods cannot be bound, and {needed} must be: {first}"
            refused = {bind.uid: refused.get(bind.uid, text) for bind in binds}
        await asyncio.gather(*(self.done(bind, failed=True) for bind in binds if bind.uid in refused))
        return refused

    async def _tried(self, step: _Step, bind: Bind, versions: _Versions) -> str:
        """Take a step for a pod; returns why it did not succeed, or nothing."""
        try:
            await step(bind, versions)
        except ClaimUnusable as exc:
            return str(exc)
        except Exception as exc:
            log.exception("preparing %s", bind.pod)
            return f"{type(exc).__name__}: {exc}"
        return ""

    async def _write(self, bind: Bind, versions: _Versions) -> None:
        """Write everything that a pod's claims need."""
        versions[bind.uid] = [await self._begin(choice, bind) for choice in bind.prepare]

    async def _wait(self, bind: Bind, versions: _Versions) -> None:
        """Return when all volumes of a pod are there."""
        for choice, version in zip(bind.prepare, versions[bind.uid], strict=True):
            if isinstance(choice, VolumeChoice):
                await self._volumes.bound(choice, bind, version)

    async def _begin(self, choice: VolumeChoice | DeviceChoice, bind: Bind) -> int:
        if isinstance(choice, VolumeChoice):
            return await self._volumes.begin(choice, bind)
        await self._devices.begin(choice, bind)
        return 0

    async def done(self, bind: Bind, *, failed: bool) -> None:
        """A pod was bound, or will not be: then its claims are as they were, unless somebody else gave it a node."""
        if failed and bind.prepare:
            try:
                failed = not await self._writer.node_of(bind)
            except Exception as exc:
                log.warning("the claims of pod %s are left as they are: %s", bind.pod, exc)
                failed = False
        for choice in bind.prepare:
            if isinstance(choice, VolumeChoice):
                await self._volumes.done(choice, bind, failed=failed)
            elif failed:
                await self._devices.give_back(choice, bind)
