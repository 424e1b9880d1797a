"""Questions of any thread, for the one thread that owns the state."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from pumice.errors import PumiceError

A = TypeVar("A")
T = TypeVar("T")
MOST: Final = 200
"""Questions that may be open; more are refused."""


class NoAnswer(PumiceError):
    """No answer can be had here now; says why."""


class QuestionQueue(Generic[A]):
    """Open questions to an object of class A, in order. *wake*: called when one comes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._open: deque[tuple[Callable[[A], Any], Future[Any]]] = deque()
        self._wake = wake
        self.closed = ""
        """Why no question is taken any more."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def __call__(self, question: Callable[[A], T], /) -> Future[T]:
        """Return the answer, which comes later.

        :raises NoAnswer: too many questions are open, or the queue is closed.
        """
        if self.closed or len(self._open) >= MOST:
            raise NoAnswer(self.closed or f"{MOST} questions wait already")
        answer: Future[T] = Future()
        self._open.append((question, answer))
        self._wake()
        return answer

    def answer(self, answers: A, seconds: float = math.inf) -> None:
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
