"""Exchanges as data: kept with a saved cycle, and answered from when it is run again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from pumice.extender.answers import Answer, of_value
from pumice.extender.asking.caller import CallFailed, Observation
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import PREEMPT, Verb

A = TypeVar("A", bound=Answer)


def exchange(extender: str, verb: Verb[Any], body: bytes, answer: Answer | CallFailed) -> dict[str, Any]:
    """One exchange as plain data: the question as it was sent, the answer in the documented dialect."""
    said: dict[str, Any] = {"extender": extender, "verb": verb.name, "request": msgspec.json.decode(body)}
    if isinstance(answer, CallFailed):
        return {**said, "failure": {"kind": answer.kind, "text": answer.text}}
    dialect = DIALECTS["kube" if verb is PREEMPT else "documented"]
    return {**said, "response": msgspec.json.decode(dialect.write_answer(verb, answer))}


class ReplayCaller:
    """Answers from exchanges: each question with what the same question was answered, in order.

    A question that was not asked then (another order of tasks, say) gets the next answer of its verb that is left.
    """

    spent = 0.0
    circuit = "closed"

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._exact: dict[tuple[str, bytes], deque[dict[str, Any]]] = {}
        self._left: dict[str, list[dict[str, Any]]] = {}
        for one in exchanges:
            self._exact.setdefault((one["verb"], canonical(one["request"])), deque()).append(one)
            self._left.setdefault(one["verb"], []).append(one)

    def observed(self) -> list[Observation]:
        """Nothing is measured."""
        return []

    def call_many(self, verb: Verb[A], bodies: Sequence[bytes], deadline: float | None = None) -> list[A | CallFailed]:
        """See `Caller.call_many`."""
        return [self._one(verb, body) for body in bodies]

    def _one(self, verb: Verb[A], body: bytes) -> A | CallFailed:
        left = self._left.get(verb.name, [])
        known = self._exact.get((verb.name, canonical(msgspec.json.decode(body))))
        if known:
            one = known.popleft() if len(known) > 1 else known[0]
            left[:] = [other for other in left if other is not one]
        elif left:
            one = left.pop(0)
        else:
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
        """What answers for an extender."""
        return ReplayCaller(self._by_name.get(name, ()))


def canonical(value: Any) -> bytes:
    """JSON data as bytes in which the order of keys does not count."""
    return msgspec.json.encode(value, order="sorted")
