"""Asking: every point can be asked by name, and each answer is folded by its rule.

Here are the questions about jobs, queues and victims; `orders` says who goes first, `node_questions` where to go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from pumice.framework import answers, folds
from pumice.framework.callbacks import Callback
from pumice.framework.chains import about, identity
from pumice.framework.node_questions import NodeQuestions
from pumice.framework.orders import Orders
from pumice.model.job import Job, SubJob
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Unfit, Verdict
from pumice.model.task import Task


class Asking(Orders, NodeQuestions):
    """The questions of a session. Mixed into `Session`."""

    # -- jobs -------------------------------------------------------------------------------------------------------
    def _verdict(self, point: str, *args: Any) -> Verdict:
        chain = self.chain(point)
        if not chain:
            return PASS
        return folds.all_pass(chain, partial(self._judged, args))

    def _judged(self, args: tuple[Any, ...], callback: Callback) -> Verdict:
        """One callback's yes or no. Asked for every task, so the common answers take the short way."""
        try:
            answer = callback.fn(*args)
            if answer is PASS or answer is True or answer is None:
                return PASS
            return answers.verdict(answer)
        except Unfit:
            raise
        except Exception as exc:
            self.contain(callback.plugin, callback.point, exc, *about(args))
            return Verdict(False, "the plugin failed")

    def _vote(self, point: str, *args: Any) -> Verdict:
        chain = self.chain(point)
        if not chain:
            return PASS
        said = ""

        def ask(callback: Callback) -> int:
            nonlocal said
            vote, said = self._asked(callback, _ballot, (-1, "the plugin failed"), *args)
            return vote

        verdict = folds.tiered_vote(chain, ask)
        return verdict if verdict.passed else verdict._replace(text=said)

    def job_ready(self, job: Job) -> Verdict:
        """May the job's placements be committed?"""
        return self._verdict("job_ready", job)

    def more_needed(self, job: Job) -> int:
        """How many more tasks must be placed, at least, before `job_ready` can be a yes; 1 when nobody can say."""
        return max((c.needs(job) for tier in self.chain("job_ready") for c in tier if c.needs), default=1)

    def needed_to_keep(self, job: Job) -> int:
        """How many more tasks must be placed, at least, before anything of the job is kept; 1 when nobody can say.

        A plugin that lets jobs wait with less than they need (sla does) is asked, so nobody can say.
        """
        known = {c.plugin for tier in self.chain("job_ready") for c in tier if c.needs}
        if any(c.plugin not in known for tier in self.chain("job_pipelined") for c in tier):
            return 1
        return self.more_needed(job)

    def sub_job_ready(self, job: Job, sub_job: SubJob | None) -> Verdict:
        """May the sub-job's placements be kept? Jobs without policies are asked as a whole."""
        return self.job_ready(job) if sub_job is None else self._verdict("sub_job_ready", sub_job)

    def job_pipelined(self, job: Job) -> Verdict:
        """May the job wait for resources that are being released?"""
        return self._vote("job_pipelined", job)

    def sub_job_pipelined(self, job: Job, sub_job: SubJob | None) -> Verdict:
        """May the sub-job wait? Jobs without policies are asked as a whole."""
        return self.job_pipelined(job) if sub_job is None else self._vote("sub_job_pipelined", sub_job)

    def job_valid(self, job: Job) -> Verdict:
        """Is the job worth trying?"""
        if job.problem:
            return Verdict(False, job.problem, "pumice", "Invalid")
        return self._verdict("job_valid", job)

    def job_enqueueable(self, job: Job) -> Verdict:
        """May the job be let into its queue?"""
        return self._vote("job_enqueueable", job)

    def enqueue_key(self, job: Job) -> Hashable | None:
        """Jobs of equal keys get equal votes until the next job is let in; None when somebody does not say."""
        keys = []
        for tier in self.chain("job_enqueueable"):
            for c in tier:
                if c.key is None:
                    return None
                keys.append(c.key(job))
        return tuple(keys)

    def enqueue_keys_last(self) -> bool:
        """Do the `enqueue_key`s of jobs hold until the jobs change?"""
        return all(c.lasting for tier in self.chain("job_enqueueable") for c in tier)

    def job_enqueued(self, job: Job) -> None:
        """The job was let into its queue."""
        self._broadcast("job_enqueued", job)

    def job_starving(self, job: Job) -> bool:
        """Does the job need others to make room?"""
        return folds.first_tier_all(self.chain("job_starving"), lambda c: self._asked(c, answers.truth, False, job))

    def pre_job_allocation(self, job: Job) -> None:
        """An attempt to place the job begins."""
        self._broadcast("pre_job_allocation", job)

    # -- queues -----------------------------------------------------------------------------------------------------
    def overused(self, queue: Queue) -> str:
        """The plugin that says the queue is above its share, or nothing."""
        return folds.any_true(self.chain("overused"), lambda c: self._asked(c, answers.truth, True, queue))

    def allocatable(self, queue: Queue, task: Task) -> Verdict:
        """May the queue take the task?"""
        return self._verdict("allocatable", queue, task)

    def allocatable_by_class(self) -> bool:
        """Does `allocatable` depend on nothing but the queue and the class of a task?"""
        return all(c.room is not None for tier in self.chain("allocatable") for c in tier)

    def allocatable_room(self, queue: Queue, task: Task, wanted: int) -> int:
        """How many equal tasks in a row the queue would take, up to *wanted*; 0 when somebody cannot say."""
        room = wanted
        for tier in self.chain("allocatable"):
            for c in tier:
                if c.room is None:
                    return 0
                room = min(room, c.room(queue, task))
        return max(room, 0)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> Verdict:
        """May the queue reclaim for these tasks?"""
        chain = self.chain("preemptive")
        if len(tasks) != 1 or any(c.key is None for tier in chain for c in tier):
            return self._verdict("preemptive", queue, tasks)
        position = self.state.table.touched.position
        if self._preemptive_at != position:
            self._preemptive.clear()
            self._preemptive_at = position
        task = tasks[0]
        known = queue.name, task.klass.id, *(c.key(task) for tier in chain for c in tier if c.key)
        answer = self._preemptive.get(known)
        if answer is None:
            answer = self._preemptive[known] = self._verdict("preemptive", queue, tasks)
        return answer

    # -- victims ----------------------------------------------------------------------------------------------------
    @property
    def _lenient(self) -> bool:
        """Does an empty answer about victims pass the decision on?"""
        return self.compat.victims_fold

    def victim_profiles(
        self, point: str
    ) -> list[tuple[Callable[[Job], Hashable], Callable[[Hashable, Hashable], bool]]]:
        """What plugins of the deciding tier declared about whose tasks they never let go: (profile, admits)."""
        tiers = self.chain(point)
        if not tiers or self._lenient:
            return []
        return [(c.profile, c.admits) for c in tiers[0] if c.profile is not None and c.admits is not None]

    def _victims(self, point: str, evictor: Any, candidates: Sequence[Task]) -> list[Task] | None:
        """Whom the plugins let go, as far as disruption budgets last."""
        candidates = self.budgets.open(candidates)

        def ask(callback: Callback) -> tuple[Sequence[Task], int]:
            failed: tuple[Sequence[Task], int] = ((), -1)
            return self._asked(callback, answers.victims, failed, evictor, list(candidates))

        chosen = folds.victims(self.chain(point), ask, as_volcano=self._lenient)
        return chosen and self.budgets.together(chosen)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """Who may be preempted for the task; None when nobody decided."""
        return self._victims("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """Who may be reclaimed for the task; None when nobody decided."""
        return self._victims("reclaimable", reclaimer, candidates)

    def unified_evictable(self, context: Any, candidates: Sequence[Task]) -> list[Task] | None:
        """Who may be evicted by a gang action; None when nobody decided."""
        return self._victims("unified_evictable", context, candidates)

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Running tasks that should go although nobody waits for their room."""
        open_to_it = self.budgets.open(tasks)
        named = folds.union(self.chain("victim_tasks"), lambda c: self._asked(c, list, [], open_to_it))
        return self.budgets.together(named)

    def victim_filter(self, pending: Job, victim: Job) -> bool:
        """May this job be a victim of that one at all?"""
        return self._verdict("victim_filter", pending, victim).passed

    def scenario_validator(self, scenario: Any) -> Verdict:
        """Is the whole plan acceptable?"""
        return self._verdict("scenario_validator", scenario)

    def target_job(self, jobs: Sequence[Job]) -> Job | None:
        """The job that resources should be kept for."""
        for tier in self.chain("target_job"):
            for c in tier:
                return self._asked(c, identity, None, jobs)  # type: ignore[no-any-return]
        return None

    def reserved_nodes(self) -> None:
        """Let plugins choose nodes to keep free."""
        self._broadcast("reserved_nodes")


def _ballot(answer: Any) -> tuple[int, str]:
    """A vote with what was said about it."""
    return answers.vote(answer), answer.text if isinstance(answer, Verdict) else ""
