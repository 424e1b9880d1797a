"""What the plugin needs of the network, and nothing more: ask, and be told what went wrong; or ask a recording."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from pumice.errors import PumiceError, without_passwords
from pumice.extender.answers import Answer, of_value
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import PREEMPT, Verb

A = TypeVar("A", bound=Answer)
X = TypeVar("X")
Body = bytes | Sequence[bytes]
"""A question as it is sent, in pieces where it may be large."""


class CallFailed(PumiceError):
    """A call brought no usable answer. The message says which extender, which verb, and why.

    *kind* is one word for metrics: ``refused``, ``timeout``, ``reset``, ``status``, ``answer``, ``large``, ``tls``,
    ``breaker``, ``budget`` or ``request``.
    """

    retryable = True

    def __init__(self, verb: str, kind: str, text: str) -> None:
        text = without_passwords(text)
        super().__init__(f"extender {verb}: {text}")
        self.verb, self.kind, self.text = verb, kind, text


class Observation(NamedTuple):
    """One call: how long it took and how it ended (``ok``, or the kind of failure)."""

    verb: str
    seconds: float
    outcome: str


class Caller:
    """Carries questions to one service. Bodies are ready to be sent; answers are read in any dialect."""

    spent = 0.0
    """Seconds spent waiting for answers, in all."""

    def observed(self) -> list[Observation]:
        """The calls since this was last asked."""
        return []

    @property
    def circuit(self) -> str:
        """``closed`` (calls go out), ``open`` (none does) or ``half-open`` (one may try)."""
        return "closed"

    def call_many(self, verb: Verb[A], bodies: Sequence[Body], deadline: float | None = None) -> list[A | CallFailed]:
        """The answers to many questions, in their order; they are on their way at the same time.

        *deadline*: seconds for all of them (``None``: the service's own limit for each).
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections, if there are any."""


def call(caller: Caller, verb: Verb[A], body: Body, deadline: float | None = None) -> A:
    """The answer to one question.

    :raises CallFailed: there is no usable answer.
    """
    answer = caller.call_many(verb, [body], deadline)[0]
    if isinstance(answer, CallFailed):
        raise answer
    return answer


# -- exchanges as data: kept with a saved cycle, and answered from when it is run again ------------------------------
def whole(body: Body) -> bytes:
    """A question in one piece."""
    return body if isinstance(body, bytes) else b"".join(body)


def exchange(extender: str, verb: Verb[Any], body: Body, answer: Answer | CallFailed) -> dict[str, Any]:
    """One exchange as plain data: the question as it was sent, the answer in the documented dialect."""
    said: dict[str, Any] = {"extender": extender, "verb": verb.name, "request": msgspec.json.decode(whole(body))}
    if isinstance(answer, CallFailed):
        return {**said, "failure": {"kind": answer.kind, "text": answer.text}}
    dialect = DIALECTS["kube" if verb is PREEMPT else "documented"]
    return {**said, "response": msgspec.json.decode(dialect.write_answer(verb, answer))}


class Recording(Generic[X]):
    """Exchanges by what was asked: the same question gets the answers that it got, in order, the last again and again.

    *loose*: one that was not asked then (another order of tasks, say) gets the next answer to the same verb or path.
    *once*: but only one that was not given yet.
    """

    def __init__(self, *, loose: bool, once: bool = False) -> None:
        self._loose, self._once = loose, once
        self._exact: dict[tuple[str, bytes], deque[X]] = {}
        self._left: dict[str, list[X]] = {}

    def add(self, what: str, question: bytes, exchange: X) -> None:
        """One more exchange, after those that are there."""
        self._exact.setdefault((what, canonical(question)), deque()).append(exchange)
        self._left.setdefault(what, []).append(exchange)

    def answer(self, what: str, question: bytes) -> X | None:
        """What was answered, or None."""
        left = self._left.get(what, [])
        known = self._exact.get((what, canonical(question)))
        if known:
            one = known.popleft() if len(known) > 1 else known[0]
            if self._once:
                left[:] = [other for other in left if other is not one]
            return one
        if not (self._loose and left):
            return None
        return left.pop(0) if self._once or len(left) > 1 else left[0]


class ReplayCaller(Caller):
    """Answers from the exchanges of a saved cycle."""

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._known: Recording[dict[str, Any]] = Recording(loose=True, once=True)
        for one in exchanges:
            self._known.add(one["verb"], msgspec.json.encode(one["request"]), one)

    def call_many(self, verb: Verb[A], bodies: Sequence[Body], deadline: float | None = None) -> list[A | CallFailed]:
        return [self._one(verb, whole(body)) for body in bodies]

    def _one(self, verb: Verb[A], body: bytes) -> A | CallFailed:
        one = self._known.answer(verb.name, body)
        if one is None:
            return CallFailed(verb.name, "replay", "this question was not asked when the exchanges were recorded")
        if "failure" in one:
            return CallFailed(verb.name, one["failure"]["kind"], one["failure"]["text"])
        return of_value(verb.name, verb.answer, one["response"])


class ReplayCallers:
    """Extender name -> what answers for it; for ``plugin.CALLERS`` in a session's environment.

    Every name has one: an extender of which nothing was recorded gets no connection, its calls fail.
    """

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._by_name: dict[str, list[dict[str, Any]]] = {}
        for one in exchanges:
            self._by_name.setdefault(one["extender"], []).append(one)

    def get(self, name: str) -> ReplayCaller:
        return ReplayCaller(self._by_name.get(name, ()))


def canonical(body: bytes) -> bytes:
    """JSON in which the order of keys does not count; what is no JSON as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
