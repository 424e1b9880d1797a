"""The bind of a pod, delegated to an extender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pumice.errors import PumiceError
from pumice.extender.asking.caller import Caller, CallFailed, call
from pumice.extender.asking.writer import QuestionWriter
from pumice.extender.protocol import BIND
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task

WAITS: Final = (2.0, 60.0)
"""Seconds for which a task is not placed whose bind was refused: at first, and at most; they double."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after which a refusal that no other followed is forgotten."""


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
        self.refused: dict[str, str] = {}
        """What was refused since a session last looked: UID -> why."""

    def wants(self, task: Task) -> bool:
        """Is the bind of *task* this binder's? If so, the task is remembered as it is now."""
        if not self._wants(task):
            return False
        self._tasks[task.uid] = self._writer.whole_task(task)
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
            said = f"the extender {self.name} refused to bind it: {error}"
            self.refused[intent.uid] = said
            raise BindRefused(f"pod {intent.pod}: {said}", retryable=False)

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


class RefusedBinds:
    """Tasks whose bind was refused wait before they are placed again, longer each time."""

    def __init__(self, memory: dict[str, Any], fresh: dict[str, str], now: float) -> None:
        """*memory*: what the plugin keeps between sessions. *fresh*: refused since the last session; is emptied."""
        self._now = now
        known: dict[str, list[Any]] = memory.get("refused", {})
        self._known = {uid: one for uid, one in known.items() if now - one[0] < FORGOTTEN_AFTER}
        while fresh:
            uid, text = fresh.popitem()
            before = self._known.get(uid)
            wait = WAITS[0] if before is None else min(2 * before[1], WAITS[1])
            self._known[uid] = [now + wait, wait, text]
        memory["refused"] = self._known

    def __bool__(self) -> bool:
        return any(until > self._now for until, _, _ in self._known.values())

    def pre_predicate(self, task: Task) -> Verdict:
        """Refuse a task that still waits, with what the extender said."""
        known = self._known.get(task.uid)
        if known is None or known[0] <= self._now:
            return PASS
        return reject(f"{known[2]} (tried again in {known[0] - self._now:.0f} s)", ReasonCode.EXTENDER_UNAVAILABLE)
