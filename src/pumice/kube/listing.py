"""Lists into objects."""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from pumice.errors import decoder_words
from pumice.kube.kinds import BOOKMARK, DECODERS, LISTS, RAW_LIST, Resource
from pumice.model.api import AnyObject

log = logging.getLogger("pumice.kube")


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
