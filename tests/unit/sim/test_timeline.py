"""Virtual time: what happens at one instant carries one stamp."""

from __future__ import annotations

from datetime import UTC, datetime

from pumice.sim.engine import Rank, Timeline


def test_what_happens_at_one_instant_shares_its_stamp_and_the_next_instant_has_another() -> None:
    timeline, stamps = Timeline(), []
    for at in (0.0, 0.0, 90.5, 90.5):
        timeline.at(at, Rank.PODS, lambda: stamps.append(timeline.stamp))
    while timeline.next_time() is not None:
        timeline.advance()
    assert stamps == [datetime.fromtimestamp(at, UTC) for at in (0.0, 0.0, 90.5, 90.5)]
    assert stamps[0] is stamps[1]
    assert stamps[2] is stamps[3]
