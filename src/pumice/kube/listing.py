"""Lists into objects, at once or as they come: while a server still writes the end of one, its beginning is read."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import msgspec

from pumice.errors import decoder_words
from pumice.kube.kinds import BOOKMARK, DECODERS, LISTS, RAW_LIST, Resource
from pumice.model.api import AnyObject

log = logging.getLogger("pumice.kube")

_PIECE: Final = 2**20
"""Bytes from which on what came of a list is read."""
_ITEMS: Final = b'"items":['
_BETWEEN: Final = b'},{"metadata":{'
"""Between two objects of one list; not in a text, where the marks would be escaped. Within an object it may be too, but
a piece that ends there is no JSON."""


class ObjectList(NamedTuple):
    """What a list said: its version, and its objects without those that cannot be read."""

    version: str
    objects: list[AnyObject]


def read_list(resource: Resource, body: bytes) -> ObjectList:
    """A whole list. An object of which a field is wrong is left out, and told of.

    :raises msgspec.MsgspecError: it is no list.
    """
    try:
        found = LISTS[resource.form or resource.kind].decode(body)
        return ObjectList(found.metadata.resource_version, found.items or [])
    except msgspec.ValidationError:
        raw = RAW_LIST.decode(body)
        read = (read_object(resource, item) for item in raw.items or ())
        return ObjectList(raw.metadata.resource_version, [obj for obj in read if obj is not None])


def read_object(resource: Resource, raw: msgspec.Raw) -> AnyObject | None:
    """One object; None, and a word of it, where a field is wrong."""
    try:
        obj: AnyObject = DECODERS[resource.form or resource.kind].decode(raw)
    except msgspec.ValidationError as exc:
        meta = BOOKMARK.decode(raw).metadata
        log.warning("%s %s/%s is left out: %s", resource.kind, meta.namespace, meta.name, decoder_words(exc))
        return None
    return obj


class ListReader:
    """A list that comes in parts."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._head = b""
        """What stands before the first object."""
        self._rest = bytearray()
        self._objects: list[AnyObject] = []
        self._whole = False
        """It cannot be read in pieces."""

    def feed(self, data: bytes) -> None:
        """Some more came."""
        self._rest += data
        if len(self._rest) < _PIECE or self._whole:
            return
        if not self._head:
            begin = self._rest.find(_ITEMS) + len(_ITEMS)
            self._whole = begin < len(_ITEMS)
            self._head = bytes(self._rest[:begin])
            del self._rest[:begin]
        end = self._rest.rfind(_BETWEEN) + 1
        if end:
            self._read(end)

    def _read(self, end: int) -> None:
        try:
            self._objects += read_list(self._resource, b'{"metadata":{},"items":[' + self._rest[:end] + b"]}").objects
            del self._rest[: end + 1]
        except msgspec.DecodeError:
            self._whole = True

    def end(self) -> ObjectList:
        """All of it came.

        :raises msgspec.MsgspecError: it is no list.
        """
        last = read_list(self._resource, self._head + self._rest)
        return ObjectList(last.version, self._objects + last.objects)
