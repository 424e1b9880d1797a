"""Words from outside can be written anywhere: they are text, of a bounded length, that every file can hold."""

from __future__ import annotations

import pytest

from pumice.errors import shown, words_of
from pumice.model.reason import Unfit


class Mute:
    """Says nothing of itself."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class Speechless(Exception):
    """Says nothing of itself either."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("as it is", "as it is"),
        (None, ""),
        (3, "3"),
        (ValueError("why"), "why"),
        ("half a \ud800 letter", "half a ? letter"),
        (Mute(), "Mute without words"),
        (Speechless(), "Speechless without words"),
        ("x" * 5_000_000, "x" * 2000 + "…"),
    ],
)
def test_whatever_is_said_becomes_text(value: object, words: str) -> None:
    assert words_of(value) == words
    assert Unfit(value).text == words
    words_of(value).encode()


def test_what_cannot_be_shown_is_named_by_its_kind() -> None:
    assert shown(Mute()) == "a Mute"
    assert shown([Mute()]) == "a list"
