"""Patterns of tenants: they match as Go's do, and none takes longer than its text."""

from __future__ import annotations

import time

import pytest

from pumice.errors import InvalidInput
from pumice.model.patterns import matcher


def test_a_pattern_matches_anywhere_unless_it_is_anchored() -> None:
    assert matcher("rack-[0-9]+")("node-rack-12-a")
    assert not matcher("^rack-[0-9]+$")("node-rack-12-a")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(a*)*b", "^(a|a?)+$"])
def test_no_pattern_takes_longer_than_its_text(pattern: str) -> None:
    begun = time.process_time()
    assert not matcher(pattern)("a" * 200 + "-c")
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(("pattern", "said"), [("(", "missing"), ("(?=x)", "invalid"), ("x" * 1001, "at most 1000")])
def test_a_pattern_that_cannot_be_used_is_named(pattern: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        matcher(pattern)
