"""Why an evicting action made no room for a job: what becomes of every running pod that it may look at, in numbers.

It goes as the actions go (`framework/evicting`), from cheap to exact, and asks the same questions; nothing is evicted,
and nobody is told anything. The numbers are those of the end of the cycle: who was evicted in it counts no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pumice.framework.evicting.eviction_plan import never_preempts
from pumice.framework.evicting.freed_capacity import EvictableCapacity, FromQueue, VictimQuestion, reclaimed_for
from pumice.framework.points import table as points
from pumice.framework.points.forms import ABSTAIN
from pumice.framework.session.rounds import not_back_from
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Verdict
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus
PREEMPT: Final = "preempt"
RECLAIM: Final = "reclaim"
_NODES: Final = 200
"""The pods of so many nodes are looked at: who asks waits for it, and so does the scheduler."""
_ELSEWHERE: Final = "run on nodes that do not take it whoever goes"
_NOT_ENOUGH: Final = "would not make room enough"
_ONE: Final = {"are": "is", "have": "has", "were": "was", "run": "runs"}


def evictions_in_vain(ssn: Session, task: Task) -> list[str]:
    """The findings of preempt and reclaim for a pending task, a line for each of them in the conf."""
    job = task.job
    queue = ssn.queues.get(job.queue)
    if queue is None or not ssn.search.by_rows:
        return []
    return [f"{action} {_found(ssn, action, queue, task)}" for action in ssn.actions if action in (PREEMPT, RECLAIM)]


def _found(ssn: Session, action: str, queue: Queue, task: Task) -> str:
    if passed := _passed_over(ssn, action, queue, task):
        return f"evicts nobody for it: {passed}"
    from_queue: FromQueue = queue.name.__eq__ if action == PREEMPT else reclaimed_for(ssn, queue)
    point = points.PREEMPTABLE if action == PREEMPT else points.RECLAIMABLE
    where = f"of queue {queue.name}" if action == PREEMPT else "of queues that may be reclaimed"
    statuses = (S.RUNNING, S.BOUND) if action == PREEMPT else (S.RUNNING,)
    looking = _Looking(ssn, point, from_queue, task)
    nodes = looking.nodes()
    if len(nodes) < len(ssn.nodes):
        where += f" on {len(nodes)} of {len(ssn.nodes)} nodes"
    kept = looking.kept(nodes, statuses)
    if not kept:
        return f"found nobody to evict: {_nobody(ssn, action, queue, statuses)}"
    many = kept.total()
    if len(kept) > 1:
        return f"found nobody to evict: of {many} running pods {where} {_told(kept)}"
    (why,) = kept
    return f"found nobody to evict: {_all_of(many)} {where} {why if many > 1 else _of_one(why)}"


def _passed_over(ssn: Session, action: str, queue: Queue, task: Task) -> str:
    """Why the action does not serve the job at all; nothing where it does."""
    job = task.job
    if not ssn.anybody(points.JOB_STARVING):
        return "no plugin of the conf says which jobs starve"
    if job.has_topology and action == PREEMPT:
        return "it asks for a network topology (gangpreempt serves such jobs)"
    if never_preempts(task):
        return "its pods have the preemptionPolicy Never"
    if not (starves := ssn.job_starving(job)):
        return _words(starves, "it has the pods that it needs")
    if action == RECLAIM and (over := ssn.overused(queue)):
        return _words(over, f"queue {queue.name} is above its share")
    if action == RECLAIM and not (may := ssn.preemptive(queue, [task])):
        return _words(may, f"queue {queue.name} may not reclaim for it")
    return ""


def _words(said: object, otherwise: str) -> str:
    """The text, with the plugin that said it."""
    text, plugin = (said.text, said.plugin) if isinstance(said, Verdict) else ("", "")
    return (text or otherwise) + (f" ({plugin})" if plugin else "")


class _Looking:
    """Looks at the possible victims of one action for one task."""

    def __init__(self, ssn: Session, point: VictimQuestion, from_queue: FromQueue, task: Task) -> None:
        self._ssn, self._point, self._from_queue, self._task = ssn, point, from_queue, task
        self._capacity = EvictableCapacity(ssn, point)
        self._could = self._capacity.freed_for(task, from_queue).fits(task.klass).tolist()
        self._severity = ssn.search.evaluator.view(task).severity.tolist()
        self._spared = not_back_from(ssn, task.job)
        self._filters = ssn.anybody(points.VICTIM_FILTER)

    def nodes(self) -> list[Node]:
        """The nodes whose pods are looked at: where room could be made before others, by name; not more than some."""
        ranked = sorted(self._ssn.nodes.values(), key=lambda node: (not self._hoped(node.row), node.name))
        return ranked[:_NODES]

    def _hoped(self, row: int) -> bool:
        return row < len(self._severity) and self._severity[row] <= 1 and bool(self._could[row])

    def kept(self, nodes: Iterable[Node], statuses: Iterable[TaskStatus]) -> Counter[str]:
        """Why pods of other jobs on these nodes stay, with how many stay for that."""
        found: Counter[str] = Counter()
        own, by_job = self._task.job, dict[str, str]()
        for node in nodes:
            closer = []
            for victim in node.tasks.values():
                job = victim.job
                if victim.status not in statuses or job is None or job is own or not job.in_session:
                    continue
                if not self._from_queue(job.queue):
                    continue
                if (why := by_job.get(job.uid)) is None:
                    why = by_job[job.uid] = self._whole(job)
                if why := why or self._alone(victim):
                    found[why] += 1
                else:
                    closer.append(victim)
            found.update(self._on_node(closer) if closer else ())
        return found

    def _whole(self, job: Job) -> str:
        """Why all of a job stay; nothing where some might go."""
        if job.together:
            return "are of jobs that are evicted as a whole"
        if plugin := self._capacity.kept_by(self._task.job, job):
            return f"are kept by {plugin}"
        if self._filters and not (verdict := self._ssn.victim_filter(self._task.job, job)):
            return f"are kept by {verdict.plugin or 'a plugin'}"
        return "are of jobs for which it was evicted itself lately" if job.uid in self._spared else ""

    def _alone(self, victim: Task) -> str:
        """Why a pod stays, where nobody need be asked about the others on its node; nothing where they are."""
        row = victim.row
        if not victim.preemptable:
            return "are not preemptable"
        if self._ssn.budgets.closed(victim):
            return _budget(self._ssn, victim)
        if row < 0 or row >= len(self._severity) or self._severity[row] > 1:
            return _ELSEWHERE
        return "" if self._could[row] else _NOT_ENOUGH

    def _on_node(self, victims: list[Task]) -> Iterator[str]:
        """Why those of one node stay, of whom it takes the plugins' word."""
        ssn, task = self._ssn, self._task
        asked = ssn.orders.victims(victims, task)
        free = {t.uid for t in ssn.evictable(self._point, task, asked) or ()}
        answers = [(p, {t.uid for t in chosen}) for p, (chosen, said) in self._each(asked) if said != ABSTAIN]
        for victim in asked:
            if victim.uid in free:
                yield _NOT_ENOUGH
            elif plugin := next((p for p, chosen in answers if victim.uid not in chosen), ""):
                yield f"are kept by {plugin}"
            else:
                yield _budget(ssn, victim) if answers else "are let go by no plugin of the conf"

    def _each(self, asked: list[Task]) -> list[tuple[str, tuple[list[Task], int]]]:
        return self._ssn.each(self._point, self._task, self._ssn.budgets.open(asked))


