"""Inter-pod affinity and anti-affinity: which pods may stand in one topology domain."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import DomainCounts, Neighbours, own_terms
from pumice.engine.affinity.terms import Term, TermKind, Terms
from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.engine.views import of_labels
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task

Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
NOT_WITH: Final = reason_id(PLUGIN, "node(s) didn't match pod affinity rules", Code.UNRESOLVABLE)
TOO_NEAR: Final = reason_id(PLUGIN, "node(s) didn't match pod anti-affinity rules")
UNWELCOME: Final = reason_id(PLUGIN, "node(s) didn't satisfy existing pods anti-affinity rules")


class PodAffinityFilter:
    """The filter, over an index of who is where."""

    def __init__(self, index: Neighbours) -> None:
        self._index = index

    def unwelcome(self, task: Task) -> tuple[Term, ...]:
        """The anti-affinity terms, of pods on nodes or met before, that keep the task away from their pods."""
        index = self._index
        index.sync()
        terms = index.facing(index.kind_of(task))
        return tuple(t for t in terms if t.kind is TermKind.ANTI_AFFINITY) if terms else terms

    @of_labels
    def key(self, task: Task) -> Hashable:
        """The terms of others that keep the task away; `SKIP` if there are none, nor terms of its own."""
        terms, unwelcome = own_terms(task), self.unwelcome(task)
        return unwelcome if unwelcome or terms.affinity or terms.anti_affinity else SKIP

    def applies(self, task: Task) -> bool:
        """Report whether the task has required terms, or a term of others selects it."""
        return self.key(task) is not SKIP

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """Its own rules hold on the node, and those of the pods that are there."""
        index = self._index
        unwelcome = self.unwelcome(task)
        terms = own_terms(task)
        out = np.zeros(len(rows), dtype=np.int32)
        for term in unwelcome:
            tally = index.carriers(term)
            if tally.total:
                out[present(tally, rows)] = UNWELCOME
        for term in terms.anti_affinity:
            tally = index.tally(term.selector, term.topology_key)
            if tally.total:
                out[present(tally, rows)] = TOO_NEAR
        if terms.affinity:
            out[~self._in_company(task, terms, rows)] = NOT_WITH
        return out

    def _in_company(self, task: Task, terms: Terms, rows: NodeRows) -> Bools:
        """Per row: is there, for every term, a pod that all terms select? The first of a self-selecting group may go
        anywhere where the labels are."""
        index = self._index
        assert terms.together is not None
        tallies = [index.tally(terms.together, t.topology_key) for t in terms.affinity]
        first = not any(t.total for t in tallies) and index.matches((terms.together,), index.kind_of(task))
        ok = np.ones(len(rows), dtype=np.bool_)
        for tally in tallies:
            ok &= rows._take(tally.codes) > 0 if first else present(tally, rows)
        return ok


def present(tally: DomainCounts, rows: NodeRows) -> Bools:
    """Per row: whether any pod is counted in its domain."""
    result: Bools = (tally.counts > 0).take(rows._take(tally.codes))
    return result
