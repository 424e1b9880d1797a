"""Every dialect by its name, and what a dialect promises."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

from pumice.extender.wire import both, documented, kube, volcano
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.verbs import Verb

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)


class Dialect(Protocol):
    """How messages look on the wire. Each of ``documented``, ``volcano``, ``kube`` and ``both`` is one."""

    @property
    def name(self) -> str:
        """The name under which it is known."""

    @property
    def verbs(self) -> frozenset[Verb[Any, Any]]:
        """What can be said in it; for any other verb the functions raise ``WireError``."""

    def encode_request(self, verb: Verb[Req, Resp], request: Req) -> bytes:
        """The body of a question.

        :raises WireError: something in it cannot be said, such as a number that is none.
        """

    def decode_request(self, verb: Verb[Req, Resp], body: bytes) -> Req:
        """The question in *body*; what this dialect has no field for is as ``objects`` says.

        :raises WireError: *body* is not JSON, is nested too deep, or a field has the wrong type.
        """

    def encode_response(self, verb: Verb[Req, Resp], response: Resp) -> bytes:
        """The body of an answer.

        :raises WireError: as ``encode_request``.
        """

    def decode_response(self, verb: Verb[Req, Resp], body: bytes) -> Resp:
        """The answer in *body*, whatever dialect it is in (see ``answers``).

        :raises WireError: as ``decode_request``, or *body* is larger than ``reading.MAX_BODY``.
        """


DIALECTS: Final[dict[str, Dialect]] = {
    "documented": documented,
    "volcano": volcano,
    "kube": kube,
    "both": both,
}
