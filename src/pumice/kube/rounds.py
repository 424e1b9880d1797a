"""Jobs that are evicted for each other in turn: noticed, counted and told, for no plugin sees more than one cycle."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.model.codes import ReasonCode
from pumice.model.intents import Evict, Intent, Note
from pumice.state.cluster import ClusterState

WINDOW = 600.0
"""Seconds within which evictions make a round."""
_MOST = 10_000
"""So many victims are remembered."""


class EvictionRounds:
    """Who was evicted for whom lately; a round is closed where a job's victim was, by any way round, evicted for it."""

    def __init__(self) -> None:
        self._evicted_for: dict[str, dict[str, float]] = {}

    def look(self, intents: Iterable[Intent], state: ClusterState) -> list[Note]:
        """What a cycle evicts; returns a note for every job whose eviction closes a round."""
        evictions = {(i.job, i.beneficiary) for i in intents if isinstance(i, Evict) and i.job and i.beneficiary}
        if not evictions:
            return []
        self._forget(state.now)
        notes = []
        for job, helped in sorted(evictions):
            way = self._way(helped, job) if job != helped else None
            known = state.jobs.get(job)
            if way is not None and known is not None:
                told = ", that one for ".join((helped, *way[1:]))
                text = (
                    f"evicted for {told}, all within {WINDOW / 60:g} minutes: jobs take turns, and every eviction "
                    "loses work; see the order of jobs and what plugins let go"
                )
                notes.append(Note(known.kind, job, "Warning", ReasonCode.EVICTED_IN_TURN, text))
        for job, helped in evictions:
            self._evicted_for.setdefault(job, {})[helped] = state.now
        return notes

    def _way(self, start: str, end: str) -> list[str] | None:
        """From a job over those for whom it was evicted to another one, the shortest; None where there is none."""
        ways, seen = [[start]], {start}
        for way in ways:
            if way[-1] == end:
                return way
            for job in sorted(self._evicted_for.get(way[-1], ())):
                if job not in seen:
                    seen.add(job)
                    ways.append([*way, job])
        return None

    def _forget(self, now: float) -> None:
        for job, helped in list(self._evicted_for.items()):
            for other in [other for other, at in helped.items() if now - at > WINDOW]:
                del helped[other]
            if not helped:
                del self._evicted_for[job]
        while len(self._evicted_for) > _MOST:
            del self._evicted_for[next(iter(self._evicted_for))]
