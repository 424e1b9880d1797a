"""The tool that tries the laws at length: it tells as many stories as asked for, each piece from a seed of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import laws
import pytest
import test_attachments_are_kept
import test_laws_of_scheduling

ROOT = Path(__file__).parents[2]


def test_it_knows_how_many_laws_there_are() -> None:
    files = (test_laws_of_scheduling, test_attachments_are_kept)
    assert len([name for file in files for name in vars(file) if name.startswith("test_")]) == laws.LAWS


@pytest.mark.parametrize("stories", [1, 4, 5, 499, 500, 501, 20_000])
def test_no_fewer_stories_are_told_than_asked_for_and_no_seed_twice(stories: int) -> None:
    pieces = laws.pieces(stories, 7)
    told = sum(each * laws.LAWS for each, _ in pieces)
    assert stories <= told < stories + max(laws.PIECE, laws.LAWS)
    assert [seed for _, seed in pieces] == list(range(7, 7 + len(pieces)))


def test_a_piece_is_a_run_of_the_laws_that_its_seed_repeats() -> None:
    added, words = laws.command(100, 12)
    assert added == {"PUMICE_LAW_EXAMPLES": "100"}
    assert words[0] == sys.executable
    assert all((ROOT / file).is_file() and file in words for file in laws.TESTS)
    assert "--hypothesis-seed=12" in words
