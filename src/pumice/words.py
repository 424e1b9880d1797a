"""Names and numbers as people read them: cut where long, told apart where alike, every sign visible."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

SHORTEST: Final = 8
"""A label is not cut to fewer characters than this."""


OBEYED: Final = frozenset({*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {9, 10})
"""Signs that tell a terminal to do something, or to write the other way round; tabs and ends of lines are none."""
_WRITTEN: Final = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in OBEYED}


def visible(text: str) -> str:
    """A text from anybody, harmless on a terminal: signs that would be obeyed are written out, ``\\x1b``."""
    return text if text.isprintable() else text.translate(_WRITTEN)


def middle(text: str, width: int) -> str:
    """A name in at most *width* characters: beginnings are often alike, so the middle is what goes."""
    if len(text) <= width:
        return text
    behind = (width - 1) // 2
    return f"{text[: width - 1 - behind]}…{text[len(text) - behind :]}"


def distinct(names: Iterable[str], width: int) -> dict[str, str]:
    """A label of about *width* characters for each name, no two alike.

    A name is cut in the middle. If several would look the same, they are shown by their differing part, without the
    common beginning.
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        alike[middle(name, width)].append(name)
    labels: dict[str, str] = {}
    for label, group in alike.items():
        if len(group) == 1:
            labels[group[0]] = label
        elif width <= SHORTEST:
            labels |= {name: name for name in group}
        else:
            shared = _shared(group)
            parts = distinct((name[shared:] for name in group), width - 1)
            labels |= {name: f"…{parts[name[shared:]]}" for name in group}
    return labels


def _shared(names: Sequence[str]) -> int:
    """How many characters all names begin with."""
    return next(
        (at for at, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1), min(map(len, names))
    )


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 job``, ``2 jobs``."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def without_name(text: str, name: str) -> str:
    """The text without a name: texts about several objects that are equal then say the same."""
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "", text)
