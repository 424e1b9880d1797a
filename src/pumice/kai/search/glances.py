"""Whoever may refuse a job or a task, looked at before he is asked: mostly it is known that he would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pumice.framework.points.point import Point
from pumice.kai.view.world import KaiWorld


class Glance:
    """Does something surely pass all who may refuse it at a point? Where it may not, they are to be asked."""

    __slots__ = ("_passes",)

    def __init__(self, world: KaiWorld, point: Point[..., Any, Any]) -> None:
        known = [world.glances.get(c.fn) for c in world.ssn.callbacks(point)]
        self._passes: list[Callable[[Any], bool]] | None = [g for g in known if g] if None not in known else None

    def __call__(self, asked: Any) -> bool:
        if self._passes is None:
            return False
        for passes in self._passes:  # noqa: SIM110 - for every job and task
            if not passes(asked):
                return False
        return True
