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
EVERY: Final = 5
"""A user gets one answer in so many turns; on a scheduler a turn is a cycle. Its time is for scheduling."""
MOST: Final = 200
"""Questions that may be open; more are refused."""


class NoAnswer(PumiceError):
    """No answer can be had here now; says why."""


class QuestionQueue(Generic[A]):
    """Open questions to an object of class A, in order. *wake*: called when one comes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._open: deque[tuple[Callable[[A], Any], Future[Any], str]] = deque()
        self._turn = 0
        self._served: dict[str, int] = {}
        """User -> the turn in which a question of his was answered last."""
        self._wake = wake
        self.closed = ""
        """Why no question is taken any more."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def __call__(self, question: Callable[[A], T], /, who: str = "") -> Future[T]:
        """Return the answer, which comes later. Of one user, *who*, one question is answered in `EVERY` turns.

        :raises NoAnswer: too many questions are open, or the queue is closed.
        """
        if self.closed or len(self._open) >= MOST:
            raise NoAnswer(self.closed or f"{MOST} questions wait already")
        answer: Future[T] = Future()
        self._open.append((question, answer, who))
        self._wake()
        return answer

    def answer(self, answers: A, seconds: float = math.inf) -> None:
        """Answer open questions, in order, for at most so long; the rest waits for the next call, the next turn."""
        until = time.monotonic() + seconds
        self._turn += 1
        self._served = {who: turn for who, turn in self._served.items() if self._turn - turn < EVERY}
        for _ in range(len(self._open)):
            if time.monotonic() >= until:
                break
            question, answer, who = self._open.popleft()
            if who in self._served:
                self._open.append((question, answer, who))
                continue
            if not answer.set_running_or_notify_cancel():
                continue
            if who:
                self._served[who] = self._turn
            try:
                answer.set_result(question(answers))
            except Exception as exc:
                answer.set_exception(exc)
        if self._open:
            self._wake()

    def refuse(self, why: str) -> None:
        """Tell all open questions that there is no answer."""
        while self._open:
            _, answer, _ = self._open.popleft()
            if answer.set_running_or_notify_cancel():
                answer.set_exception(NoAnswer(why))
