"""Questions about victims: preemptable, reclaimable, victimTasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pumice.extender.hooks.talk import Talk
from pumice.extender.port import CallFailed
from pumice.extender.wire.messages import VictimsRequest, VictimsResponse
from pumice.extender.wire.verbs import PREEMPT, PREEMPTABLE, RECLAIMABLE, VICTIM_TASKS, Verb
from pumice.framework.session.session import Session
from pumice.model.status import TaskStatus
from pumice.model.task import Task

Answer = tuple[list[Task], int]


class VictimHooks:
    """Registers what the extender says about victims."""

    def __init__(self, ssn: Session, talk: Talk) -> None:
        self._talk = talk
        if talk.has(PREEMPTABLE.name):
            ssn.add_preemptable_fn(talk.name, self.preemptable)
        elif talk.has(PREEMPT.name):
            ssn.add_preemptable_fn(talk.name, self.preempt)
        if talk.has(RECLAIMABLE.name):
            ssn.add_reclaimable_fn(talk.name, self.reclaimable)
        if talk.has(VICTIM_TASKS.name):
            ssn.add_victim_tasks_fn(talk.name, self.victim_tasks)

    def preemptable(self, evictor: Task, evictees: Sequence[Task]) -> Answer:
        """Who may be preempted, and a vote (0 abstains)."""
        return self._ask(PREEMPTABLE, evictor, evictees)

    def reclaimable(self, evictor: Task, evictees: Sequence[Task]) -> Answer:
        """Who may be reclaimed, and a vote (0 abstains)."""
        return self._ask(RECLAIMABLE, evictor, evictees)

    def _ask(self, verb: Verb[VictimsRequest, VictimsResponse], evictor: Task, evictees: Sequence[Task]) -> Answer:
        talk = self._talk
        if not talk.interest.concerns(evictor):
            return [], 0
        try:
            answer = talk.conversation.ask(verb, talk.writer.victims(verb, evictor, evictees))
        except CallFailed:
            return [], talk.reading.ignored_victims if talk.ignores(verb.name) else -1
        if answer.status is TaskStatus.PENDING:
            return [], 0
        if answer.status < 0 and talk.reading.negative_rejects:
            return [], -1
        return self._known(verb, answer.uids, evictees), answer.status

    def preempt(self, evictor: Task, evictees: Sequence[Task]) -> Answer:
        """As ``preemptable``, asked of an extender made for kube-scheduler: it may drop nodes and victims."""
        talk = self._talk
        if not talk.interest.concerns(evictor):
            return [], 0
        try:
            answer = talk.conversation.ask(PREEMPT, talk.writer.preempt(evictor, evictees))
        except CallFailed:
            return [], talk.reading.ignored_victims if talk.ignores(PREEMPT.name) else -1
        uids = [task.uid for victims in answer.candidates.values() for task in victims.tasks]
        return self._known(PREEMPT, uids, evictees), 1

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Who should go although nobody waits for the room."""
        talk = self._talk
        mine = [task for task in tasks if talk.interest.concerns(task)]
        if not mine:
            return []
        try:
            answer = talk.conversation.ask(VICTIM_TASKS, talk.writer.tasks(VICTIM_TASKS, mine))
        except CallFailed:
            return []
        return self._known(VICTIM_TASKS, answer.uids, mine)

    def _known(self, verb: Verb[Any, Any], uids: Sequence[str], asked: Sequence[Task]) -> list[Task]:
        """The tasks asked about that have these UIDs, in the answer's order; others are reported."""
        by_uid = {task.uid: task for task in asked}
        unknown = [uid for uid in uids if uid not in by_uid]
        if unknown:
            self._talk.conversation.odd(verb, f"the answer names victims that were not asked about: {unknown[:3]}")
        return [by_uid[uid] for uid in dict.fromkeys(uids) if uid in by_uid]
