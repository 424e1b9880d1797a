"""Jobs of one task, one after the other: what equal ones have in common is found out and written once for a node."""

from __future__ import annotations

from typing import Final, cast

from pumice.framework.points import table as t
from pumice.framework.session.session import Session
from pumice.framework.session.statement import nobody_between
from pumice.kai.search import ordering, placing
from pumice.kai.search.choice import KaiChoice
from pumice.kai.search.glances import Glance
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.standins import as_job, as_task, as_tasks
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import world_of
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.task import Task, TaskClass

_PENDING: Final = TaskStage.PENDING
_BINDING: Final = TaskStage.BINDING


class AloneJobs:
    """Binds jobs of one task as placing and committing each would; where anything else comes of it, nothing is changed.

    The node that is best for a task stays so for its likes while they fill it, if all who have a say are steady
    (`KaiChoice`). They are gathered until it is full or another job comes, and then written in the ledgers (`settle`).
    Queues count each at once, because the next one is chosen by that.
    """

    def __init__(self, ssn: Session, best: KaiChoice) -> None:
        world = self._world = world_of(ssn)
        self._ssn, self._best = ssn, best
        asked = (*ordering.ASKS, *placing.ASKS)
        self._able = nobody_between(ssn) and world.claims is None and not world.zones
        self._able = self._able and all(map(world.only_kai, asked))
        self._has_capacity, self._is_possible = Glance(world, t.JOB_WITHIN_CAPACITY), Glance(world, t.PRE_PREDICATE)
        self._klass: TaskClass | None = None
        self._node: Node | None = None
        self._left = 0
        """So many more of the class have room on the node at once."""
        self._version = -1
        """Of the world after the last of them."""
        self._nowhere = (-1, -1)
        """The class that could not start at once the last time, and the world as it was then."""
        self._gathered: list[TaskView] = []
        """Who goes to the node."""
        self._placed: list[tuple[Node, list[Task]]] = []
        """Who of the class went to nodes before."""

    def bind(self, job: JobView) -> bool:
        """Bind the one task of a job to the best node, where it can start at once; False where there is more to it."""
        ssn, world, view = self._ssn, self._world, job.only
        if view is None or not self._able or view.stage is not _PENDING or world.state.rooms:
            self.settle()
            return False
        task = view.task
        if task.klass is not self._klass or self._version != world.version:
            self.settle()
        if not self._left:
            self._leave_node()
            if not self._find(view):
                self.settle()
                return False
        if not job.anywhere or self._best.is_asked_about(view):
            self.settle()
            return False
        if not (self._has_capacity(job) or ssn.job_within_capacity(as_job(job), as_tasks((view,)))):
            self.settle()
            return False
        if not (self._is_possible(view) or ssn.pre_predicate(as_task(view))):
            self.settle()
            return False
        node = cast(Node, self._node)
        view.stage, view.node, view.groups, view.virtual, view.accepted = _BINDING, node, (), True, view.request.quota
        world.count(view, 1)
        world.changed(view)
        self._gathered.append(view)
        self._left -= 1
        self._version = world.version
        key = task.key
        world.calls.bind.append(key)
        ssn.outcome.intents.append(Bind(key, task.uid, node.name, task.job_key, {}, "", (), 0))
        world.times.started(job)
        return True

    def _find(self, view: TaskView) -> bool:
        if self._nowhere == (view.task.klass.id, self._world.version):
            return False
        node, self._left = self._best.at_once(view)
        self._node, self._klass, self._version = node, view.task.klass, self._world.version
        if node is None or (view.request.devices and self._world.nodes.shared.get(node.row)):
            self._left = 0  # which GPU it gets is a question of its own where some are shared
        if not self._left:
            self._nowhere = (view.task.klass.id, self._world.version)
        return self._left > 0

    def settle(self) -> None:
        """Write in the ledgers who was bound; before anybody else looks at them."""
        self._leave_node()
        placed, self._placed = self._placed, []
        if placed:
            self._world.state.bind_equal(placed)

    def _leave_node(self) -> None:
        """Have the node in mind be counted with those who were gathered for it."""
        gathered, self._gathered, self._left = self._gathered, [], 0
        if gathered:
            node = cast(Node, self._node)
            self._world.nodes.book_likes(gathered, node)
            self._placed.append((node, [view.task for view in gathered]))
