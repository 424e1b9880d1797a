"""How a table is fitted into a terminal: what is left out, what is cut, what is broken into lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

SHORTEST_NAME: Final = 16
"""Characters of a name that are always left."""
LONGEST_WORD: Final = 28
"""A word that is longer may be broken: an address, a piece of JSON."""
READABLE: Final = 32
"""Characters of running text in a line, before a column that can be spared goes."""
SAYS_NOTHING: Final = frozenset(("", "0", "-", "–"))
"""Cells for which nobody misses a column."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are shown, how wide each is, and the blanks between them."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int


def fit(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    wrap: Collection[str] = (),
    names: Collection[str] = (),
    spare: Sequence[str] = (),
    text: str = "",
) -> Layout:
    """Fit a table into *width* columns where that can be done.

    First blanks become fewer. Then columns in *spare* are left out: those that say nothing, then the others, the
    first one first. Cells of *wrap* are broken between words, and *names* are cut, before a column that says
    something is left out; but running *text* keeps lines that can be read.
    """
    cells = [[titles[at], *(row[at] for row in rows)] for at in range(len(titles))]
    whole = [max(len(cell) for cell in column) for column in cells]
    least = [_least(titles[at], cells[at], whole[at], wrap, names) for at in range(len(titles))]
    eased = [max(least[at], min(whole[at], READABLE)) if titles[at] == text else least[at] for at in range(len(titles))]
    shown = list(range(len(titles)))
    if _total(whole, shown, 3) <= width:
        return Layout(tuple(shown), tuple(whole), 3)
    idle = [titles.index(name) for name in spare if SAYS_NOTHING.issuperset(cells[titles.index(name)][1:])]
    others = [at for name in spare if (at := titles.index(name)) not in idle]
    for at in idle:
        if _total(whole, shown, 2) > width:
            shown.remove(at)
    for at in others:
        if _total(eased, shown, 2) > width:
            shown.remove(at)
    return Layout(tuple(shown), _shrunk(whole, least, shown, width), 2)


def _least(title: str, cells: Sequence[str], whole: int, wrap: Collection[str], names: Collection[str]) -> int:
    if title in names:
        return min(whole, max(SHORTEST_NAME, len(title)))
    if title in wrap:
        longest = max(len(word) for cell in cells for word in cell.split() or [""])
        return min(whole, longest, max(LONGEST_WORD, len(title)))
    return whole


def _total(widths: Sequence[int], shown: Sequence[int], gap: int) -> int:
    return sum(widths[at] for at in shown) + gap * (len(shown) - 1)


def _shrunk(whole: Sequence[int], least: Sequence[int], shown: Sequence[int], width: int) -> tuple[int, ...]:
    """The widths of the columns that are shown; the widest ones give way first."""
    widths = {at: whole[at] for at in shown}
    over = _total(whole, shown, 2) - width
    while over > 0:
        giving = [at for at in shown if widths[at] > least[at]]
        if not giving:
            break
        widths[max(giving, key=lambda at: widths[at])] -= 1
        over -= 1
    return tuple(widths[at] for at in shown)
