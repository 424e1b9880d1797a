"""The form of a what-if: queues as they are set, to be changed; what is changed becomes the question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pumice.answers.survey import QueueSetting
from pumice.answers.what_if.supposition import WhatIf, read_what_if
from pumice.errors import InvalidInput

MOST_QUEUES: Final = 60
"""Queues that the form shows."""
AMOUNTS: Final = ("deserved", "capability")
_NAMES: Final = re.compile(r"[\s,;]+")


class QueueFields(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in the form: what stands in its fields."""

    queue: str
    weight: str
    deserved: str
    capability: str


class SupposedForm(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the form."""

    queues: list[QueueFields]
    hidden: int
    """Queues that it has no room for."""
    many: str = "1"
    like: str = ""
    drained: str = ""
    conf: str = ""
    job: str = ""


def form_of(settings: Iterable[QueueSetting], given: Mapping[str, str]) -> SupposedForm:
    """The form, with what somebody typed, else with what is set."""
    listed = list(settings)
    rows = [
        QueueFields(
            queue=one.queue,
            weight=given.get(f"weight:{one.queue}", str(one.weight)),
            deserved=given.get(f"deserved:{one.queue}", written(one.deserved)),
            capability=given.get(f"capability:{one.queue}", written(one.capability)),
        )
        for one in listed[:MOST_QUEUES]
    ]
    known = {name: given[name] for name in ("many", "like", "drained", "conf", "job") if name in given}
    return SupposedForm(queues=rows, hidden=len(listed) - len(rows), **known)


def asked_in(form: SupposedForm, settings: Iterable[QueueSetting]) -> WhatIf:
    """The question that a form puts: what stands in it otherwise than it is set.

    :raises InvalidInput: something cannot be read, or nothing is otherwise.
    """
    known = {one.queue: one for one in settings}
    queues: dict[str, Any] = {}
    for row in form.queues:
        change = _changed(row, known[row.queue])
        if change:
            queues[row.queue] = change
    more = [{"like": form.like.strip(), "count": _whole(form.many, "nodes")}] if form.like.strip() else []
    drained = [name for name in _NAMES.split(form.drained) if name]
    return read_what_if(
        {"queues": queues, "more": more, "drained": drained, "conf": form.conf, "job": form.job.strip()}
    )


def _changed(row: QueueFields, setting: QueueSetting) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if row.weight.strip() != str(setting.weight):
        found["weight"] = _whole(row.weight, f"weight of {row.queue}")
    for field in AMOUNTS:
        was = _read(written(getattr(setting, field)), field)
        now: dict[str, str | None] = {**_read(getattr(row, field), f"{field} of {row.queue}")}
        changed = {name: now.get(name) for name in (*was, *now) if now.get(name) != was.get(name)}
        if changed:
            found[field] = changed
    return found


def written(amounts: Mapping[str, str]) -> str:
    """Amounts as the form shows them."""
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _read(text: str, what: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in text.replace("\n", ",").split(","))):
        name, _, amount = part.replace("=", " ").replace(":", " ").partition(" ")
        if not amount.strip():
            raise InvalidInput(f"{what}: {part!r}: must be a resource and an amount, as in: cpu 64, nvidia.com/gpu 8")
        found[name] = amount.strip()
    return found


def _whole(text: str, what: str) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and len(plain) < 8):
        raise InvalidInput(f"{what}: {plain!r}: must be a whole number")
    return int(plain)
