"""Questions of any thread, for the one thread that owns the state."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pumice.errors import PumiceError

if TYPE_CHECKING:
    from pumice.answers.service import Answers

T = TypeVar("T")
MOST: Final = 200
"""Questions that may be open; more are refused."""


class AskOwner(Protocol):
    """Puts a question to the thread that owns the state; a `PumiceError` says why there is no answer."""

    def __call__(self, question: Callable[[Answers], T], /) -> Future[T]: ...


class NoAnswer(PumiceError):
    """No answer can be had here now; says why."""


class QuestionQueue:
    """Open questions, in order. *wake*: called when one comes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._open: deque[tuple[Callable[[Answers], Any], Future[Any]]] = deque()
        self._wake = wake
        self.closed = ""
        """Why no question is taken any more."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def __call__(self, question: Callable[[Answers], T], /) -> Future[T]:
        """Return the answer, which comes later.

        :raises NoAnswer: too many questions are open, or the queue is closed.
        """
        if self.closed or len(self._open) >= MOST:
            raise NoAnswer(self.closed or f"{MOST} questions wait already")
        answer: Future[T] = Future()
        self._open.append((question, answer))
        self._wake()
        return answer

    def answer(self, answers: Answers, seconds: float = math.inf) -> None:
        """Answer open questions, in order, for at most so long; the rest waits for the next call."""
        until = time.monotonic() + seconds
        while self._open and time.monotonic() < until:
            question, answer = self._open.popleft()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(question(answers))
            except Exception as exc:
                answer.set_exception(exc)
        if self._open:
            self._wake()

    def refuse(self, why: str) -> None:
        """Tell all open questions that there is no answer."""
        while self._open:
            _, answer = self._open.popleft()
            if answer.set_running_or_notify_cancel():
                answer.set_exception(NoAnswer(why))
