"""HTML of results for notebooks: small tables, plain enough for every theme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_NUMBER = "text-align:right"
_TEXT = "text-align:left"


def html_table(
    head: Sequence[object], rows: Iterable[Sequence[object]], title: str = "", notes: Iterable[str] = ()
) -> str:
    """Return a table with a title above and notes below it. The first column is text, the others stand to the right."""
    parts = [f"<p><b>{escape(title)}</b></p>"] if title else []
    parts.append("<table><thead><tr>" + _cells(head, "th") + "</tr></thead><tbody>")
    parts += ["<tr>" + _cells(row, "td") + "</tr>" for row in rows]
    parts.append("</tbody></table>")
    parts += [f"<p><small>{escape(note)}</small></p>" for note in notes]
    return "".join(parts)


def _cells(cells: Sequence[object], kind: str) -> str:
    return "".join(
        f'<{kind} style="{_NUMBER if at else _TEXT}">{escape(str(cell))}</{kind}>' for at, cell in enumerate(cells)
    )
