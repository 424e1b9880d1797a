"""Exchanges as data: kept with a saved cycle, and answered from when it is run again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from pumice.extender.port import CallFailed, Observation
from pumice.extender.wire import answers, documented, kube
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.verbs import PREEMPT, Verb

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)


def exchange(extender: str, verb: Verb[Any, Any], body: bytes, answer: Wire | CallFailed) -> dict[str, Any]:
    """One exchange as plain data: the question as it was sent, the answer in the documented dialect."""
    said: dict[str, Any] = {"extender": extender, "verb": verb.name, "request": msgspec.json.decode(body)}
    if isinstance(answer, CallFailed):
        return {**said, "failure": {"kind": answer.kind, "text": answer.text}}
    dialect = kube if verb is PREEMPT else documented
    return {**said, "response": msgspec.json.decode(dialect.encode_response(verb, answer))}


class ReplayCaller:
    """Answers from exchanges, each question with what the same question was answered, in order."""

    spent = 0.0
    circuit = "closed"

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._known: dict[tuple[str, bytes], deque[dict[str, Any]]] = {}
        for one in exchanges:
            self._known.setdefault((one["verb"], canonical(one["request"])), deque()).append(one)

    def observed(self) -> list[Observation]:
        """Nothing is measured."""
        return []

    def call(self, verb: Verb[Req, Resp], body: bytes, deadline: float | None = None) -> Resp:
        """See `Caller.call`."""
        answer = self._one(verb, body)
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    def call_many(
        self, verb: Verb[Req, Resp], bodies: Sequence[bytes], deadline: float | None = None
    ) -> list[Resp | CallFailed]:
        """See `Caller.call_many`."""
        return [self._one(verb, body) for body in bodies]

    def _one(self, verb: Verb[Req, Resp], body: bytes) -> Resp | CallFailed:
        known = self._known.get((verb.name, canonical(msgspec.json.decode(body))))
        if not known:
            return CallFailed(verb.name, "replay", "this question was not asked when the exchanges were recorded")
        one = known.popleft() if len(known) > 1 else known[0]
        if "failure" in one:
            return CallFailed(verb.name, one["failure"]["kind"], one["failure"]["text"])
        return answers.decode_value(verb, one["response"])


def replay_callers(exchanges: Sequence[dict[str, Any]]) -> dict[str, ReplayCaller]:
    """Extender name -> what answers for it; for ``plugin.CALLERS`` in a session's environment."""
    names = dict.fromkeys(one["extender"] for one in exchanges)
    return {name: ReplayCaller([one for one in exchanges if one["extender"] == name]) for name in names}


def canonical(value: Any) -> bytes:
    """JSON data as bytes in which the order of keys does not count."""
    return msgspec.json.encode(value, order="sorted")