def _budget(ssn: Session, victim: Task) -> str:
    return (
        "have a disruption budget that is spent" if ssn.budgets.needed(victim) else "were not evicted when it was tried"
    )


def _told(kept: Counter[str]) -> str:
    """The reasons in words, most pods first, those that would not be enough last."""
    reasons = sorted(kept.items(), key=lambda item: (item[0] == _NOT_ENOUGH, -item[1], item[0]))
    return ", ".join(f"{n} {why if n > 1 else _of_one(why)}" for why, n in reasons)


def _all_of(many: int) -> str:
    return "the one running pod" if many == 1 else f"all {many} running pods"


def _nobody(ssn: Session, action: str, queue: Queue, statuses: Sequence[TaskStatus]) -> str:
    """If there is no candidate."""
    if action == PREEMPT:
        return f"no other job of queue {queue.name} runs"
    kept = [q for q in ssn.queues.values() if q is not queue and not q.reclaimable]
    many = sum(len(job.with_status(status)) for q in kept for job in q.jobs.values() for status in statuses)
    if not many:
        return "nothing of another queue runs"
    return f"{_all_of(many)} of other queues {'is' if many == 1 else 'are'} of such that may not be reclaimed"


def _of_one(why: str) -> str:
    first, _, rest = why.partition(" ")
    return f"{_ONE.get(first, first)} {rest}"
