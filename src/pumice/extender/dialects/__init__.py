"""How questions and answers look on the wire: three dialects, and the reader of questions in any of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from pumice.errors import decoder_words
from pumice.extender import protocol as p
from pumice.extender.dialects.dialect import MESSAGE, Encoded, Message, items
from pumice.extender.dialects.dialect import Dialect as Dialect
from pumice.extender.dialects.kube import Kube
from pumice.extender.dialects.volcano import Volcano
from pumice.extender.gojson import WireError, check_depth, read
from pumice.extender.protocol import NODES, TASK, PartKind, Verb

DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in (Dialect(), Volcano(), Kube())}
"""Every dialect by its name."""

_OBJECT: Final[msgspec.json.Decoder[dict[str, msgspec.Raw] | None]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw] | None
)
_KUBE: Final = frozenset({"pod", "podname"})
_GO: Final = frozenset({"UID", "Name", "Namespace", "Job", "Jobs", "Nodes", "Queues", "NamespaceInfo", "Pod", "Node"})
_LOWER: Final = frozenset({"uid", "name", "namespace", "snapshot"})
_PARTS: Final = ("task", "evictor", "job", "queue", "node", "tasks", "jobs", "queues", "nodes")


def dialect_of(verb: Verb[Any], message: Message) -> str:
    """The name of a message's dialect; nothing where nothing tells, as in an empty message.

    Volcano's objects have a ``Name`` or ``UID``, documented ones a ``name`` or ``uid``; kube-scheduler names a ``Pod``.
    Only names are looked at.
    """
    if any(name.casefold() in _KUBE for name in message):
        return "kube"
    part = next((message[name] for name in _PARTS if name in message), None)
    names = set(message if part is None else _names(verb, part))
    if names & _GO:
        return "volcano"
    return "documented" if names & _LOWER else ""


def _names(verb: Verb[Any], part: Any) -> list[str]:
    """The names in an object, or in the first object of a list; none in an empty list or null."""
    try:
        if isinstance(part, list) or bytes(part).startswith(b"["):
            part = next(iter(items(part)), b"null")
        return list(_OBJECT.decode(part) or ())
    except msgspec.DecodeError as error:
        raise WireError(verb.name, f"request: {decoder_words(error)}") from error


# -- questions --------------------------------------------------------------------------------------------------------
_KEPT: Final = 64 * 2**20
"""Bytes of objects that are kept, in all."""
_LARGEST: Final = 256 * 1024
"""Bytes of one object that is kept."""
_LONGEST: Final = 16 * 2**20
"""Bytes of a question whose nodes are looked for in the next one."""
_TOGETHER: Final = 32
"""So many of them are looked for at once."""
_NODES: Final = b',"%b":[' % NODES.name.encode()
_EMPTY: Final = frozenset((b"", b"null"))


class VerbQuestion(NamedTuple):
    """A question that was read: its verb, its dialect, what it tells by the name of each part, and as it came."""

    verb: Verb[Any]
    dialect: Dialect
    parts: dict[str, Any]
    message: Message

    def echo(self) -> list[msgspec.Raw] | None:
        """The last part as it came, where the caller wants it back."""
        return self.dialect.echo(self.verb, self.message)


class QuestionReader:
    """Turns bodies into questions. Equal parts of questions give the same object, so that nobody need compare them."""

    def __init__(self, dialect: str = "") -> None:
        """*dialect*: the only one understood; empty: all."""
        self._only = DIALECTS[dialect] if dialect else None
        self._known: dict[tuple[str, PartKind, bytes], Any] = {}
        self._last: tuple[bytes, VerbQuestion | None] = (b"", None)
        """The last question, and what stands before its last part: a task is asked about with many nodes in a row."""
        self._nodes: list[tuple[bytes, list[bytes]]] = []
        """The nodes of the last question about many as they came, some together: most of them come again."""
        self._size = 0

    def read(self, verb: Verb[Any], body: bytes) -> VerbQuestion:
        """The question in *body*.

        kube-scheduler's filter may come where a predicate is expected; then the verb is that of many nodes.

        :raises WireError: not JSON, nested too deep, a part missing or of the wrong type, or a verb not carried.
        """
        begun, last = self._last
        if last is not None and last.verb is verb and body.startswith(begun) and body.endswith(b"}"):
            part, raw = verb.parts[-1], body[len(begun) : -1]
            known = self._known.get((last.dialect.name, part.kind, raw))
            if known is not None:  # it is a whole value, so that nothing else can stand here
                return VerbQuestion(verb, last.dialect, {**last.parts, part.name: known}, {})
        if verb is p.ON_SESSION_CLOSE and body.strip() in _EMPTY:
            body = b"{}"
        about_nodes = verb.parts[-1:] == (NODES,)
        message: Message = (self._split(body) if about_nodes else None) or {}
        if not message:
            try:
                message.update(MESSAGE.decode(body))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                first = read(verb.name, "request", body, MESSAGE)  # says what is wrong, or finds the first value
                message.update(first)
        found = dialect_of(verb, message)
        dialect = self._only or DIALECTS[found or "documented"]
        if found and found != dialect.name:
            raise WireError(verb.name, f"request: in the {found} dialect, and only {dialect.name} is understood here")
        if dialect.name == "kube" and verb is p.PREDICATE:
            verb = p.BATCH_PREDICATE
        if verb is p.ON_SESSION_OPEN:
            return VerbQuestion(verb, dialect, {"snapshot": dialect.read_snapshot(body)}, {})
        if about_nodes and dialect.name != "kube":
            with suppress(msgspec.DecodeError):  # what is wrong is said below
                nodes = message[NODES.name] = [bytes(one) for one in items(message.get(NODES.name))]
                some = [nodes[at : at + _TOGETHER] for at in range(0, len(nodes), _TOGETHER)]
                self._nodes = [(b",".join(few), few) for few in some] if len(body) < _LONGEST else []
        question = VerbQuestion(verb, dialect, dialect.read(verb, message, self.known), message)
        if dialect.name != "kube" and len(verb.parts) > 1 and not verb.parts[-1].many and len(body) < _LARGEST:
            name = verb.parts[-1].name
            begun = body.removesuffix(bytes(message.get(name, b"")) + b"}")
            if begun.rstrip().endswith(b'"%b":' % name.encode()):
                self._last = (begun, question)
        return question

    def _split(self, body: bytes) -> Message | None:
        """A question whose nodes nearly all stood in the last one, these one by one; None if it is not.

        Those that are known are recognised by their bytes, which are whole objects; what stands between is read.
        """
        last, k, nodes = self._nodes, 0, list[Encoded]()
        begin, end = body.find(_NODES), len(body) - 2
        if not last or begin < 0 or not body.endswith(b"]}"):
            return None
        at = begin + len(_NODES)
        try:
            message: Message = dict(MESSAGE.decode(body[:begin] + b"}"))  # so that a member of its own begins here
            while at < end:
                if k < len(last) and body.startswith(last[k][0], at):
                    nodes += last[k][1]
                    k, stop = k + 1, at + len(last[k][0])
                else:
                    found = ((j, body.find(b"," + last[j][0], at)) for j in range(k + 1, len(last)))
                    k, stop = next((one for one in found if one[1] > 0), (len(last), end))
                    nodes += items(b"[%b]" % body[at:stop])
                if stop != end and body[stop : stop + 1] != b",":
                    return None
                at = stop + 1
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return {**message, NODES.name: nodes} if at == end + 1 and message.keys() == {TASK.name} else None

    def known(self, dialect: Dialect, kind: PartKind, raw: Encoded) -> Any:
        """The data of a part; the same object for the same bytes.

        :raises WireError: nested too deep.
        :raises msgspec.DecodeError: not JSON, or a field of the wrong type.
        :raises InvalidInput: a value that breaks a rule.
        """
        body = bytes(raw)
        key = (dialect.name, kind, body)
        known = self._known.get(key)
        if known is None:
            check_depth(kind.value, "request", body)
            known = dialect.read_object(kind, body)
            if self._keeps(len(body)):
                self._known[key] = known
        return known

    def _keeps(self, size: int) -> bool:
        """Report whether that many more bytes may be kept. Everything is forgotten when there is no room."""
        if size > _LARGEST:
            return False
        self._size += size
        if self._size > _KEPT:
            self._known.clear()
            self._size = size
        return True
