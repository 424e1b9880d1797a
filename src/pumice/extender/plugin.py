"""The plugin ``extender``: a policy that lives behind HTTP, and binds that are delegated to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final

from pumice.errors import MissingExtra, PumiceError
from pumice.extender.asking.caller import Caller, CallFailed, ReplayCallers, call
from pumice.extender.asking.calls import ExtenderSession
from pumice.extender.asking.hooks import register
from pumice.extender.asking.settings import PATHS, SETTINGS, ExtenderSettings, Transport, read_settings
from pumice.extender.asking.writer import QuestionWriter
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import BIND, JOB_ENQUEUEABLE, ON_SESSION_CLOSE, ON_SESSION_OPEN, VerbOutcome
from pumice.framework.arguments import Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task

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
    persistent = True
    declared = (*SETTINGS, *PATHS)
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
        self._extender = None
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
            try:
                extender.ask(ON_SESSION_OPEN, ssn.state)
            except CallFailed as failure:
                outcome = extender.outcome(ON_SESSION_OPEN)
                if outcome is VerbOutcome.NO:
                    self._hold(ssn, extender, f"extender {self.name} could not be told of the session: {failure.text}")
                if outcome is not VerbOutcome.YES:
                    return
        register(ssn, extender)
        if extender.has(BIND):
            ssn.register_binder(self.name, self._binder(extender, caller))

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
        dialect = settings.dialect or ("volcano" if volcano else "documented")
        paths = tuple(sorted(settings.verbs.items()))
        key = (transport, paths, dialect, settings.names_only, volcano)
        memory = ssn.memory_of(self.name)
        kept: tuple[Any, Caller, QuestionWriter] | None = memory.get(_KEPT)
        if kept is None or kept[0] != key:
            if kept is not None:
                kept[1].close()
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

    def _hold(self, ssn: Session, extender: ExtenderSession, said: str) -> None:
        """No job that the extender manages is scheduled in this cycle; *said*: why not."""

        def job_valid(job: Job) -> Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if extender.tasks.holds(job) else PASS

        def job_enqueueable(job: Job) -> int | Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if extender.tasks.holds(job) else 0

        ssn.add_job_valid_fn(self.name, job_valid)
        if extender.has(JOB_ENQUEUEABLE):
            ssn.add_job_enqueueable_fn(self.name, job_enqueueable)


# -- binds ------------------------------------------------------------------------------------------------------------
class BindRefused(PumiceError):
    """The extender did not bind the pod."""

    def __init__(self, text: str, *, retryable: bool) -> None:
        super().__init__(text)
        self.retryable = retryable


class ExtenderBinder:
    """Binds pods through an extender. A bind may be sent twice, so the service must take the second as done.

    Where nobody knows whether a bind happened (a time-out, a lost connection), the cluster is asked with *read_back*
    (what was to be bound -> the node that the pod has, empty if none); without it the bind is simply sent once more.
    """

    def __init__(self, name: str, caller: Caller, writer: QuestionWriter, wants: Callable[[Task], bool]) -> None:
        self.name = name
        self.read_back: Callable[[Bind], str] | None = None
        self.caller, self._writer, self._wants = caller, writer, wants
        self._tasks: dict[str, bytes] = {}

    def wants(self, task: Task) -> bool:
        """Is the bind of *task* this binder's? If so, the task is remembered as it is now."""
        if not self._wants(task):
            return False
        self._tasks[task.uid] = bytes(self._writer.whole(task))
        return True

    def bind(self, intent: Bind) -> None:
        """Bind, or raise.

        :raises BindRefused: the extender said no (not retryable), or cannot be reached (retryable).
        """
        body = self._writer.bind(intent, self._tasks.pop(intent.uid, None))
        try:
            error = call(self.caller, BIND, body).error
        except CallFailed as failure:
            if failure.kind not in ("timeout", "reset"):
                raise BindRefused(f"pod {intent.pod}: {failure}", retryable=True) from failure
            error = self._again(intent, body)
        if error:
            text = f"pod {intent.pod}: the extender {self.name} refused to bind it: {error}"
            raise BindRefused(text, retryable=False)

    def _again(self, intent: Bind, body: bytes) -> str:
        """What became of a bind whose answer was lost."""
        if self.read_back is not None and self.read_back(intent) == intent.node:
            return ""
        try:
            return call(self.caller, BIND, body).error
        except CallFailed as failure:
            if self.read_back is not None and self.read_back(intent) == intent.node:
                return ""
            raise BindRefused(f"pod {intent.pod}: {failure}", retryable=True) from failure


def close_clients(memory: Mapping[str, Mapping[str, Any]]) -> None:
    """Close the connections that a runtime's memory holds; they are made anew when needed."""
    for entries in memory.values():
        kept = entries.get(_KEPT)
        if isinstance(kept, tuple) and len(kept) == 3:
            kept[1].close()


__all__ = ["CALLERS", "Extender", "ExtenderSettings", "close_clients"]
