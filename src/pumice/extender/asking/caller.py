"""What the plugin needs of the network, and nothing more: ask, and be told what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from pumice.errors import PumiceError
from pumice.extender.answers import Answer
from pumice.extender.protocol import Verb

A = TypeVar("A", bound=Answer)


class CallFailed(PumiceError):
    """A call brought no usable answer. The message says which extender, which verb, and why.

    *kind* is one word for metrics: ``refused``, ``timeout``, ``reset``, ``status``, ``answer``, ``large``, ``tls``,
    ``breaker``, ``budget`` or ``request``.
    """

    retryable = True

    def __init__(self, verb: str, kind: str, text: str) -> None:
        super().__init__(f"extender {verb}: {text}")
        self.verb, self.kind, self.text = verb, kind, text


class Observation(NamedTuple):
    """One call: how long it took and how it ended (``ok``, or the kind of failure)."""

    verb: str
    seconds: float
    outcome: str


class Caller(Protocol):
    """Carries questions to one service. Bodies are ready to be sent; answers are read in any dialect."""

    @property
    def spent(self) -> float:
        """Seconds spent waiting for answers, in all."""

    def observed(self) -> list[Observation]:
        """The calls since this was last asked."""

    @property
    def circuit(self) -> str:
        """``closed`` (calls go out), ``open`` (none does) or ``half-open`` (one may try)."""

    def call_many(self, verb: Verb[A], bodies: Sequence[bytes], deadline: float | None = None) -> list[A | CallFailed]:
        """The answers to many questions, in their order; they are on their way at the same time.

        *deadline*: seconds for all of them (``None``: the service's own limit for each).
        """


def call(caller: Caller, verb: Verb[A], body: bytes, deadline: float | None = None) -> A:
    """The answer to one question.

    :raises CallFailed: there is no usable answer.
    """
    answer = caller.call_many(verb, [body], deadline)[0]
    if isinstance(answer, CallFailed):
        raise answer
    return answer


def close(caller: Any) -> None:
    """Close the connections of a caller that has any."""
    closing = getattr(caller, "close", None)
    if closing is not None:
        closing()
