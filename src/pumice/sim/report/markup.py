"""HTML and SVG as text, with everything escaped that was not made here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import msgspec

_VOID = frozenset({"br", "hr", "img", "meta", "path", "line", "rect", "circle", "polyline"})


class Markup(str):
    """Text that is markup already; a plain ``str`` is escaped wherever it is put in."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Return an element. ``class_`` is class, ``data_tip`` is data-tip; attributes of None or False are left out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    opened = "".join(parts)
    if name in _VOID:
        return Markup(f"{opened}/>")
    return Markup(f"{opened}>{join(children)}</{name}>")


def join(children: Iterable[str], between: str = "") -> Markup:
    """Return the children one after the other, those that are not markup escaped."""
    return Markup(
        between.join(child if isinstance(child, Markup) else escape(child, quote=False) for child in children)
    )


def data(content: object, **attributes: str) -> Markup:
    """Return *content* as JSON in a script element that is never run."""
    text = msgspec.json.encode(content).decode().replace("<", "\\u003c")  # "</script>" must not end it
    return tag("script", Markup(text), type="application/json", **attributes)
