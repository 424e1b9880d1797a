"""How full a request would make hyper-nodes: the score by which domains are filled up one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from pumice.framework.placing.topology import Domains
from pumice.model.resources import dim
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]


class Packing:
    """Weights of resources, and what they make of a request in every hyper-node."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights: Mapping[int, int] = {dim(name): w for name, w in weights.items()}

    def counted(self, request: Mapping[int, int]) -> list[tuple[int, int, int]]:
        """The counted parts of a request: resource, amount and weight."""
        return [(d, v, self._weights[d]) for d, v in sorted(request.items()) if v and d in self._weights]

    def scores(self, domains: Domains, request: Mapping[int, int]) -> Floats:
        """Per hyper-node the weighted mean of what would be in use of each resource; 0 where it does not fit."""
        counted = self.counted(request)
        divisor = sum(w for _, _, w in counted)
        out: Floats = np.zeros(len(domains.names))
        if divisor <= 0:
            return out
        load, offered = domains.load(), domains.offered
        fits = np.ones(len(out), dtype=np.bool_)
        for d, v, w in counted:
            after = load[d] + v
            fits &= after <= offered[d]
            out += w * after / np.maximum(offered[d], 1)
        out /= divisor
        out[~fits] = 0.0
        return out


class KeptScores:
    """The result of `Packing.scores` for one request, as a list that follows changes in the hyper-nodes."""

    def __init__(self, packing: Packing, domains: Domains, request: Mapping[int, int]) -> None:
        self._packing, self._domains, self._request = packing, domains, request
        self._counted = packing.counted(request)
        self._divisor = sum(w for _, _, w in self._counted)
        self._at = -1
        self._scores: list[float] = []

    def now(self) -> list[float]:
        """Per hyper-node. Cost: the hyper-nodes above the rows that changed."""
        domains = self._domains
        changed, at = domains.changed_since(self._at)
        if at == self._at or self._divisor <= 0 < len(self._scores):
            return self._scores
        if changed is None:
            self._scores = self._packing.scores(domains, self._request).tolist()
        else:
            load, offered = domains.load(), domains.offered
            for place in changed:
                total, fits = 0.0, True
                for d, v, w in self._counted:
                    after, there = load.item(d, place) + v, offered.item(d, place)
                    fits &= after <= there
                    total += float(w * after) / float(max(there, 1))
                self._scores[place] = total / self._divisor if fits else 0.0
        self._at = at
        return self._scores


def packed_rows(packing: Packing, domains: Domains, task: Task, fading: float) -> Floats:
    """Per row: how full a task would make the hyper-nodes around it, tier by tier and fading; 1 for a tier without."""
    tiers, of_row = domains.alike()
    full = np.append(packing.scores(domains, dict(task.klass.items)), 1.0)
    total: Floats = np.zeros(len(tiers[0][1]))
    shares = 0.0
    for tier, places in tiers:
        share = fading ** min(max(tier - 1, 0), 1000)  # a tier is what somebody wrote
        total += share * full[places]
        shares += share
    if shares:
        total = total / shares
    return total[of_row]


def request_of(tasks: Iterable[Task]) -> dict[int, int]:
    """The sum of the tasks' requests."""
    total: dict[int, int] = {}
    for task in tasks:
        for d, v in task.klass.items:
            total[d] = total.get(d, 0) + v
    return total
