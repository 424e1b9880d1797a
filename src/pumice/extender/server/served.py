"""Policies, what they were told, and their answers: everything of the server but HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from pumice.engine.scope import Scope
from pumice.errors import InvalidInput
from pumice.extender.server.answering import ANSWERS, Answering
from pumice.extender.server.carried import POINTS
from pumice.extender.server.following import Cluster, Following
from pumice.extender.server.knowledge import Knowledge
from pumice.extender.server.reading import Reader
from pumice.extender.server.session import ServedSession
from pumice.extender.server.untold import NotTold
from pumice.extender.wire import kube
from pumice.extender.wire.dialects import DIALECTS, Dialect
from pumice.extender.wire.messages import Acknowledged, BatchPredicateResponse, ErrorResponse
from pumice.extender.wire.verbs import BIND, ON_SESSION_CLOSE, ON_SESSION_OPEN, VERBS, VOLCANO_VERBS, Verb
from pumice.framework.arguments import Arguments
from pumice.framework.compat import compat_of
from pumice.framework.plugin import Plugin
from pumice.framework.registry import PluginInfo, build
from pumice.framework.session.runtime import Runtime
from pumice.model.intents import Bind
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.extender.server")
Policy = type[Plugin] | Callable[[], Any]
_EMPTY: Final = frozenset((b"", b"null"))
SECOND_THOUGHT: Final = 0.05
"""Seconds that the watch is given before a cluster that is followed is said to have no node for a pod."""


class Served:
    """Some policies behind the protocol. One thread at a time.

    They are opened when a session opens, or when the first question comes; what they keep in ``ssn.memory`` stays.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        *,
        dialect: str = "",
        compat: str | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """*policies*: Plugin classes (built without arguments) or functions that build one. *cluster*: is followed,
        so that questions need not tell of it, and binds the pods that no policy binds.

        :raises InvalidInput: none at all, or one that cannot be built.
        """
        if not policies:
            raise InvalidInput("policies: at least one must be served")
        self._builders = [_builder(policy) for policy in policies]
        self.names = [_name(builder()) for builder in self._builders]
        self._compat = compat_of(compat)
        self._runtime = Runtime()
        self._reader = Reader(dialect)
        self._following = Following(cluster) if cluster is not None else None
        self._knowledge = self._following or Knowledge()
        self._session: ServedSession | None = None
        self._plugins: list[Any] = []
        self._blocked: NotTold | None = None

    async def asked(self, verb: Verb[Any, Any], body: bytes) -> bytes:
        """As `answer`. In a cluster that is followed pods are bound meanwhile, and a no to every node is thought over.

        Whoever asks follows the same cluster and may have seen a moment before us that a pod went; a pod that gets a
        no may not be asked about again for minutes.
        """
        if self._following is None:
            return self.answer(verb, body)
        if verb is BIND:
            return await self._bind(self._following, body)
        verb, dialect, response = self._respond(verb, body)
        if isinstance(response, BatchPredicateResponse) and not response.fitting:
            await asyncio.sleep(SECOND_THOUGHT)
            verb, dialect, response = self._respond(verb, body)
        return dialect.encode_response(verb, response)

    def answer(self, verb: Verb[Any, Any], body: bytes) -> bytes:
        """The answer to a question, in its dialect.

        :raises WireError: the question cannot be read.
        :raises NotTold: a policy read something that was never told.
        :raises InvalidInput: an object in the question breaks a rule.
        :raises NotReady: the cluster that is followed was not read yet.
        """
        verb, dialect, response = self._respond(verb, body)
        return dialect.encode_response(verb, response)

    def _respond(self, verb: Verb[Any, Any], body: bytes) -> tuple[Verb[Any, Any], Dialect, Any]:
        if verb is ON_SESSION_CLOSE and body.strip() in _EMPTY:
            body = b"{}"
        verb, dialect, request = self._reader.read(verb, body)
        if verb is ON_SESSION_OPEN:
            self._close()
            self._knowledge.load(request.snapshot)
            self._open()
            return verb, dialect, Acknowledged()
        if verb is ON_SESSION_CLOSE:
            self._close()
            return verb, dialect, Acknowledged()
        session = self._current()
        try:
            response = ANSWERS[verb.name](Answering(self._knowledge, session, dialect.name), request)
            if session.untold is not None:
                raise session.untold
        finally:
            session.untold = None
        return verb, dialect, response

    async def _bind(self, following: Following, body: bytes) -> bytes:
        verb, dialect, request = self._reader.read(BIND, body)
        binder = next(iter(self._current().binds.binders.values()), following.cluster)
        intent = Bind(f"{request.task.namespace}/{request.task.name}", request.task.uid, request.node.name)
        try:
            await asyncio.to_thread(binder.bind, intent)
        except Exception as exc:  # whatever a binder raises means that it did not bind
            return dialect.encode_response(verb, ErrorResponse(error=f"{type(exc).__name__}: {exc}"))
        following.bound(intent)
        return dialect.encode_response(verb, ErrorResponse())

    def trouble(self) -> str:
        """Why questions cannot be answered, or nothing."""
        return self._following.cluster.trouble() if self._following is not None else ""

    # -- sessions -------------------------------------------------------------------------------------------------
    def _current(self) -> ServedSession:
        """A session on the cluster as it is known now."""
        if self._knowledge.renewed() or self._session is None:
            self._open()
        assert self._session is not None
        if self._blocked is not None:
            raise self._blocked
        return self._session

    def _open(self) -> None:
        """Open fresh policies. One that reads what was not told is answered for with 409 until a snapshot comes."""
        session = ServedSession(self._knowledge, self._runtime, self._compat)
        self._plugins = [builder() for builder in self._builders]
        self._runtime.cycle += 1
        for plugin in self._plugins:
            session.open_plugin(plugin, _name(plugin))
        self._blocked, session.untold = session.untold, None
        self._session = session

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is None or self._blocked is not None:
            return
        session.close_plugins()

    # -- what is served -------------------------------------------------------------------------------------------
    def points(self) -> dict[str, set[Scope]]:
        """The points at which the policies register, with the scopes they declare; found on an empty cluster."""
        knowledge = Knowledge()
        knowledge.complete = True
        knowledge.state = ClusterState()
        session = ServedSession(knowledge, Runtime(), self._compat)
        for builder in self._builders:
            plugin = builder()
            session.open_plugin(plugin, _name(plugin))
        found = {point: {callback.scope for callback in callbacks} for point, callbacks in session.registered().items()}
        if session.handlers:
            found["event handlers"] = {Scope.SESSION}
        return found

    def not_carried(self, dialect: str) -> list[str]:
        """Points of the policies that callers in *dialect* do not ask: a real Volcano has twelve verbs, no more."""
        asked = VOLCANO_VERBS if dialect == "volcano" else DIALECTS[dialect].verbs
        carried = {verb.name for verb in asked}
        events = {"allocateFunc", "deallocateFunc"}
        return sorted(
            point
            for point in self.points()
            if not carried & set(events if point == "event handlers" else POINTS.get(point, ()))
        )

    def needs_one_worker(self) -> list[str]:
        """Points that keep several workers from answering alike: not declared STATIC or NODE."""
        return sorted(point for point, scopes in self.points().items() if Scope.SESSION in scopes)


def _builder(policy: Policy) -> Callable[[], Any]:
    if isinstance(policy, type) and issubclass(policy, Plugin):
        info = PluginInfo(policy.name or policy.__name__, policy, f"{policy.__module__}.{policy.__qualname__}")
        return lambda: build(info, Arguments({}, owner=info.name))
    return policy


def _name(plugin: Any) -> str:
    return getattr(plugin, "name", "") or type(plugin).__name__


def verb_of(path: str) -> Verb[Any, Any] | None:
    """The verb that is asked under a path of its own name, or under kube-scheduler's."""
    return VERBS.get(path) or kube.PATHS.get(path)
