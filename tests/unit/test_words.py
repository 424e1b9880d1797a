"""Names are cut so that they fit and still differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.words import counted, distinct, middle


@given(st.lists(st.text("ab-1", max_size=60), unique=True, max_size=12), st.integers(9, 30))
def test_different_names_have_different_labels(names: list[str], width: int) -> None:
    labels = distinct(names, width)
    assert list(labels) == list(dict.fromkeys(labels))
    assert len(set(labels.values())) == len(names)
    assert all(labels[name] == name for name in names if len(name) <= width)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["short", "shorter"], ["short", "shorter"]),
        (
            ["llm-pretraining-of-vision-1", "llm-pretraining-of-vision-2"],
            ["llm-pretr…-vision-1", "llm-pretr…-vision-2"],
        ),
        (
            ["llm-pretraining-of-vision-for-production", "llm-pretraining-of-speech-for-production"],
            ["…vision-fo…oduction", "…speech-fo…oduction"],
        ),
    ],
)
def test_a_name_is_cut_in_the_middle_or_told_by_what_differs(names: list[str], labels: list[str]) -> None:
    assert list(distinct(names, 19).values()) == labels
    assert all(len(label) <= 19 for label in labels)


def test_a_name_is_cut_in_the_middle() -> None:
    assert middle("abcdefghij", 10) == "abcdefghij"
    assert middle("abcdefghijk", 10) == "abcde…hijk"
    assert middle("abcdefghijk", 5) == "ab…jk"


@pytest.mark.parametrize(("number", "words"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1234, "1,234 jobs")])
def test_a_number_has_the_form_of_its_noun(number: int, words: str) -> None:
    assert counted(number, "job") == words
    assert counted(number, "policy", "policies").split()[1] == ("policy" if number == 1 else "policies")
