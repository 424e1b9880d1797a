"""Policies that quietly do less than they say: they read a clock that starts no cycle, or order nothing."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Final

from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Callback
from pumice.framework.session.session import Session
from pumice.model.job import Job

_WRITERS_OF_TIME: Final = frozenset({"DeviceShare", "Usage"})
"""They stamp annotations, or look how old a measurement is."""
OWN: Final = "pumice."
"""Plugins of these modules order by what a cluster may lack; only orders of others are watched."""
MOST_LOOKS: Final = 1_000
"""Sessions in which an order is asked, unless it orders before; so that watching costs little."""
MOST_JOBS: Final = 100
"""Jobs of a session that an order is asked about."""


class PolicyWatch:
    """Looks at sessions until each order has told two jobs apart, and knows the plugins that read the time."""

    def __init__(self, *, ticking: bool) -> None:
        """*ticking*: time alone starts cycles, so that plugins may read it."""
        self._ticking = ticking
        self._begun = False
        self._clock_readers: list[str] = []
        self._watched: set[str] = set()
        """Plugins whose order has not ordered yet."""
        self._asked = 0
        """Sessions in which they were asked."""

    def look(self, ssn: Session) -> bool:
        """Look at a session; report whether the next one is worth a look."""
        if not self._begun:
            self._begun = True
            plugins = list(ssn.plugins())
            if not self._ticking:
                self._clock_readers = list(dict.fromkeys(p.name for p in plugins if reads_clock(type(p))))
            self._watched = {p.name for p in plugins if not type(p).__module__.startswith(OWN)}
        orders = [c for tier in ssn.chain("job_order") for c in tier if c.plugin in self._watched]
        self._watched &= {c.plugin for c in orders}
        jobs = [job for job, _ in zip(ssn.jobs.values(), range(MOST_JOBS), strict=False)]
        if orders and len(jobs) > 1:
            self._asked += 1
            self._watched -= {order.plugin for order in orders if tells_apart(order, jobs)}
        return bool(self._watched) and self._asked < MOST_LOOKS

    def warnings(self, run: str) -> list[str]:
        """Notes about the policies of a run, in sentences."""
        said = []
        if self._clock_readers:
            said.append(
                f"{', '.join(self._clock_readers)} of {run} reads the time, and time alone starts no cycle "
                "here: say `cycles: {every: 60s}`, or it decides only when something happens"
            )
        if self._asked:
            said += [
                f"{plugin} of {run} orders jobs and never told two of them apart: what it reads may be missing"
                for plugin in sorted(self._watched)
            ]
        return said


def tells_apart(order: Callback, jobs: list[Job]) -> bool:
    """Report whether an order puts any job before or after the first one. One that fails is reported elsewhere."""
    first, *others = jobs
    try:
        if order.sort_key:
            key = order.fn(first)
            return any(order.fn(job) != key for job in others)
        return any(order.fn(first, job) or order.fn(job, first) for job in others)
    except Exception:
        return True


def reads_clock(plugin: type) -> bool:
    """Report whether the code of a class reads an attribute ``now``. Some built-in ones only write it down."""
    if plugin.__name__ in _WRITERS_OF_TIME and plugin.__module__.startswith("pumice.plugins."):
        return False
    functions = [vars(cls).values() for cls in plugin.__mro__ if cls not in (object, Plugin)]
    codes = [found.__code__ for values in functions for found in values if isinstance(found, FunctionType)]
    while codes:
        code = codes.pop()
        if "now" in code.co_names:
            return True
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return False
