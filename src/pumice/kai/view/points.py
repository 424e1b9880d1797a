"""How plugins are asked: with which objects, and in which order they put sub-groups, tasks and jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cmp_to_key, wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from pumice.framework.points import table as t
from pumice.framework.points.callback import Callback
from pumice.kai.view.jobs import JobView, Member
from pumice.kai.view.queues import Amounts, QueueView
from pumice.kai.view.tasks import TaskView

if TYPE_CHECKING:
    from pumice.framework.session.session import Session
    from pumice.kai.view.world import KaiWorld


Numbers = npt.NDArray[np.int64] | npt.NDArray[np.bool_]


class NodeRank(NamedTuple):
    """A number for each row: the score is higher where it is less, and the same where it is the same."""

    band: float
    """More than all scores in lower bands make of a difference together: of two the one with more goes first."""
    applies: Callable[[TaskView], bool]
    """Whether the numbers say all of the score, for a task and equal ones."""
    of: Callable[[TaskView], Numbers]
    """The numbers for a task, whatever they are on rows without room for it."""


_PARTS: Final = ("fn", "key")


def real(asked: Any) -> Any:
    """The object of the cluster that a view stands for; whatever is no view is itself."""
    kind = asked.__class__
    if kind is TaskView:
        return asked.task
    if kind is JobView:
        return asked.job
    if kind is QueueView:
        return asked.queue
    if kind is list or (kind is tuple and asked and asked[0].__class__ is TaskView):
        return [real(each) for each in asked]
    translated = getattr(asked, "translated", None)
    return translated(real) if translated is not None else asked


def translated(callback: Callback, world: Callable[[], KaiWorld]) -> Callback:
    """The callback of somebody else's plugin as KAI's actions may ask it."""
    index = callback.point == t.GPU_ORDER.name
    given: dict[str, Any] = {}
    for name in _PARTS:
        fn = getattr(callback, name)
        if fn is not None:
            given[name] = _by_index(fn, world) if index and name == "fn" else _of_real(fn)
    return replace(callback, **given)


def _of_real(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def asked(*args: Any) -> Any:
        return fn(*[real(a) for a in args])

    asked.translates = True  # type: ignore[attr-defined]
    return asked


def _by_index(fn: Callable[..., Any], world: Callable[[], KaiWorld]) -> Callable[..., Any]:
    """GPUs are told by their index on the node."""

    @wraps(fn)
    def asked(task: Any, node: Any, gpu: str) -> Any:
        return fn(real(task), node, world().nodes.index_of(node, gpu))

    return asked


T = TypeVar("T")
ClaimKeys: TypeAlias = tuple[Callable[[QueueView, Amounts, Amounts], Any], Callable[[QueueView, QueueView], int]]
"""The smaller one of two claims with different keys goes first; else the verdict on their queues decides.

A key is made of the queue, what its job asks for, and what its victims hold.
"""


class WorldOrders:
    """Puts what a session sees in order."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self.keys_of_claims: dict[Callable[..., object], ClaimKeys] = {}
        """Order of queues' claims -> the key that it compares."""
        self._claims: tuple[ClaimKeys | None] | None = None

    def members(self, listed: Sequence[Member]) -> list[Member]:
        """Sub-groups in order, as the plugins say, then by name."""
        if len(listed) < 2:
            return list(listed)
        order = cast(Callable[[Member, Member], int], self._ssn.sub_group_order)

        def compare(a: Member, b: Member) -> int:
            return order(a, b) or (a.name > b.name) - (a.name < b.name)

        return sorted(listed, key=cmp_to_key(compare))

    def tasks(self, listed: Sequence[TaskView]) -> list[TaskView]:
        """Tasks in order, as the plugins say, then the older, then by UID."""
        return self._in_order(t.TASK_ORDER, self._ssn.task_order, listed, _age_of_task)

    def ranked(self, listed: Sequence[JobView]) -> list[tuple[Any, JobView]]:
        """Jobs in order, as the plugins say, then the older, then by UID, each with its sort key."""
        try:
            return sorted(self._with_keys(listed), key=itemgetter(0))
        except TypeError:  # keys of several kinds: they are compared with their kind from now on
            self._ssn.mixed_keys(t.JOB_ORDER)
            return sorted(self._with_keys(listed), key=itemgetter(0))

    def _with_keys(self, listed: Sequence[JobView]) -> list[tuple[Any, JobView]]:
        key = self.job_key()
        return [(key(job), job) for job in listed]

    def claim_keys(self) -> ClaimKeys | None:
        """The key by which claims of queues are compared, and how it settles what has the same; None: pair by pair.

        For actions: by then everybody has registered.
        """
        if self._claims is None:
            asked = self._ssn.callbacks(t.QUEUE_CLAIM_ORDER)
            self._claims = (self.keys_of_claims.get(asked[0].fn) if len(asked) == 1 else None,)
        return self._claims[0]

    def job_key(self) -> Callable[[JobView], Any]:
        """A sort key of the order of jobs."""
        return self._key(t.JOB_ORDER, self._ssn.job_order, _age_of_job)

    def _in_order(self, point: Any, order: Any, listed: Sequence[T], age: Callable[[T], Any]) -> list[T]:
        if len(listed) < 2:
            return list(listed)
        try:
            return sorted(listed, key=self._key(point, order, age))
        except TypeError:  # keys of several kinds: they are compared with their kind from now on
            self._ssn.mixed_keys(point)
            return sorted(listed, key=self._key(point, order, age))

    def _key(self, point: Any, order: Any, age: Callable[[T], Any]) -> Callable[[T], Any]:
        known = self._ssn.sort_key(point, age)
        if known is not None:
            return known

        def compare(a: T, b: T) -> int:
            said: int = order(a, b)
            return said or (age(a) > age(b)) - (age(a) < age(b))

        return cmp_to_key(compare)


def _age_of_task(task: TaskView) -> tuple[float, str]:
    return task.task.creation, task.uid


def _age_of_job(job: JobView) -> tuple[float, str]:
    return job.creation, job.uid
