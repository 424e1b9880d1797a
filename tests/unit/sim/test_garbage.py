"""Cyclic garbage of plugins goes while a run lasts, and nobody looks for it often where there is none."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest

from pumice.sim.run import OFTEN, SELDOM, Garbage


class Knot:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def resting() -> Iterator[None]:
    """The collector rests, as it does in a run."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("resting")
def test_where_there_is_none_it_is_looked_for_ever_less_often() -> None:
    garbage, dues = Garbage(), []
    for _ in range(6):
        dues.append(garbage.next_look)
        garbage.look()
    steps = [after - before for before, after in pairwise(dues)]
    assert dues[0] == OFTEN
    assert steps == [2 * OFTEN, 4 * OFTEN, SELDOM, SELDOM, SELDOM]


@pytest.mark.usefixtures("resting")
def test_what_is_there_is_freed_and_looked_for_as_often_as_at_first() -> None:
    garbage = Garbage()
    for _ in range(5):
        garbage.look()
    made = [weakref.ref(Knot()) for _ in range(3)]
    assert all(ref() is not None for ref in made)
    due = garbage.next_look
    garbage.look()
    assert all(ref() is None for ref in made)
    assert garbage.next_look == due + OFTEN
