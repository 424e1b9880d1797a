"""Device claims on the way to their devices: the allocation is written, and the pod among those who use it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import structs

from pumice.clock import Clock
from pumice.kube.editing import Change, ClaimUnusable, Editor, Object, check_claim
from pumice.kube.notes import NoteWriter
from pumice.model import keys
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind, DeviceChoice, MadeClaim, Note

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

    def __init__(self, editor: Editor, notes: NoteWriter, clock: Clock) -> None:
        self._editor, self._notes, self._clock = editor, notes, clock

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
            found = await self._editor.edit(_KIND, choice.claim, reserve, "status")
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
            found = await self._editor.create(_KIND, claim, {"metadata": meta, "spec": spec})
            if all(o.get("uid") != bind.uid for o in found["metadata"].get("ownerReferences") or ()):
                raise ClaimUnusable(f"{_KIND} {claim}: it belongs to another pod")
            choice = structs.replace(choice, claim=claim, uid=found["metadata"]["uid"])
        told = {"requestMappings": made.mappings, "resourceClaimName": choice.claim.partition("/")[2]}
        named = {"status": {"extendedResourceClaimStatus": told}}
        await self._editor.edit("Pod", bind.pod, _of_pod(bind, named), "status")
        return choice

    async def _protected(self, choice: DeviceChoice, protect: Change) -> None:
        """Write the finalizer, if the server takes it.

        The server keeps the parameters of drivers in the bytes that they were sent in, and spells them anew in every
        patch: if they were sent with spaces, it takes that for a change of the spec. It takes the status all the same.
        """
        try:
            await self._editor.edit(_KIND, choice.claim, protect)
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
                await self._editor.edit("Pod", bind.pod, _of_pod(bind, unnamed), "status")
            await self._editor.edit(_KIND, key, release, "status")
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
