"""Volumes, devices, cards and shares of GPUs are given once, whatever becomes of binds; replays decide the same."""

from __future__ import annotations

import pytest
from attached_worlds import AttachedWorld
from hypothesis import given
from hypothesis import strategies as st
from lawful import lawful

pytestmark = pytest.mark.law

STEPS = 6


@lawful(60)
@given(st.integers(0, 2**31), st.sampled_from(["volcano", "kai"]))
def test_nothing_is_given_twice_while_binds_are_late_or_fail(seed: int, dialect: str) -> None:
    world = AttachedWorld(seed, dialect)
    for number in range(STEPS):
        world.step(redacts=number % 2 == 0)
