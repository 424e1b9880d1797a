"""What can be supposed: other queues, more nodes, nodes drained, another conf. One form for everybody who asks."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from pumice.errors import InvalidInput, decoder_words, shown

Quantities: TypeAlias = Annotated[
    dict[str, str | float | None], Meta(max_length=64, description="resource -> amount; null: no longer named")
]
"""Resource -> amount, as a manifest writes it; null: no longer named."""
ObjectName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253)]


class QueueChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is otherwise in a queue; what is not said stays."""

    weight: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    deserved: Quantities = {}
    guarantee: Quantities = {}
    capability: Quantities = {}
    priority: Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)] | None = None
    reclaimable: bool | None = None


class MoreNodes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Empty nodes, like one that there is."""

    like: ObjectName
    count: Annotated[int, Meta(ge=1, le=1000)] = 1


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is supposed, and of which job it is told in any case."""

    queues: Annotated[
        dict[ObjectName, QueueChange], Meta(max_length=200, description="queue -> what is otherwise in it")
    ] = {}
    more: Annotated[list[MoreNodes], Meta(max_length=20, description="empty nodes that come")] = []
    drained: Annotated[
        list[ObjectName],
        Meta(max_length=200, description="nodes that take no pods any more; our pods there are placed anew"),
    ] = []
    conf: Annotated[
        str, Meta(max_length=65_536, description="another scheduler conf, as YAML; nothing: the one that decides")
    ] = ""
    job: Annotated[str, Meta(max_length=512, description="namespace/name of a job that is told of in any case")] = ""

    def check(self) -> None:
        """See that something is supposed.

        :raises InvalidInput: nothing is.
        """
        if not (self.queues or self.more or self.drained or self.conf.strip()):
            raise InvalidInput("nothing is supposed: name a queue, more nodes, a node to drain or another conf")


def read_what_if(data: object) -> WhatIf:
    """What is supposed, from plain data.

    :raises InvalidInput: it breaks a rule; says which.
    """
    try:
        asked = msgspec.convert(data, WhatIf)
    except msgspec.ValidationError as exc:
        raise InvalidInput(f"what is supposed: {_blamed(data, exc)}") from exc
    asked.check()
    return asked


def _blamed(data: object, exc: msgspec.ValidationError) -> str:
    """What breaks a rule: whose it is, its value, and the rule."""
    queues = data.get("queues") if isinstance(data, dict) else None
    for name, change in queues.items() if isinstance(queues, dict) else ():
        for field, value in change.items() if isinstance(change, dict) else ():
            try:
                msgspec.convert({field: value}, QueueChange)
            except msgspec.ValidationError as wrong:
                return f"queue {name!r}: {field} {shown(value)}: {decoder_words(wrong).removeprefix(f'{field}: ')}"
    return decoder_words(exc)
