"""The plugin ``extender``: a policy that lives behind HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from pumice.errors import MissingExtra
from pumice.extender.asking.binder import ExtenderBinder, RefusedBinds
from pumice.extender.asking.caller import Caller, CallFailed, ReplayCallers, close
from pumice.extender.asking.calls import ExtenderSession
from pumice.extender.asking.hooks import register
from pumice.extender.asking.settings import ARGUMENTS, ExtenderSettings, Transport, read_settings
from pumice.extender.asking.writer import QuestionWriter
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import BIND, JOB_ENQUEUEABLE, ON_SESSION_CLOSE, ON_SESSION_OPEN, VerbOutcome
from pumice.framework.arguments import Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.reason import PASS, Verdict, reject

CALLERS: Final = "extender.callers"
"""Name in a session's environment: extender name -> what is asked instead of the network (replay)."""
_BINDER: Final = "_binder"
_KEPT: Final = "_kept"
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
        self._extender: ExtenderSession | None = None

    def on_session_open(self, ssn: Session) -> None:
        """Tell the service of the cluster, then register what it answers."""
        settings, volcano = self.settings, ssn.compat.extender_answers
        if settings.transport is None or not settings.verbs:
            return
        caller, writer = self._kept(ssn, settings.transport, volcano=volcano)
        extender = self._extender = ExtenderSession(ssn, self.name, settings, caller, writer, volcano=volcano)
        if settings.transport.exposed:
            extender.warn_once(
                f"extender {self.name}: {settings.transport.url} is plain HTTP to another machine; use https"
            )
        if extender.has(ON_SESSION_OPEN) and not ssn.describes:
            opened = self._opened(ssn, extender)
            if opened is not VerbOutcome.YES:
                if opened is VerbOutcome.NO:
                    self._hold(ssn, extender)
                return
        register(ssn, extender)
        if extender.has(BIND):
            binder = self._binder(extender, caller)
            ssn.register_binder(self.name, binder)
            refused = RefusedBinds(extender.memory, binder.refused, ssn.now)
            if refused:
                ssn.add_pre_predicate_fn(self.name, refused.pre_predicate)

    def on_session_close(self, ssn: Session) -> None:
        """Tell the service, publish what was measured, and remember not to trust kept answers after failures."""
        extender = self._extender
        if extender is None:
            return
        if extender.has(ON_SESSION_CLOSE):
            extender.ask_many(ON_SESSION_CLOSE, [b"{}"])
        extender.closed = True
        extender.publish()
        if extender.failures:
            extender.memory["failing"] = extender.memory.get("failing", 0) + 1

    def _kept(self, ssn: Session, transport: Transport, *, volcano: bool) -> tuple[Caller, QuestionWriter]:
        """The connections and what was written before; kept as long as the scheduler runs."""
        settings = self.settings
        dialect = "volcano" if volcano and settings.dialect == "both" else settings.dialect
        paths = tuple(sorted(settings.verbs.items()))
        key = (transport, paths, dialect, settings.names_only, volcano)
        memory = ssn.memory_of(self.name)
        kept: tuple[Any, Caller, QuestionWriter] | None = memory.get(_KEPT)
        if kept is None or kept[0] != key:
            if kept is not None:
                close(kept[1])
            callers: ReplayCallers | Mapping[str, Caller] = ssn.environment.get(CALLERS, {})
            caller = callers.get(self.name)
            if caller is None:
                from pumice.extender.asking.client import Client  # slow to load: only who asks over HTTP pays for it

                caller = Client(transport, dict(paths), DIALECTS[dialect], guarded=not volcano)
            kept = memory[_KEPT] = (key, caller, QuestionWriter(dialect, names_only=settings.names_only))
        kept[2].begin()
        return kept[1], kept[2]

    def _binder(self, extender: ExtenderSession, caller: Caller) -> ExtenderBinder:
        """The binder; it outlives the session, because binds are carried out after it."""
        binder: ExtenderBinder | None = extender.memory.get(_BINDER)
        if binder is None or binder.caller is not caller:
            binder = extender.memory[_BINDER] = ExtenderBinder(
                self.name, caller, extender.writer, extender.tasks.concerns
            )
        return binder

    def _opened(self, ssn: Session, extender: ExtenderSession) -> VerbOutcome:
        """Send the cluster; YES if the session goes on, NO if its jobs must wait, NEUTRAL if the extender is off."""
        try:
            extender.ask_body(ON_SESSION_OPEN, extender.writer.snapshot(ssn.state))
        except CallFailed:
            return extender.outcome(ON_SESSION_OPEN)
        return VerbOutcome.YES

    def _hold(self, ssn: Session, extender: ExtenderSession) -> None:
        """No job that the extender manages is scheduled in this cycle."""
        said = f"extender {self.name} could not be told of the session"

        def job_valid(job: Job) -> Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if extender.tasks.holds(job) else PASS

        def job_enqueueable(job: Job) -> int | Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if extender.tasks.holds(job) else 0

        ssn.add_job_valid_fn(self.name, job_valid)
        if extender.has(JOB_ENQUEUEABLE):
            ssn.add_job_enqueueable_fn(self.name, job_enqueueable)


def close_clients(memory: Mapping[str, Mapping[str, Any]]) -> None:
    """Close the connections that a runtime's memory holds; they are made anew when needed."""
    for entries in memory.values():
        kept = entries.get(_KEPT)
        if isinstance(kept, tuple) and len(kept) == 3:
            close(kept[1])


__all__ = ["CALLERS", "Extender", "ExtenderSettings", "close_clients"]
