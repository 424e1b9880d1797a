"""The client of the answers API; without a scheduler that answers, what the user's own objects say."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from pumice.answers import questions
from pumice.answers.jobs import NoSuchThing, ToldEvent, find_job, find_queue, standing_of_object, why_of_objects
from pumice.answers.questions import API_VERSION, AboutQueues, AboutWhy, Question
from pumice.answers.queues import Standing
from pumice.answers.why import WhyAnswer
from pumice.clock import SystemClock
from pumice.errors import PumiceError, decoder_words
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.errors import ApiRefused, Unreachable
from pumice.kube.kinds import RESOURCES
from pumice.model import api, native
from pumice.model.api import make_known
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState

R = TypeVar("R")
NAMESPACE: Final = "kube-public"
NAME: Final = "pumice-answers"
"""The ConfigMap with the scheduler's address; every signed-in user may read it."""
TRIES: Final = 6
"""A Service has several replicas, of which one answers; so often a new connection is made."""
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class NoScheduler(PumiceError):
    """No scheduler answers; says why."""


class AnswerDenied(PumiceError):
    """The scheduler answered, and the answer is no."""


class _Map(msgspec.Struct):
    data: dict[str, str] = {}


class _Error(msgspec.Struct):
    error: str = ""


class _About(msgspec.Struct, rename="camel"):
    name: str = ""
    kind: str = ""


class _Event(msgspec.Struct, rename="camel"):
    involved_object: _About = msgspec.field(default_factory=_About)
    reason: str = ""
    message: str = ""
    type: str = ""
    last_timestamp: str | None = None


class _Events(msgspec.Struct):
    items: list[_Event] = []


make_known(_Map, _Error, _Events)


