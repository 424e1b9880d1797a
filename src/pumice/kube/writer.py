"""Writes to the API server: every request is tried until its outcome is known."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Coroutine, Iterable
from typing import Any, TypeAlias

import msgspec

from pumice.errors import PumiceError
from pumice.kube.client import MERGE, STRATEGIC, Backoff, KubeClient
from pumice.kube.errors import ApiRefused, NotSent, Unreachable
from pumice.kube.kinds import DECODERS, RESOURCES, Resource
from pumice.model.api import Pod
from pumice.model.intents import Bind, Evict, Nominate
from pumice.words import without_name

log = logging.getLogger("pumice.kube")

SURE = 60.0
"""Seconds after which it is looked again whether a kind still has no status subresource: its CRD may be replaced."""
STATUS = "status"


class _Named(msgspec.Struct):
    name: str = ""


class _Served(msgspec.Struct):
    """The answer to what a server serves of an API group."""

    resources: list[_Named] | None = None


_SERVED = msgspec.json.Decoder(_Served)


class StatusPlaces:
    """Knows of each kind where its status is written.

    Volcano's CRD of PodGroups has no status subresource, ours has one. A server answers 404 to a write into one that is
    not there, as it does where the object is gone; what it serves tells the two apart.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._whole: dict[str, float] = {}
        """Collections whose objects are written whole, and when that was last seen."""

    async def sub(self, resource: Resource) -> str:
        """The subresource to write a status of this kind to; nothing for the object itself."""
        seen = self._whole.get(resource.collection)
        if seen is not None and time.monotonic() - seen > SURE:
            await self.look(resource)
        return "" if resource.collection in self._whole else STATUS

    async def look(self, resource: Resource) -> str | None:
        """Ask the server where it keeps the statuses of a kind; None if it does not say, or does not serve the kind."""
        try:
            answer = _SERVED.decode(await self._client.request("GET", resource.prefix, timeout=15.0))
        except (ApiRefused, Unreachable, msgspec.MsgspecError) as exc:
            log.debug("what is served at %s: %s", resource.prefix, exc)
            return None
        served = {one.name for one in answer.resources or ()}
        if f"{resource.plural}/{STATUS}" in served:
            self._whole.pop(resource.collection, None)
            return STATUS
        if resource.plural not in served:
            return None
        if resource.collection not in self._whole:
            log.info(
                "%s has no status subresource here: statuses are written to the objects themselves", resource.plural
            )
        self._whole[resource.collection] = time.monotonic()
        return ""


LIMIT = 15.0
"""Seconds that one request may take."""
TRIES = 5
"""How often a request is sent that the server answers with an error of its own."""

LATE = 60.0
"""Seconds for which a request without an answer may still be carried out: so long a server works at one."""

MOST_REASONS = 1000
"""Refusals that are remembered, not to be logged again."""
SAID_AGAIN = 600.0
"""Seconds after which a refusal for the same reason is worth another line in the log."""

TimeLeft = Callable[[], float]
"""For how many seconds from now we may write; 0: not at all."""


class RefusalLog:
    """Logs that writes were refused: one line for one reason. *quiet*: once we do not lead, all that waits fails."""

    def __init__(self, quiet: Callable[[], bool]) -> None:
        self._quiet = quiet
        self._told: dict[str, float] = {}

    def tell(self, text: str, name: str) -> None:
        """Log that a write to the object *name* was refused. A reason that was logged of late is a debug message."""
        reason, now = without_name(text, name.rpartition("/")[2]), time.monotonic()
        level = logging.DEBUG
        if not self._quiet() and now - self._told.get(reason, float("-inf")) >= SAID_AGAIN:
            if len(self._told) >= MOST_REASONS:
                self._told.clear()
            self._told[reason], level = now, logging.WARNING
        log.log(level, "%s", text)


