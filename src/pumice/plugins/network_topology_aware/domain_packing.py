"""How full a request would make hyper-nodes: the score by which domains are filled up one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from pumice.framework.arguments import Arguments
from pumice.framework.placing.domains import Domains
from pumice.model.resources import dim
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]
_PREFIX = "hypernode.binpack"
_RESOURCES = f"{_PREFIX}.resources"
PACKING_ARGUMENTS = (f"{_PREFIX}.cpu", f"{_PREFIX}.memory", _RESOURCES, f"{_RESOURCES}.*")


class Packing:
    """Weights of resources, and what they make of a request in every hyper-node."""

    def __init__(self, arguments: Arguments) -> None:
        weights = {name: weight(arguments, f"{_PREFIX}.{name}") for name in ("cpu", "memory")}
        for name in arguments.list(_RESOURCES):
            weights[name] = weight(arguments, f"{_RESOURCES}.{name}")
        self._weights: Mapping[int, int] = {dim(name): w for name, w in weights.items()}

    def scores(self, domains: Domains, request: Mapping[int, int]) -> Floats:
        """Per hyper-node the weighted mean of what would be in use of each resource; 0 where it does not fit."""
        counted = [(d, v, self._weights[d]) for d, v in sorted(request.items()) if v and d in self._weights]
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


def request_of(tasks: Iterable[Task]) -> dict[int, int]:
    """What tasks ask for together."""
    total: dict[int, int] = {}
    for task in tasks:
        for d, v in task.klass.items:
            total[d] = total.get(d, 0) + v
    return total


def weight(arguments: Arguments, key: str) -> int:
    """A weight; a negative one counts as 1."""
    value = arguments.int(key, 1)
    return 1 if value < 0 else value