@dataclass(frozen=True, slots=True)
class AnswersClient:
    """Asks for one user."""

    credentials: Credentials
    server: str = ""
    """The scheduler's address; empty: that of the ConfigMap."""

    async def ask(self, question: Question[R], parameters: msgspec.Struct | None = None, body: Any = None) -> R:
        """Return the scheduler's answer.

        :raises PumiceError: no scheduler answers, or not this.
        """
        given = msgspec.to_builtins(parameters) if parameters is not None else {}
        query = [
            (name, str(one)) for name, value in given.items() for one in (value if isinstance(value, list) else [value])
        ]
        return await self._ask(question, [(name, text) for name, text in query if text], body)

    async def why(self, job: str, namespace: str, *, when: bool = True) -> WhyAnswer:
        """Return why a job waits, and *when* it will likely start: the scheduler's answer, else what its objects say.

        :raises PumiceError: neither can be had.
        """
        name = job.rpartition("/")[2]
        try:
            return await self.ask(questions.WHY, AboutWhy(namespace, name, when="" if when else "no"))
        except NoScheduler as no:
            return await self._from_objects(job, namespace, str(no))

    async def standing(self, queue: str) -> Standing:
        """Return how a queue stands.

        :raises PumiceError: no scheduler answers, or not this.
        """
        return (await self.ask(questions.QUEUES, AboutQueues([queue]))).queues[0]

    async def cluster(self, namespace: str, kinds: Sequence[str] = ("Queue", "PodGroup", "Pod")) -> ClusterState:
        """The jobs of a namespace (of all, if it is empty) and the queues, as far as the user may list them.

        :raises PumiceError: jobs may not be listed.
        """
        async with KubeClient(self.credentials, connections=8) as client:
            return (await _listed(client, namespace, kinds))[0]

    async def standing_or_object(self, queue: str, say: Callable[[str], None]) -> Standing:
        """How a queue stands: the scheduler's answer, else what its object says; *say* is told that it is only that.

        :raises PumiceError: neither can be had.
        """
        try:
            return await self.standing(queue)
        except NoScheduler as no:
            found = find_queue(await self.queues(), queue)
            say(f"no scheduler answers, so this is what the queue's object says: {no}")
            return standing_of_object(found)

    async def queues(self) -> ClusterState:
        """The queues, with the jobs of all namespaces if the user may list them.

        :raises PumiceError: queues may not be listed.
        """
        async with KubeClient(self.credentials, connections=8) as client:
            try:
                state, unseen = await _listed(client, "", ("Queue", "PodGroup"))
            except ApiRefused:
                state, unseen = await _listed(client, "", ("Queue",))
        if unseen:
            raise AnswerDenied("; ".join(unseen))
        return state

    # -- the API ----------------------------------------------------------------------------------------------------
    async def _ask(self, question: Question[R], query: Sequence[tuple[str, str]], body: Any) -> R:
        server, authority = await self._address()
        token = (await self.credentials.load()).token
        if not token.startswith("Bearer "):
            raise NoScheduler("the kubeconfig has no token to show to the scheduler, only a certificate or a password")
        parts = urlsplit(server)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise NoScheduler(f"{server}: a token is sent encrypted (https) or to this machine, and not otherwise")
        context = ssl.create_default_context(cadata=authority or None) if parts.scheme == "https" else False
        timeout = aiohttp.ClientTimeout(total=30)
        said = ""
        for _ in range(TRIES):
            connector = aiohttp.TCPConnector(ssl=context, force_close=True)
            try:
                async with (
                    aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                    session.request(
                        question.method,
                        f"{server.rstrip('/')}/{API_VERSION}/{question.name}",
                        params=query,
                        data=io.BytesIO(msgspec.json.encode(body)) if body is not None else None,
                        headers={"Authorization": token},
                    ) as answer,
                ):
                    status, content = answer.status, await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as exc:
                raise NoScheduler(f"{server}: {type(exc).__name__} {exc}".rstrip()) from exc
            if status == 200:
                try:
                    return msgspec.json.decode(content, type=question.answer)
                except msgspec.MsgspecError as exc:
                    raise NoScheduler(f"{server}: does not answer as a scheduler does: {decoder_words(exc)}") from exc
            said = _error(content, status)
            if status in (403, 404, 413, 422):
                raise NoSuchThing(said) if status == 404 else AnswerDenied(said)
            if status != 503:
                break
        raise NoScheduler(f"{server}: {said}")

    async def _address(self) -> tuple[str, str]:
        if self.server:
            return self.server, ""
        try:
            async with KubeClient(self.credentials, connections=2) as client:
                found = await client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}", timeout=10)
        except (ApiRefused, Unreachable) as exc:
            raise NoScheduler(f"no scheduler says where it answers: {exc}") from exc
        data = msgspec.json.decode(found, type=_Map).data
        if not data.get("server"):
            raise NoScheduler(f"ConfigMap {NAMESPACE}/{NAME}: has no key 'server'")
        return data["server"], data.get("ca.crt", "")

    # -- without it -------------------------------------------------------------------------------------------------
    async def _from_objects(self, name: str, namespace: str, no_scheduler: str) -> WhyAnswer:
        async with KubeClient(self.credentials, connections=8) as client:
            state, unseen = await _listed(client, namespace, ("Queue", "PodGroup", "Pod"))
            job = find_job(state, name, namespace)
            mine = {job.name, *(task.name for task in job.tasks.values())}
            events: list[ToldEvent] = []
            try:
                listed = await client.request("GET", f"/api/v1/namespaces/{namespace}/events")
                found = msgspec.json.decode(listed, type=_Events).items
                found.sort(key=lambda e: e.last_timestamp or "")
                events = [
                    ToldEvent(e.involved_object.name, e.reason, e.message, e.type == "Warning")
                    for e in found
                    if e.involved_object.name in mine
                ]
            except ApiRefused as exc:
                unseen.append(f"events: {exc}")
        return why_of_objects(state, job, events=events, unseen=[f"the scheduler: {no_scheduler}", *unseen])


async def _listed(client: KubeClient, namespace: str, kinds: Sequence[str]) -> tuple[ClusterState, list[str]]:
    """The objects of these kinds that may be listed; and, of queues, why they may not."""
    state, unseen = ClusterState(), []
    state.now = SystemClock().now()
    for kind in kinds:
        resource = RESOURCES[kind]
        within = f"/namespaces/{namespace}" if namespace and kind != "Queue" else ""
        try:
            content = await client.request("GET", f"{resource.prefix}{within}/{resource.plural}")
        except ApiRefused as exc:
            if kind != "Queue":
                raise
            unseen.append(f"queues: {exc}")
            continue
        for item in msgspec.json.decode(content)["items"]:
            state.apply(Seen(api.decode(kind, item)))
        if kind == "PodGroup":
            await _list_native(client, within, state)
    return state, unseen


async def _list_native(client: KubeClient, within: str, state: ClusterState) -> None:
    """PodGroups of Kubernetes' own, where the server has them and they may be listed."""
    resource = RESOURCES[native.POD_GROUP]
    for prefix in resource.versions:
        try:
            content = await client.request("GET", f"{prefix}{within}/{resource.plural}")
        except ApiRefused:
            continue
        for item in msgspec.json.decode(content)["items"]:
            state.apply(Seen(api.decode(native.POD_GROUP, item)))
        return


def _error(content: bytes, status: int) -> str:
    try:
        return msgspec.json.decode(content, type=_Error).error or str(status)
    except msgspec.MsgspecError:
        return f"{status} {content[:200].decode('utf-8', 'replace')}".strip()
