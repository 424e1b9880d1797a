"""Jobs that are like one which could not be helped, and ask for no less, are not tried again in the same action."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import ACTIVE, TaskStage
from pumice.kai.view.subgroups import GroupSet, Member
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld
from pumice.model.api import PodSpec

_Amounts = dict[int, float]
_PENDING: Final = TaskStage.PENDING


class Signatures:
    """Remembers who could not be helped: per queue, or (*one_table*) for all of them together."""

    def __init__(self, world: KaiWorld, one_table: bool) -> None:
        self._on, self._one_table = world.settings.signatures, one_table
        self._known: dict[Hashable, list[_Amounts]] = {}

    def _key(self, job: JobView) -> Hashable:
        if job.likeness is None:
            job.likeness = _likeness(job)
        return ("" if self._one_table else job.queue.name, job.likeness)

    def worth_trying(self, job: JobView) -> bool:
        """Is nobody like it known to have failed with as much or less?"""
        if not self._on:
            return True
        known = self._known.get(self._key(job))
        if known is None:
            return True
        only = job.only
        if only is not None and len(known) == 1 and known[0] is only.request.amounts and only.stage is _PENDING:
            return False  # it asks for the very same
        mine = _requests(job)
        if len(mine) < len(known):
            return True
        return any(a is not b and _at_most(a, b) and a != b for a, b in zip(mine, known, strict=False))

    def failed(self, job: JobView) -> None:
        """It could not be helped: whoever is like it and asks for no less cannot be either."""
        if not self._on:
            return
        key, mine = self._key(job), _requests(job)
        known = self._known.get(key)
        if known is None or (
            len(mine) <= len(known) and all(_at_most(a, b) for a, b in zip(mine, known, strict=False))
        ):
            self._known[key] = mine


def _requests(job: JobView) -> list[_Amounts]:
    found = [t.request.amounts for t in job.tasks.values() if t.stage is TaskStage.PENDING]
    return sorted(found, key=lambda a: sorted(a.items())) if len(found) > 1 else found


def _at_most(a: _Amounts, b: _Amounts) -> bool:
    return all(v <= b.get(d, 0.0) for d, v in a.items())


def _likeness(job: JobView) -> Hashable:
    """Of jobs with one task that waits, and no topology, it follows from the task's class: there it is kept."""
    only = job.only
    if only is None or only.stage in ACTIVE or not job.anywhere:
        return _signature(job.root, ())
    memo = only.task.klass.memo
    known: Hashable = memo.get("kai.likeness")
    if known is None:
        known = memo["kai.likeness"] = _signature(job.root, ())
    return known


def _signature(member: Member, above: Sequence[Hashable]) -> Hashable:
    constraint = member.topology
    if isinstance(member, GroupSet):
        return tuple(sorted(repr(_signature(m, (*above, constraint))) for m in member.members))
    placeless = sorted(repr(_task_signature(t)) for t in member.tasks if t.stage not in ACTIVE)
    return (constraint, tuple(above), tuple(placeless)) if placeless else ()


def _task_signature(task: TaskView) -> Hashable:
    klass = task.task.klass
    known: Hashable = klass.memo.get("kai.signature")
    if known is None:
        known = klass.memo["kai.signature"] = _class_signature(klass.spec)
    return known


def _class_signature(spec: PodSpec) -> str:
    ports = [(p.host_port, p.protocol, p.host_ip) for c in spec.containers or () for p in c.ports or () if p.host_port]
    return repr(
        (
            *(spec.volumes, spec.node_selector, spec.affinity, spec.priority_class_name, spec.priority),
            *([(t.key, t.operator, t.value, t.effect) for t in spec.tolerations or ()],),
            *(spec.topology_spread_constraints, ports),
        )
    )