class ApiWriter:
    """Sends writes, and carries single intents out. Nothing is sent once *left* says 0, which is said once.

    Overload and lost answers are waited out, and what the server says then is the answer. A write that comes again by
    itself is not *patient*: it is reported at once.
    """

    def __init__(self, client: KubeClient, left: TimeLeft, *, patient: bool = True, at_once: int = 32) -> None:
        """*at_once*: how many objects are written at the same time; binds and evictions have limits of their own."""
        self._client, self._left, self._patient = client, left, patient
        self._flying = asyncio.Semaphore(at_once)
        self.where: Callable[[str], Resource] = RESOURCES.__getitem__
        """Tells where the server keeps a kind."""
        self._pods = RESOURCES["Pod"]
        self._places = StatusPlaces(client)
        self._silent = False
        self.refusals = RefusalLog(lambda: self._silent)
        self.refused: Callable[[str], None] = lambda what: None
        """Is told what could not be written, if it was refused for good."""

    # -- any object ---------------------------------------------------------------------------------------------------
    async def send(
        self, method: str, path: str, body: dict[str, Any], content: str = "application/json"
    ) -> bytes | ApiRefused:
        """Send a write until the server says yes or no; returns what it said.

        A no is about the last try alone: it says itself when an earlier one had no answer.

        :raises Unreachable: no answer came, and we are not patient.
        """
        backoff = Backoff(0.05, 2.0)
        tries, unanswered = 0, 0.0
        while True:
            left = self._left()
            if left <= 0:
                return self._not_sent(f"{method} {path}")
            wait = 0.0
            try:
                return await self._client.request(method, path, body, content=content, timeout=min(LIMIT, left))
            except ApiRefused as no:
                tries += no.code >= 500
                if no.unfinished:
                    unanswered = time.monotonic()
                if not self._patient or not no.retryable or no.by_budget or tries >= TRIES:
                    no.unanswered = unanswered
                    return no
                wait = no.retry_after
            except Unreachable as lost:
                if not self._patient:
                    raise
                unanswered = time.monotonic()
                log.debug("%s; trying again", lost)
            await asyncio.sleep(backoff.again(wait))

    async def send_status(
        self, resource: Resource, key: str, body: dict[str, Any], content: str = MERGE
    ) -> bytes | ApiRefused:
        """Patch a status where the server keeps it; a refusal with 404 then means that the object is gone.

        :raises Unreachable: no answer came, and we are not patient.
        """
        backoff = Backoff(0.1, 2.0)
        for _ in range(TRIES):
            sub = await self._places.sub(resource)
            answer = await self.send("PATCH", resource.path(key, sub), body, content)
            if not isinstance(answer, ApiRefused) or answer.code != 404:
                return answer
            place = await self._places.look(resource)
            if place == sub:
                return answer  # it is there that statuses are kept, so it is the object that is not
            if place is None:
                if not self._patient:
                    return answer
                await asyncio.sleep(backoff.again())  # a server that starts does not know all kinds yet
        return answer

    async def patch(self, path: str, body: dict[str, Any], content: str) -> bool:
        """Change an object; returns whether that happened. One that is gone, or newer than the patch, needs none."""
        return self._is_done("patch", path, await self.send("PATCH", path, body, content))

    async def patch_status(self, resource: Resource, key: str, body: dict[str, Any], content: str = MERGE) -> bool:
        """Change a status; returns whether that happened. One of an object that is gone or newer needs no change."""
        return self._is_done("status", key, await self.send_status(resource, key, body, content))

    async def create(self, path: str, body: dict[str, Any]) -> ApiRefused | None:
        """Create an object; returns what the server had against it."""
        answer = await self.send("POST", path, body)
        return answer if isinstance(answer, ApiRefused) else None

    async def read(self, path: str) -> bytes | None:
        """An object as it is now; None if there is none.

        :raises ApiRefused: it is not to be read.
        """
        backoff = Backoff(0.05, 2.0)
        while True:
            try:
                return await self._client.request("GET", path, timeout=LIMIT)
            except ApiRefused as no:
                if no.code == 404:
                    return None
                if not no.retryable or not self._patient:
                    raise
                await asyncio.sleep(backoff.again(no.retry_after))
            except Unreachable:
                if not self._patient:
                    raise
                await asyncio.sleep(backoff.again())

    @property
    def silent(self) -> bool:
        """Whether something was not sent for we do not lead any more; it was said then."""
        return self._silent

    def _not_sent(self, what: str) -> NotSent:
        if not self._silent:
            self._silent = True
            log.warning("%s; neither is anything else that waits", NotSent(what))
        return NotSent(what)

    def _is_done(self, what: str, name: str, answer: bytes | ApiRefused) -> bool:
        if isinstance(answer, ApiRefused) and answer.for_good:
            self.refusals.tell(str(answer), name)
            self.refused(what)
        return not isinstance(answer, ApiRefused)

    # -- objects, some at once ---------------------------------------------------------------------------------------
    async def read_object(self, resource: Resource, key: str) -> dict[str, Any] | None:
        """An object as it is now; None if there is none, or we may not see it."""
        try:
            answer = await self.read(resource.path(key))
        except ApiRefused as no:
            if no.code == 403:
                return None
            raise
        found: dict[str, Any] | None = msgspec.json.decode(answer) if answer is not None else None
        return found

    async def create_object(self, resource: Resource, namespace: str, body: dict[str, Any]) -> bytes | None:
        """Create an object; None if one of its name is there already."""
        return await self._sent("POST", resource.path(f"{namespace}/").rstrip("/"), body, but=(409,))

    async def replace_status(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Write a status; None if the object changed in between, or is gone: then it will be looked at again."""
        return await self._sent("PUT", resource.path(key, "status"), body, but=(404, 409))

    async def merge_status(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Change a status by a merge patch; None if the object is gone."""
        async with self._flying:
            return _wanted(await self.send_status(resource, key, body), but=(404, 409))

    async def merge(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Change an object by a merge patch; None if it is gone or another one than meant."""
        try:
            return await self._sent("PATCH", resource.path(key), body, MERGE, but=(404, 409))
        except ApiRefused as no:
            if no.code == 422 and "metadata.uid" in str(no):  # a uid in a patch is a value that cannot change
                return None
            raise

    async def delete(self, resource: Resource, key: str, uid: str) -> None:
        """Delete an object of this uid; what it owns is collected by the cluster."""
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        body["propagationPolicy"] = "Background"
        await self._sent("DELETE", resource.path(key), body, but=(404, 409))

    async def _sent(
        self, method: str, path: str, body: dict[str, Any], content: str = "application/json", *, but: Container[int]
    ) -> bytes | None:
        async with self._flying:
            return _wanted(await self.send(method, path, body, content), but)

    async def edit(self, kind: str, key: str, change: Change, sub: str = "") -> Object:
        """Bring an object, or its subresource *sub*, to where *change* wants it; returns it as it is then.

        :raises Unprepared: it is gone, the server refuses, or *change* raised this.
        """
        backoff = Backoff(0.02, 1.0)
        resource = self.where(kind)
        for _ in range(_TRIES):
            async with self._flying:
                found = await self._claim(kind, key, resource)
                patch = change(found)
                if patch is None:
                    return found
                meta = found["metadata"]
                patch["metadata"] = {
                    **patch.get("metadata", {}),
                    "resourceVersion": meta.get("resourceVersion"),
                    "uid": meta.get("uid"),
                }
                answer = await self.send("PATCH", resource.path(key, sub), patch, MERGE)
            if not isinstance(answer, ApiRefused):
                changed: Object = msgspec.json.decode(answer)
                return changed
            if answer.code != 409:
                raise ClaimUnusable(str(answer), invalid=answer.code == 422)
            await asyncio.sleep(backoff.again())
        raise ClaimUnusable(f"{kind} {key}: it changed {_TRIES} times while we wrote it")

    async def ensure(self, kind: str, key: str, body: Object) -> Object:
        """Create an object, and return it; one that has its name already is returned as it is.

        :raises ClaimUnusable: the server refuses.
        """
        resource = self.where(kind)
        namespace, _, name = key.rpartition("/")
        body["metadata"] |= {"name": name, "namespace": namespace}
        group = resource.prefix.removeprefix("/apis/").removeprefix("/api/")
        body |= {"apiVersion": group, "kind": resource.kind}
        async with self._flying:
            answer = await self.send("POST", resource.path(key).rpartition("/")[0], body)
            if isinstance(answer, ApiRefused) and answer.code == 409:
                return await self._claim(kind, key, resource)
        if isinstance(answer, ApiRefused):
            raise ClaimUnusable(str(answer))
        made: Object = msgspec.json.decode(answer)
        return made

    async def _claim(self, kind: str, key: str, resource: Resource) -> Object:
        try:
            data = await self.read(resource.path(key))
        except ApiRefused as no:
            raise ClaimUnusable(str(no)) from no
        if data is None:
            raise ClaimUnusable(f"{kind} {key}: it is gone")
        found: Object = msgspec.json.decode(data)
        return found

    # -- pods ---------------------------------------------------------------------------------------------------------

    async def bind(self, intent: Bind) -> ApiRefused | None:
        """Bind; returns what the server had against it, if it did not happen.

        The UID goes along, so a pod of the same name is never bound by mistake. If an answer was lost, the bind is sent
        again, and a refusal of that one does not tell the result of the first. A server that was started anew may
        refuse for a moment requests that it permits. The pod alone tells, and as long as it tells nothing the bind may
        still come true.
        """
        _, _, name = intent.pod.rpartition("/")
        meta: dict[str, Any] = {"name": name, "namespace": intent.pod.partition("/")[0], "uid": intent.uid}
        if intent.annotations:
            meta["annotations"] = intent.annotations
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": intent.node},
        }
        path = self._pods.path(intent.pod, "binding")
        backoff, unanswered = Backoff(0.05, 2.0), 0.0
        while True:
            no = await self.create(path, body)
            if no is None:
                return None
            unanswered = max(unanswered, no.unanswered)
            if isinstance(no, NotSent) or not (unanswered or no.code == 409 or no.code >= 500):
                return no
            pod = await self._sure_pod(intent.pod)
            if pod is None or pod.metadata.uid != intent.uid or pod.metadata.deletion_timestamp is not None:
                return no
            if pod.spec.node_name:
                return None if pod.spec.node_name == intent.node else no
            if not unanswered or time.monotonic() - unanswered > LATE:
                return no
            await asyncio.sleep(backoff.again())

    async def node_of(self, intent: Bind) -> str:
        """The node that the pod of a bind has now; nothing if it has none, is gone, or is another of its name."""
        pod = await self._sure_pod(intent.pod)
        return pod.spec.node_name if pod is not None and pod.metadata.uid == intent.uid else ""

    async def _sure_pod(self, key: str) -> Pod | None:
        """The pod as it is now, asked for until it is told; a server that starts refuses for a moment.

        :raises ApiRefused: for a minute it was not to be read, or we do not lead any more.
        """
        backoff, until = Backoff(0.1, 2.0), time.monotonic() + LATE
        while True:
            try:
                return await self.read_pod(key)
            except ApiRefused:
                if self._left() <= 0 or time.monotonic() > until:
                    raise
            await asyncio.sleep(backoff.again())

    async def evict(self, intent: Evict) -> str:
        """Evict through the Eviction API, which honours disruption budgets; returns why it did not happen, or nothing.

        A pod that is gone, or another one of its name, counts as evicted.
        """
        namespace, _, name = intent.pod.rpartition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": intent.uid}},
        }
        path = self._pods.path(intent.pod, "eviction")
        no: ApiRefused | None = None
        for _ in range(TRIES):
            no = await self.create(path, body)
            if no is None or no.code == 404:
                return ""
            if no.code != 409:
                break
            pod = await self.read_pod(intent.pod)
            if pod is None or pod.metadata.uid != intent.uid:
                return ""
            await asyncio.sleep(0.1)
        return str(no)

    async def nominate(self, intent: Nominate) -> None:
        """Write the node whose room is being freed into the pod's status; one that has its node needs it no more."""
        body = {"metadata": {"uid": intent.uid}, "status": {"nominatedNodeName": intent.node}}
        answer = await self.send_status(self._pods, intent.pod, body, STRATEGIC)
        if isinstance(answer, ApiRefused) and answer.code == 422:  # the server takes none of a pod that is bound
            pod = await self.read_pod(intent.pod)
            if pod is None or pod.metadata.uid != intent.uid or pod.spec.node_name:
                return
        self._is_done("nomination", intent.pod, answer)

    async def read_pod(self, key: str) -> Pod | None:
        """The pod as it is now; None if there is none."""
        answer = await self.read(self._pods.path(key))
        try:
            return DECODERS["Pod"].decode(answer) if answer is not None else None
        except msgspec.ValidationError:
            return None


Object: TypeAlias = dict[str, Any]
"""An object as plain data: what we do not know must not get lost."""
Change: TypeAlias = Callable[[Object], Object | None]
"""From the object as it is, the merge patch that makes it as it should be; None if it is."""

_TRIES = 10


class ClaimUnusable(PumiceError):
    """A claim is not, and will not be, as a pod needs it; says why."""

    def __init__(self, text: str, *, invalid: bool = False) -> None:
        super().__init__(text)
        self.invalid = invalid
        """Whether the server found that the object would break a rule (422)."""


def check_claim(kind: str, claim: Object, key: str, uid: str) -> None:
    """Report whether this is the claim of the choice, and it stays.

    :raises Unprepared: it is not, or is being deleted.
    """
    meta = claim["metadata"]
    if uid and meta.get("uid") != uid:
        raise ClaimUnusable(f"{kind} {key}: it is gone, and another one has its name")
    if meta.get("deletionTimestamp"):
        raise ClaimUnusable(f"{kind} {key}: it is being deleted")


AT_ONCE = 16
"""Requests under way at once."""


async def all_of(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Send them all, then raise the first failure."""
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _wanted(answer: bytes | ApiRefused, but: Container[int]) -> bytes | None:
    """The answer; None where it was refused with one of these codes.

    :raises Refused: with any other.
    """
    if not isinstance(answer, ApiRefused):
        return answer
    if answer.code in but:
        return None
    raise answer
