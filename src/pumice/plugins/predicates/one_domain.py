"""Pods of a group of Kubernetes' own that must all be in one domain: on nodes with the same value of a label."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.hypernodes import places_of
from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.engine.views import of_labels
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.native import NativePodGroup
from pumice.model.node import Node
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task
from pumice.state.table import NodeTable

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
Reasons = npt.NDArray[np.int32]
PLUGIN: Final = "predicates"


def topology_key(job: Job | None) -> str:
    """The label of which all nodes of a job must have the same value, or nothing."""
    group = job.group if job is not None else None
    return group.spec.topology_key if isinstance(group, NativePodGroup) else ""


@of_labels
def job_confined(task: Task) -> Hashable:
    """The job of a task that must be where the others of its group are; `SKIP` for all others."""
    job = task.job
    return job.uid if topology_key(job) else SKIP


class OneDomain:
    """The filter, and the sets of nodes that a whole group is tried on."""

    def __init__(self, ssn: Session) -> None:
        self._ssn, self._table = ssn, ssn.state.table

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """Objects to nodes without the label, and to those with another value than where the group has pods."""
        key = topology_key(task.job)
        codes, _ = self._table.label(key)
        own = rows._take(codes)
        lacking = reason_id(PLUGIN, f"node(s) without the label {key}, which its group goes by", Code.UNRESOLVABLE)
        out = np.where(own == 0, lacking, 0).astype(np.int32)
        where = self._where(task.job, codes)
        if where is not None:
            text = f"node(s) with another {key} than those of its group"
            out[(own != where) & (own > 0)] = reason_id(PLUGIN, text, Code.UNRESOLVABLE)
        return out

    def sets(self, job: Job, _: object, tasks: Sequence[Task], nodes: Sequence[Node]) -> Sequence[Sequence[Node]]:
        """The nodes of each domain with room for all that must start, the one with the least room first."""
        key = topology_key(job)
        if not key or not tasks:
            return [nodes]
        codes, values = self._table.label(key)
        if self._where(job, codes) is not None:
            return [nodes]  # the filter knows where
        found: dict[int, list[Node]] = {}
        for node in nodes:
            if code := int(codes[node.row]):
                found.setdefault(code, []).append(node)
        needed = self._ssn.needed_to_keep(job)
        names = {code: text for text, code in values.items()}
        slots = {code: _slots(self._table, tasks, members) for code, members in found.items()}
        order = sorted(found, key=lambda code: (slots[code], names[code]))
        roomy = [found[code] for code in order if slots[code] >= needed]
        if not roomy:
            text = f"no node has the label {key}, by which its pods must be together"
            if order:
                best = f"{names[order[-1]]}, the roomiest of {len(order)}, for {slots[order[-1]]}"
                text = f"no {key} has room for {needed} of its pods together: {best}"
            self._ssn.outcome.refuse(job, Stage.TOPOLOGY, text, PLUGIN)
        return roomy

    def _where(self, job: Job, codes: Codes) -> int | None:
        """The domain in which the group has places, or promised ones; None where it has none yet."""
        places = places_of(job.tasks.values()) if job.ready_count or job.waiting_count else ()
        rows = self._table.by_name
        return next((int(codes[rows[name].row]) for name in sorted(places) if name in rows), None)


def _slots(table: NodeTable, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
    """At most so many of the tasks find room on the nodes, now or once something is released, by amounts alone."""
    rows = [node.row for node in nodes]
    counts = np.full(len(rows), len(tasks), dtype=np.int64)
    kinds = {task.klass.id: task.klass for task in tasks}.values()
    for d in {d for klass in kinds for d in klass.fit_dims}:
        least = min(int(klass.requests.get(d)) for klass in kinds)
        if least > 0:
            free = table.idle[d, rows] + np.maximum(table.releasing[d, rows] - table.pipelined[d, rows], 0)
            np.minimum(counts, free // least, out=counts)
    return int(np.maximum(counts, 0).sum())
