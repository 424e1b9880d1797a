"""The bind of a pod, delegated to an extender."""

from __future__ import annotations

from collections.abc import Callable

from pumice.errors import PumiceError
from pumice.extender.port import Caller, CallFailed
from pumice.extender.translate import wire_task
from pumice.extender.wire.messages import BindRequest
from pumice.extender.wire.objects import WireNode, WireTask
from pumice.extender.wire.verbs import BIND
from pumice.extender.writing import Writer
from pumice.model.intents import Bind
from pumice.model.task import Task


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

    def __init__(self, name: str, caller: Caller, writer: Writer, wants: Callable[[Task], bool]) -> None:
        self.name = name
        self.read_back: Callable[[Bind], str] | None = None
        self.caller, self._writer, self._wants = caller, writer, wants
        self._tasks: dict[str, WireTask] = {}

    def wants(self, task: Task) -> bool:
        """Is the bind of *task* this binder's? If so, the task is remembered as it is now."""
        if not self._wants(task):
            return False
        self._tasks[task.uid] = wire_task(task)
        return True

    def bind(self, intent: Bind) -> None:
        """Bind, or raise.

        :raises BindRefused: the extender said no (not retryable), or cannot be reached (retryable).
        """
        namespace, _, name = intent.pod.rpartition("/")
        task = self._tasks.pop(intent.uid, None) or WireTask(uid=intent.uid, namespace=namespace, name=name)
        body = self._writer.request(BIND, BindRequest(task=task, node=WireNode(name=intent.node)))
        try:
            error = self.caller.call(BIND, body).error
        except CallFailed as failure:
            if failure.kind not in ("timeout", "reset"):
                raise BindRefused(f"pod {intent.pod}: {failure}", retryable=True) from failure
            error = self._again(intent, body)
        if error:
            raise BindRefused(
                f"pod {intent.pod}: the extender {self.name} refused to bind it: {error}", retryable=False
            )

    def _again(self, intent: Bind, body: bytes) -> str:
        """What became of a bind whose answer was lost."""
        if self.read_back is not None and self.read_back(intent) == intent.node:
            return ""
        try:
            return self.caller.call(BIND, body).error
        except CallFailed as failure:
            if self.read_back is not None and self.read_back(intent) == intent.node:
                return ""
            raise BindRefused(f"pod {intent.pod}: {failure}", retryable=True) from failure
