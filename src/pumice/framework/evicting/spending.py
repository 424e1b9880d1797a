"""What disruption budgets last for, where that is some of the victims only: one way after the other to spend them.

The first in order have it first. Where that is no use, those who leave most of what is needed have it; then, node by
node, those who leave most there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pumice.framework.evicting.bundles import Bundle, sum_of
from pumice.framework.session.budgets import Budgets
from pumice.model.resources import Resources

_NODES: Final = 64
"""So many nodes are preferred one after the other."""


def affordable(budgets: Budgets, bundles: Sequence[Bundle], need: Resources) -> Iterator[list[Bundle]]:
    """The bundles that may go together, in their order; again and again, in other ways, while nobody is content."""
    if not budgets.watched:
        yield list(bundles)
        return
    units = [unit for bundle in bundles for unit in _units(bundle)]
    tried: set[frozenset[int]] = set()
    for preferred in _orders(units, need):
        purse = budgets.purse()
        going = frozenset([id(unit) for unit in preferred if purse.take(unit.tasks)])
        if going not in tried:
            tried.add(going)
            yield [unit for unit in units if id(unit) in going]
        if len(going) == len(units):
            return


def _units(bundle: Bundle) -> list[Bundle]:
    """What goes together or not at all."""
    return [Bundle(bundle.job, [task], True) for task in bundle.tasks] if bundle.safe else [bundle]


def _orders(units: Sequence[Bundle], need: Resources) -> Iterator[Sequence[Bundle]]:
    yield units
    worth = {id(unit): _worth(unit, need) for unit in units}
    ranked = sorted(units, key=lambda unit: -worth[id(unit)])
    yield ranked
    nodes = dict.fromkeys(task.node_name for unit in ranked for task in unit.tasks)
    for name in list(nodes)[:_NODES]:
        yield sorted(ranked, key=lambda unit, name=name: all(t.node_name != name for t in unit.tasks))  # type: ignore[misc]


def _worth(unit: Bundle, need: Resources) -> float:
    """How much of what is needed each task of it leaves, as parts of each resource."""
    given = sum_of(unit.tasks)
    return sum(min(given.get(d) / v, 1.0) for d, v in need.items() if v > 0) / len(unit.tasks)
