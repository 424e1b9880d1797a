"""The plugin: bounds of queues made into orders, vetoes and victims, for a queue and everything above it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from pumice.engine.views import same_class
from pumice.framework import quota
from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import EventHandler
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.limit import Bound, limit
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.resources import PODS, Number, Resources
from pumice.model.task import Task
from pumice.plugins.capacity.claim_quota import Amounts, Claims, device_limits
from pumice.plugins.capacity.tree import Branch, QueueTree, common_level, rivals
from pumice.plugins.capacity.victims import CapacityVictims


class Capacity(Plugin):
    """Bounds what queues hold by ``capability``, ``guarantee`` and ``deserved``; with ``enableHierarchy`` in a tree."""

    name = "capacity"
    persistent = True
    level = Argument(
        0,
        "How many levels of parents take part in reclaim; only with `enableHierarchy`.",
        name="ancestorReclaimLevel",
        minimum=0,
        lenient=True,
    )
    counts_claims = Argument(
        True,
        "Count device claims against `deviceclass/<class>` limits.",
        name="capacity.DynamicResourceAllocationEnable",
    )
    counts_capacity = Argument(
        False, "Also count `<dimension>.deviceclass/<class>`.", name="capacity.DRAConsumableCapacityEnable"
    )

    # -- opening --------------------------------------------------------------------------------------------------
    def _begin(self, ssn: Session) -> None:
        self._ssn = ssn
        self._ahead: dict[str, dict[int, Number]] = {}
        self._shares: dict[str, tuple[int, float]] = {}
        self._dirty: set[str] = set()
        self._refused: tuple[object, Verdict] = (None, PASS)
        self._hierarchy = ssn.flag("enableHierarchy")
        tree = self._tree = self._current_tree(ssn)
        tree.sync()
        self._stuck = self._not_ready(ssn)
        self._frozen: dict[str, float] = {}
        if self._hierarchy and ssn.compat.stale_ancestor_shares:
            self._frozen = {b.name: _share(b) for b in tree.inner}
        limits = self._device_limits if self.counts_claims else {}
        self._claims = Claims(ssn, tree, limits, capacity=self.counts_capacity) if limits else None
        self._reclaim = CapacityVictims(ssn, tree, self.level if self._hierarchy else 0, self._sync)
        self._admission = quota.Admission(ssn)

    def on_session_open(self, ssn: Session) -> None:
        self._begin(ssn)
        tree = self._tree
        if tree.inner or self._claims is not None:
            ssn.add_event_handler(
                EventHandler(allocate_many=self._changed, deallocate_many=self._changed, plugin=self.name)
            )
        if self._hierarchy:
            ssn.add_queue_order_fn(self.name, self._compare)
            ssn.add_victim_queue_order_fn(self.name, self._nearer)
        else:
            ssn.add_queue_order_key_fn(self.name, self._order)
        ssn.add_allocatable_fn(self.name, self._allocatable, max_tasks=self._max_tasks)
        ssn.add_preemptive_fn(self.name, self._preemptive, key=same_class)
        ssn.add_reclaimable_fn(self.name, self._reclaimable)
        ssn.add_unified_evictable_fn(self.name, self._evictable)
        key = self._same_question if self._claims is None else None  # claims are objects of their own
        ssn.add_job_enqueueable_fn(self.name, self._enqueueable, key=key)
        ssn.add_job_enqueued_fn(self.name, self._enqueued)

    def _current_tree(self, ssn: Session) -> QueueTree:
        state, memory = ssn.state, ssn.memory
        known: tuple[object, QueueTree, dict[str, Amounts]] | None = memory.get("_tree")
        signature = (id(state), state.queue_version, dict(state.total), self._hierarchy)
        if known is not None and known[0] == signature:
            self._device_limits = known[2]
            return known[1]
        tree = QueueTree(state.queues, state.total, hierarchy=self._hierarchy)
        ssn.outcome.intents.extend(quota.queue_notes(known[1].problems if known is not None else {}, tree.problems))
        self._device_limits = device_limits(tree)
        memory["_tree"] = signature, tree, self._device_limits
        return tree

    def _not_ready(self, ssn: Session) -> str:
        """As in Volcano, one bad queue, or one job in a queue that has others below it, stops everything."""
        if not self._hierarchy or not ssn.compat.one_bad_queue:
            return ""
        misplaced = [b.name for b in self._tree.inner if b.queue is not None and b.queue.jobs]
        return self._tree.broken or (f"queue {misplaced[0]} has jobs and is not a leaf" if misplaced else "")

    def _changed(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.job is not None:
                self._dirty.add(task.job.queue)
        if self._claims is not None:
            self._claims.changed(tasks)

    def _sync(self) -> None:
        """Let inner branches know what their queues hold now."""
        asides = self._ssn.state.asides
        if self._dirty or asides:
            self._tree.sync(self._dirty | asides if asides else self._dirty)
            self._dirty.clear()

    def _refusal(self, queue: Queue) -> Verdict:
        """Why the queue may take nothing at all, or a yes."""
        if not quota.is_open(queue) and not self._ssn.simulates:
            return quota.not_open(queue)
        if self._stuck:
            return reject(self._stuck)
        if self._hierarchy:
            branch = self._tree.branches[queue.name]
            if branch.problem:
                return reject(branch.problem)
            if not branch.is_leaf:
                below = " or ".join(sorted(child.name for child in branch.children)[:3])
                text = f"queue {queue.name} is not a leaf: jobs must be in one of the queues below it"
                return reject(text, advice=f"its job in queue {below}")
        return PASS

    def _bound(self, branch: Branch, d: int) -> tuple[Bound, str]:
        """The bound that keeps a queue from ever holding more of a resource."""
        queue, most = branch.queue, branch.limit.get(d, 0)
        if queue is not None and queue.capability.get(d, -1) == most:
            return Bound.CAPABILITY, ""
        if branch.parent is not None:
            return Bound.PARENT, f"queue {branch.parent.name}"
        return (Bound.GUARANTEES if most < self._ssn.state.total.get(d, 0) else Bound.CLUSTER), ""

    # -- order ----------------------------------------------------------------------------------------------------
    def _share(self, branch: Branch) -> float:
        if branch.children:
            frozen = self._frozen.get(branch.name)
            if frozen is not None:
                return frozen
            self._sync()
            return _share(branch)
        queue = branch.queue
        if queue is None:
            return _share(branch)
        known = self._shares.get(branch.name)
        if known is None or known[0] != queue.version:
            known = self._shares[branch.name] = queue.version, _share(branch)
        return known[1]

    def _order(self, queue: Queue) -> tuple[int, float, bool]:
        branch = self._tree.branches[queue.name]
        return -queue.priority, self._share(branch), branch.best_effort

    def _compare(self, left: Queue, right: Queue) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        a, b = self._tree.branches[left.name], self._tree.branches[right.name]
        if a.is_leaf != b.is_leaf:
            return -1 if a.is_leaf else 1
        if a.is_leaf:
            a, b = rivals(a, b)
        mine, theirs = (self._share(a), a.best_effort), (self._share(b), b.best_effort)
        return (mine > theirs) - (mine < theirs)

    def _nearer(self, left: Queue, right: Queue, preemptor: Queue) -> int:
        """Victims are taken first from the queue that shares most of its line with the one they are taken for."""
        of = self._tree.branches
        return common_level(of[right.name], of[preemptor.name]) - common_level(of[left.name], of[preemptor.name])

    # -- vetoes ---------------------------------------------------------------------------------------------------
    def _allocatable(self, queue: Queue, task: Task) -> Verdict:
        refusal = self._refusal(queue)
        if not refusal:
            return refusal
        self._sync()
        items = task.klass.items
        for branch in self._tree.branches[queue.name].path():
            if self._claims is not None and not self._claims.allocatable(branch, task):
                return reject(f"device quota of queue {branch.name} insufficient")
            if not quota.fits(branch.limit, branch.used(), items):
                return self._full(queue, branch, task)
        return PASS

    def _full(self, queue: Queue, branch: Branch, task: Task) -> Verdict:
        """Why a branch cannot take the task; the rest of a gang is told the same."""
        asked = (branch.name, queue.version, task.klass, task.job, self._ssn.state.table.touched.position)
        if self._refused[0] != asked:
            self._refused = asked, self._insufficient(queue, branch, task.klass.items, own=quota.just_placed(task))
        return self._refused[1]

    def _insufficient(
        self,
        queue: Queue,
        branch: Branch,
        request: quota.Items,
        *,
        own: quota.Ledger | None = None,
        promised: quota.Ledger | None = None,
    ) -> Verdict:
        used = dict(branch.used())
        if promised:
            quota.added(used, promised.items())
        limits = quota.lacking(
            *(f"queue {branch.name}", branch.limit, used, request, partial(self._bound, branch)),
            own=own,
            promised=promised,
        )
        return quota.insufficient(limits, "" if branch.name == queue.name else f" (in queue {branch.name} above it)")

    def _max_tasks(self, queue: Queue, task: Task) -> int:
        if not self._refusal(queue):
            return 0
        if self._claims is not None and self._claims.concerns(task):
            return 0
        self._sync()
        items = task.klass.items
        return min(quota.room(b.limit, b.used(), items) for b in self._tree.branches[queue.name].path())

    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> Verdict:
        """Report whether it may reclaim: below its limit with the tasks, and in one resource at least within its
        deserved amount."""
        if not quota.is_open(queue) or self._stuck:
            return self._refusal(queue)
        branch = self._tree.branches[queue.name]
        if branch.problem:
            return reject(branch.problem)
        self._sync()
        request, used = Resources(quota.summed(tasks)), branch.used()
        if not quota.fits(branch.limit, used, request.items()):
            return self._insufficient(queue, branch, request.items())
        levels = range(1, self.level + 1) if self._hierarchy else ()
        for own in (branch, *(branch.above(level) for level in levels)):
            if own is not None:
                held = own.used()
                after = Resources({d: held.get(d, 0) + v for d, v in request.items()})
                if after.less_equal_partly_requested(own.deserved, request, drop_zeros=True):
                    return PASS
        limits = tuple(
            limit(f"queue {queue.name}", d, (used.get(d, 0), branch.deserved.get(d), v), Bound.DESERVED)
            for d, v in request.items()
            if v > 0 and d != PODS
        )
        text = f"queue {queue.name} holds all that it deserves of what the task asks for"
        return reject(text, advice=f"a higher deserved of queue {queue.name}", limits=limits)

    # -- victims --------------------------------------------------------------------------------------------------
    def _reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        return [] if self._stuck else self._reclaim.victims(reclaimer, candidates)

    def _evictable(self, context: object, candidates: Sequence[Task]) -> list[Task]:
        if getattr(context, "kind", "") == "GangPreempt":
            return list(candidates)
        return [] if self._stuck else self._reclaim.spare(candidates)

    # -- admission ------------------------------------------------------------------------------------------------
    def _enqueueable(self, job: Job) -> Verdict:
        queue = self._ssn.queues[job.queue]
        refusal = self._refusal(queue)
        if not refusal:
            return refusal
        if job.min_resources is None and (self._claims is None or not self._claims.wanted(job)):
            return PASS
        self._sync()
        minimum = list(job.min_resources.items()) if job.min_resources is not None else []
        for branch in self._tree.branches[queue.name].path():
            coming = self._still_to_come(branch)
            used = dict(branch.used())
            quota.added(used, coming.items())
            quota.added(used, self._admission.for_the_taking(job).items(), -1)
            if not quota.fits(branch.limit, used, minimum):
                return self._insufficient(queue, branch, minimum, promised=coming)
            if self._claims is not None and not self._claims.enqueueable(branch, job):
                where = "" if branch.name == queue.name else f" (in queue {branch.name} above it)"
                return reject(f"queue resource quota insufficient: insufficient dra-resource-exceeded{where}")
        return PASS

    def _still_to_come(self, branch: Branch) -> dict[int, Number]:
        """The outstanding amounts of admitted jobs, less the amounts that jobs hold beyond their minimum."""
        ahead = self._ahead.get(branch.name)
        if ahead is None:
            ahead = self._ahead[branch.name] = {}
            for leaf in branch.leaves():
                if leaf.queue is not None:
                    quota.added(ahead, self._admission.promised(leaf.queue).items())
                    quota.added(ahead, leaf.queue.elastic.amounts.items(), -1)
        return ahead

    def _enqueued(self, job: Job) -> None:
        branch = self._tree.branches.get(job.queue)
        if branch is None:
            return
        if job.min_resources is not None:
            more = list(job.without_gated(job.min_resources).items())
            for above in branch.path():
                quota.added(self._still_to_come(above), more)
        if self._claims is not None:
            self._claims.enqueued(branch, job)

    def _same_question(self, job: Job) -> Hashable:
        if self._claims is not None and self._claims.wanted(job):
            return job.uid
        return job.queue, job.min_resources, self._admission.kind(job)

    # -- metrics --------------------------------------------------------------------------------------------------
    def on_session_close(self, ssn: Session) -> None:
        """Publish the figures of the queues that changed since they were last published."""
        if not ssn.metrics.wanted:
            return
        metrics = ssn.metrics
        published: dict[str, object] = ssn.memory.setdefault("_published", {})
        for branch in self._tree.branches.values():
            queue = branch.queue
            if queue is None:
                continue
            stamp = (queue.version, id(branch))
            if published.get(queue.name) == stamp:
                continue
            published[queue.name] = stamp
            for above in branch.path():
                self._publish(above)
            quota.publish(metrics, queue.name, "request", (queue.allocated + queue.pending).amounts)
            quota.publish(metrics, queue.name, "inqueue", queue.inqueue.amounts)
        for name in published.keys() - self._tree.branches.keys():
            del published[name]

    def _publish(self, branch: Branch) -> None:
        metrics, name = self._ssn.metrics, branch.name
        self._sync()
        quota.publish(metrics, name, "allocated", branch.used())
        quota.publish(metrics, name, "deserved", dict(branch.deserved.items()))
        quota.publish(metrics, name, "capacity", branch.capability)
        quota.publish(metrics, name, "real_capacity", branch.limit)
        share = _share(branch)
        metrics.gauge("queue_share", share, queue_name=name)
        metrics.gauge("queue_overused", float(share > 1), queue_name=name)


def _held(queue: Queue) -> Hashable:
    """The answer about a flat queue follows from the amounts that it holds; its bounds are its own."""
    return tuple(queue.held.amounts.items())


def _share(branch: Branch) -> float:
    """How much of what it deserves a branch holds, in the resource of which it holds most; 1 if it deserves nothing."""
    return 1.0 if branch.best_effort else quota.largest_share(branch.used(), branch.counted)
