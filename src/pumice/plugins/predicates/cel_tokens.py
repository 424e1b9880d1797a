"""The words of a CEL expression, and what texts and numbers among them say."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
_RAW: Final = r"\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n]*\"|'[^'\n]*'"
_NUMBER: Final = r"0x[0-9a-fA-F]+u?|(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+u?"
_TOKEN: Final = re.compile(
    rf"(?P<gap>(?:\s|//[^\n]*)*)(?P<token>[rR](?:{_RAW})|{_TEXT}|(?:{_NUMBER})(?!\w)|[A-Za-z_]\w*"
    r"|==|!=|<=|>=|&&|\|\||[-<>!().,\[\]?:+*/%{}]|$)",
    re.ASCII | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<one>.))",
    re.DOTALL,
)
_ESCAPES: Final = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))


def tokens(text: str) -> list[str] | None:
    """The words of an expression, without gaps and comments; None where there is something that is none."""
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        at = match.end()
        if match["token"]:
            found.append(match["token"])
        elif at < len(text):
            return None
    return found


def text_of(token: str) -> str | None:
    """The content of a quoted text; None if it has an unknown escape."""
    raw = token[0] in "rR"
    token = token[1:] if raw else token
    quotes = 3 if token[:3] in ('"""', "'''") and len(token) >= 6 else 1
    inner = token[quotes:-quotes]
    if raw:
        return inner
    try:
        return _ESCAPE.sub(_escaped, inner)
    except (KeyError, ValueError, OverflowError):
        return None


def _escaped(found: re.Match[str]) -> str:
    if found["one"] is not None:
        return _ESCAPES[found["one"]]
    if found["octal"] is not None:
        return chr(int(found["octal"], 8))
    number = int(found["x"] or found["u"] or found["U"], 16)
    if 0xD800 <= number < 0xE000:
        raise ValueError
    return chr(number)


def number_of(token: str) -> int | float:
    """The number that a word writes."""
    if token.startswith("0x"):
        return int(token.rstrip("u"), 16)
    return float(token) if any(c in token for c in ".eE") else int(token.rstrip("u"))
