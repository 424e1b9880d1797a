"""What the plugin needs of the network, and nothing more: ask, and be told what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from pumice.errors import PumiceError
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.verbs import Verb

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)


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

    def call(self, verb: Verb[Req, Resp], body: bytes, deadline: float | None = None) -> Resp:
        """The answer to one question, within *deadline* seconds (``None``: the service's own limit).

        :raises CallFailed: there is no usable answer.
        """

    def call_many(
        self, verb: Verb[Req, Resp], bodies: Sequence[bytes], deadline: float | None = None
    ) -> list[Resp | CallFailed]:
        """The answers to many questions, in their order; they are on their way at the same time."""
