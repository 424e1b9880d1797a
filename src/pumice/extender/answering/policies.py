"""Policies, what each caller told them, and their answers: everything of the server but HTTP."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from pumice.engine.scope import Scope
from pumice.errors import InvalidInput
from pumice.extender import answers as a
from pumice.extender.answering.followed import AnsweredCluster, FollowedState
from pumice.extender.answering.respond import Responder, ServedSession, bind_of, carried_out
from pumice.extender.answering.told_state import ToldState
from pumice.extender.answering.untold import NotTold
from pumice.extender.answers import Answer
from pumice.extender.dialects import DIALECTS, QuestionReader, VerbQuestion
from pumice.extender.dialects.messages import Cluster
from pumice.extender.protocol import BIND, ON_SESSION_CLOSE, ON_SESSION_OPEN, VOLCANO_VERBS, Verb, carriers
from pumice.framework.arguments import Arguments
from pumice.framework.compat import Compat, compat_of
from pumice.framework.plugin import Plugin
from pumice.framework.registry import PluginInfo, build
from pumice.framework.session.runtime import Runtime

Policy = type[Plugin] | Callable[[], Any]
Builders = Sequence[Callable[[], Any]]
SECOND_THOUGHT: Final = 0.05
"""Seconds that the watch is given before a cluster that is followed is said to have no node for a pod."""
MOST_CALLERS: Final = 16
"""Callers whose sessions are kept; who was silent longest is forgotten first."""
_LARGE: Final = 256 * 1024
"""Bytes from which a question is read beside the event loop."""


class CallerSession:
    """The policies as opened for one caller, on what that caller told.

    They are opened when a session opens, or when the first question comes; what they keep in ``ssn.memory`` stays.
    """

    def __init__(self, builders: Builders, compat: Compat, told: ToldState) -> None:
        self.told = told
        self._builders, self._compat = builders, compat
        self._runtime = Runtime()
        self._session: ServedSession | None = None
        self._blocked: NotTold | None = None

    def load(self, told: ToldState) -> None:
        """A session opens on another cluster."""
        self.close()
        self.told = told
        self._open()

    def respond(self, question: VerbQuestion) -> Answer:
        """The answer to a question. The one place where what was not told becomes an error.

        :raises NotTold: the question names, or a policy reads, what was never told.
        """
        session = self.current()
        try:
            answer = self._responder.respond(question)
            if session.untold is not None:
                raise session.untold
        finally:
            session.untold = None
        return answer

    def current(self) -> ServedSession:
        """A session on the cluster as it is known now.

        :raises NotTold: a policy needs more of the cluster than it was told.
        """
        if self.told.renewed() or self._session is None:
            self._open()
        assert self._session is not None
        if self._blocked is not None:
            raise self._blocked
        return self._session

    def _open(self) -> None:
        """Open fresh policies. One that reads what was not told is answered for with 409 until a snapshot comes."""
        session = open_session(self._builders, self.told, self._runtime, self._compat)
        self._runtime.cycle += 1
        self._blocked, session.untold = session.untold, None
        self._session, self._responder = session, Responder(self.told, session)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._blocked is None:
            session.close_plugins()


class PolicyServer:
    """Some policies behind the protocol, for callers that are kept apart. One thread at a time."""

    def __init__(
        self,
        policies: Sequence[Policy],
        *,
        dialect: str = "",
        compat: str | None = None,
        cluster: AnsweredCluster | None = None,
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
        self._reader = QuestionReader(dialect)
        self._followed = FollowedState(cluster) if cluster is not None else None
        self._callers: OrderedDict[str, CallerSession] = OrderedDict()

    # -- questions ------------------------------------------------------------------------------------------------
    def answer(self, verb: Verb[Any], body: bytes, caller: str = "") -> bytes:
        """The answer to a question of *caller*, in its dialect.

        :raises WireError: the question cannot be read.
        :raises NotTold: a policy read something that was never told.
        :raises InvalidInput: an object in the question breaks a rule.
        :raises NotReady: the cluster that is followed was not read yet.
        """
        question = self._reader.read(verb, body)
        if question.verb is ON_SESSION_OPEN:
            answer: Answer = self._opened(self._loaded(question.parts["snapshot"]), caller)
        else:
            answer = self._respond(question, caller)
        return question.dialect.write_answer(question.verb, answer)

    async def asked(self, verb: Verb[Any], body: bytes, caller: str = "") -> bytes:
        """As `answer`, without keeping others waiting: what is large is read, and loaded, beside the event loop.

        In a cluster that is followed pods are bound meanwhile, and a no to every node is thought over: whoever asks
        follows the same cluster and may have seen a moment before us that a pod went; a pod that gets a no may not be
        asked about again for minutes.
        """
        if len(body) >= _LARGE:
            question = await asyncio.to_thread(self._reader.read, verb, body)
        elif self._followed is None and verb is not ON_SESSION_OPEN:  # nearly always
            return self.answer(verb, body, caller)
        else:
            question = self._reader.read(verb, body)
        if question.verb is ON_SESSION_OPEN:
            told = await asyncio.to_thread(self._loaded, question.parts["snapshot"])
            answer: Answer = self._opened(told, caller)
        elif self._followed is not None and question.verb is BIND:
            answer = await self._bind(self._followed, question)
        else:
            answer = self._respond(question, caller)
            if self._followed is not None and isinstance(answer, a.NodeRefusals) and not answer.fitting:
                await asyncio.sleep(SECOND_THOUGHT)
                answer = self._respond(question, caller)
        return question.dialect.write_answer(question.verb, answer)

    def _respond(self, question: VerbQuestion, caller: str) -> Answer:
        session = self._caller(caller)
        if question.verb is ON_SESSION_CLOSE:
            session.close()
            return a.Acknowledged()
        return session.respond(question)

    def _loaded(self, cluster: Cluster) -> ToldState:
        told = self._followed or ToldState()
        told.load(cluster)
        return told

    def _opened(self, told: ToldState, caller: str) -> Answer:
        self._caller(caller).load(told)
        return a.Acknowledged()

    def _caller(self, caller: str) -> CallerSession:
        """The session of a caller; all who ask about a cluster that is followed share one."""
        key = caller if self._followed is None else ""
        known = self._callers.get(key)
        if known is None:
            known = self._callers[key] = CallerSession(self._builders, self._compat, self._followed or ToldState())
            if len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)[1].close()
        self._callers.move_to_end(key)
        return known

    async def _bind(self, followed: FollowedState, question: VerbQuestion) -> Answer:
        binder = next(iter(self._caller("").current().binds.binders.values()), followed.cluster)
        intent = bind_of(question)
        error = await asyncio.to_thread(carried_out, binder, intent)
        if not error:
            followed.bound(intent)
        return a.Error(error=error)

    def trouble(self) -> str:
        """Why questions cannot be answered, or nothing."""
        return self._followed.cluster.trouble() if self._followed is not None else ""

    # -- what is served -------------------------------------------------------------------------------------------
    def points(self) -> dict[str, set[Scope]]:
        """The points at which the policies register, with the scopes they declare; found on an empty cluster."""
        told = ToldState()
        told.followed = told.complete = True
        session = open_session(self._builders, told, Runtime(), self._compat)
        found = {point: {callback.scope for callback in callbacks} for point, callbacks in session.registered().items()}
        if session.handlers:
            found["event handlers"] = {Scope.SESSION}
        return found

    def not_carried(self, dialect: str) -> list[str]:
        """Points of the policies that callers in *dialect* do not ask: a real Volcano has twelve verbs, no more."""
        asked = VOLCANO_VERBS if dialect == "volcano" else DIALECTS[dialect].carries
        return sorted(point for point in self.points() if not asked & set(carriers(point)))

    def needs_one_worker(self) -> list[str]:
        """Points that keep several workers from answering alike: not declared STATIC or NODE."""
        return sorted(point for point, scopes in self.points().items() if Scope.SESSION in scopes)


def open_session(builders: Builders, told: ToldState, runtime: Runtime, compat: Compat) -> ServedSession:
    """A session on what was told, with the policies opened on it."""
    session = ServedSession(told, runtime, compat)
    for builder in builders:
        plugin = builder()
        session.open_plugin(plugin, _name(plugin))
    return session


def _builder(policy: Policy) -> Callable[[], Any]:
    if isinstance(policy, type) and issubclass(policy, Plugin):
        info = PluginInfo(policy.name or policy.__name__, policy, f"{policy.__module__}.{policy.__qualname__}")
        return lambda: build(info, Arguments({}, owner=info.name))
    return policy


def _name(plugin: Any) -> str:
    return getattr(plugin, "name", "") or type(plugin).__name__
