"""A clock that was set back: what was to last until a time lasts as long as it would have."""

from __future__ import annotations

import logging
from typing import Final

from pumice.framework.session.runtime import Runtime
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.scheduler")
LEAST: Final = 1.0
"""Seconds by which a clock may step back without a word: they change nothing."""


def set_back(state: ClusterState, runtime: Runtime, by: float) -> None:
    """Every time that is remembered moves back with the clock: rooms that are held, refused evictions, turns,
    losses.

    Otherwise a clock that stood in the future for a moment would have them last until that future comes.
    """
    log.warning("the clock was set back by %.0f s; what was to last until a time moves back with it", by)
    for nomination in runtime.nominations.values():
        nomination.until -= by
    for no in state.refused.values():
        no.until -= by
    for helped in runtime.turns.values():
        helped.update({other: turn._replace(at=turn.at - by) for other, turn in helped.items()})
    runtime.losses = {job: lost.moved_back(by) for job, lost in runtime.losses.items()}
    runtime.drop_kept()  # what was found out about orders and about who waits in vain may follow from the time
