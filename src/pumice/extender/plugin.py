"""The plugin ``extender``: a policy that lives behind HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from pumice.errors import MissingExtra
from pumice.extender.binder import ExtenderBinder
from pumice.extender.conversation import Conversation
from pumice.extender.exchanges import ReplayCallers
from pumice.extender.hooks.jobs import JobHooks, OrderHooks
from pumice.extender.hooks.nodes import NodeHooks
from pumice.extender.hooks.talk import Talk
from pumice.extender.hooks.victims import VictimHooks
from pumice.extender.interest import Interest
from pumice.extender.port import Caller, CallFailed
from pumice.extender.reading import Reading, reading_of
from pumice.extender.settings import ARGUMENTS, Settings, Transport, read_settings
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.messages import SessionCloseRequest
from pumice.extender.wire.verbs import BIND, JOB_ENQUEUEABLE, ON_SESSION_CLOSE, ON_SESSION_OPEN
from pumice.extender.writing import Writer
from pumice.framework.arguments import Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.reason import PASS, Verdict, reject

CALLERS = "extender.callers"
"""Name in a session's environment: extender name -> what is asked instead of the network (replay)."""
_BINDER = "_binder"
_KEPT = "_kept"
"""Name in the plugin's memory: connections, and what was written; a cache, never saved."""


class Extender(Plugin):
    """Asks an HTTP service at every extension point for which a verb is configured (see docs/extender.md).

    May be listed several times, each entry with its own ``extender.name``. Without ``extender.urlPrefix`` it does
    nothing.
    """

    name = "extender"
    arguments_read = ARGUMENTS
    repeatable = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.settings = read_settings(arguments)
        if self.settings.transport is not None and find_spec("aiohttp") is None:
            raise MissingExtra("the plugin extender", "aiohttp", "extender")
        if self.settings.name:
            self.name = f"extender/{self.settings.name}"
        self._talk: Talk | None = None

    def on_session_open(self, ssn: Session) -> None:
        """Tell the service of the cluster, then register what it answers."""
        settings = self.settings
        if settings.transport is None or not settings.verbs:
            return
        talk, caller = self._begin(ssn, settings.transport)
        self._talk = talk
        if talk.has(ON_SESSION_OPEN.name) and not ssn.describes and not self._opened(ssn, talk):
            if talk.reading.failed_open_holds:
                self._hold(ssn, talk)
            return
        NodeHooks(ssn, talk)
        VictimHooks(ssn, talk)
        JobHooks(ssn, talk)
        OrderHooks(ssn, talk)
        if talk.has(BIND.name):
            ssn.register_binder(self.name, self._binder(talk, caller))

    def on_session_close(self, ssn: Session) -> None:
        """Tell the service, publish what was measured, and remember not to trust kept answers after failures."""
        talk = self._talk
        if talk is None:
            return
        if talk.has(ON_SESSION_CLOSE.name):
            body = talk.writer.request(ON_SESSION_CLOSE, SessionCloseRequest())
            talk.conversation.ask_many(ON_SESSION_CLOSE, [body])
        talk.closed = True
        talk.conversation.publish()
        if talk.conversation.failures:
            talk.memory["failing"] = talk.memory.get("failing", 0) + 1

    def _begin(self, ssn: Session, transport: Transport) -> tuple[Talk, Caller]:
        settings, reading = self.settings, reading_of(ssn.compat)
        caller, writer = self._kept(ssn, transport, reading)
        conversation = Conversation(ssn, self.name, settings, caller)
        memory = ssn.memory_of(self.name)
        if transport.exposed:
            conversation.warn_once(
                memory, f"extender {self.name}: {transport.url} is plain HTTP to another machine; use https"
            )
        return Talk(self.name, settings, reading, Interest(settings), conversation, writer, memory), caller

    def _kept(self, ssn: Session, transport: Transport, reading: Reading) -> tuple[Caller, Writer]:
        """The connections and what was written before; kept as long as the scheduler runs."""
        settings = self.settings
        dialect = reading.dialect if reading.dialect and settings.dialect == "both" else settings.dialect
        paths = tuple(sorted(settings.verbs.items()))
        key = (transport, paths, dialect, settings.names_only, reading.guarded)
        memory = ssn.memory_of(self.name)
        kept: tuple[Any, Caller, Writer] | None = memory.get(_KEPT)
        if kept is None or kept[0] != key:
            if kept is not None:
                _close(kept[1])
            callers: ReplayCallers | Mapping[str, Caller] = ssn.environment.get(CALLERS, {})
            caller = callers.get(self.name)
            if caller is None:
                from pumice.extender.client import Client  # slow to load: only who asks over HTTP pays for it

                caller = Client(transport, dict(paths), DIALECTS[dialect], guarded=reading.guarded)
            kept = memory[_KEPT] = (key, caller, Writer(dialect, names_only=settings.names_only))
        return kept[1], kept[2]

    def _binder(self, talk: Talk, caller: Caller) -> ExtenderBinder:
        """The binder; it outlives the session, because binds are carried out after it."""
        binder: ExtenderBinder | None = talk.memory.get(_BINDER)
        if binder is None or binder.caller is not caller:
            binder = talk.memory[_BINDER] = ExtenderBinder(self.name, caller, talk.writer, talk.interest.concerns)
        return binder

    def _opened(self, ssn: Session, talk: Talk) -> bool:
        """Send the cluster; False if that failed and may not be ignored."""
        try:
            talk.conversation.ask(ON_SESSION_OPEN, talk.writer.snapshot(ssn.state))
        except CallFailed:
            return talk.ignores(ON_SESSION_OPEN.name)
        return True

    def _hold(self, ssn: Session, talk: Talk) -> None:
        """No job that the extender manages is scheduled in this cycle."""
        said = f"extender {self.name} could not be told of the session"

        def job_valid(job: Job) -> Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if talk.interest.holds(job) else PASS

        def job_enqueueable(job: Job) -> int | Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if talk.interest.holds(job) else 0

        ssn.add_job_valid_fn(self.name, job_valid)
        if talk.has(JOB_ENQUEUEABLE.name):
            ssn.add_job_enqueueable_fn(self.name, job_enqueueable)


def _close(caller: Caller) -> None:
    closing = getattr(caller, "close", None)
    if closing is not None:
        closing()


def close_clients(memory: Mapping[str, Mapping[str, Any]]) -> None:
    """Close the connections that a runtime's memory holds; they are made anew when needed."""
    for entries in memory.values():
        kept = entries.get(_KEPT)
        if isinstance(kept, tuple) and len(kept) == 3:
            _close(kept[1])


__all__ = ["CALLERS", "Extender", "Settings", "close_clients"]
