"""What the objects of the volcano dialect have in common: amounts, and fields without a neutral name."""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

from pumice.extender.wire.amounts import tidy
from pumice.extender.wire.gojson import number, numbers
from pumice.extender.wire.gostructs import GoResource
from pumice.extender.wire.objects import Amounts, Json

Go = TypeVar("Go", bound=msgspec.Struct)


def amounts_of(resource: GoResource | None) -> Amounts | None:
    """The amounts of a resource; ``None`` if it is null."""
    if resource is None:
        return None
    named: Amounts = {"cpu": resource.MilliCPU, "memory": resource.Memory, **(resource.ScalarResources or {})}
    return {name: tidy(amount) for name, amount in named.items()}


def resource_of(amounts: Amounts, max_tasks: int = 0) -> GoResource:
    """Amounts as Go has them; without any scalar its map is nil."""
    scalars = numbers({name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")})
    return GoResource(
        MilliCPU=cast("int", number(amounts.get("cpu", 0))),
        Memory=cast("int", number(amounts.get("memory", 0))),
        ScalarResources=scalars or None,
        MaxTaskNum=max_tasks,
    )


def usual(thing: msgspec.Struct, *names: str) -> Json:
    """The fields *names* of a struct that has the usual values."""
    return {name: getattr(thing, name) for name in names}


def extra_of(go: msgspec.Struct, usual: Json) -> Json:
    """The fields of *go*, among those of *usual*, that differ from it."""
    return {name: msgspec.to_builtins(value) for name, known in usual.items() if (value := getattr(go, name)) != known}


def with_extra(go: Go, extra: Json) -> Go:
    """*go*, with *extra* written over its fields; names that it does not have are passed by."""
    for name, value in extra.items():
        if name in go.__struct_fields__:
            setattr(go, name, value)
    return go
