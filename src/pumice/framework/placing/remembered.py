"""Waiting jobs that were refused stay so until something that the refusal follows from changes.

Groups of the backlog that allocate passed over are remembered with the ground of their refusal: their class fits
nowhere (`engine/vain.py`), all nodes together have too little room for a gang, or their queue may not take them. A
later session looks again only at groups whose jobs changed and at those whose ground is gone; the others are not
visited, and are refused in the same words. It holds where every plugin answers by the cluster alone (`Plugin.steady`)
and says what its answer about a queue follows from (`stamp`), and where nothing that is placed can make a node better
for others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from pumice.engine.fit_error import FitError
from pumice.engine.scope import Scope
from pumice.framework.placing.grounds import Ground, InVain, Known, Place, first_waiting, too_little
from pumice.framework.placing.known_groups import KnownGroups
from pumice.framework.placing.queue_refusals import as_it_stands
from pumice.framework.placing.told_later import ToldLater
from pumice.framework.placing.vain import before_trying
from pumice.framework.points import table as points
from pumice.framework.session.backlog import Backlog, Visit
from pumice.framework.session.refusals import Refusal, Stage
from pumice.model.queue import Queue
from pumice.model.resources import Number
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.engine.choose import Chooser
    from pumice.framework.session.session import Session
    from pumice.state.cluster import ClusterState


class Remembered(KnownGroups):
    """The groups of the backlog that are known to be in vain."""

    def __init__(self) -> None:
        super().__init__()
        self._signature: object = None
        self._touched = self._changed = -1
        self._total: dict[int, Number] = {}

    # -- what stands ------------------------------------------------------------------------------------------------
    def catch_up(self, ssn: Session, backlog: Backlog) -> None:
        """Forget whatever has changed since the last session."""

        def served(queue: str) -> bool:
            return not ssn.overused(ssn.queues[queue])

        chooser = ssn.search.chooser
        doubted = chooser.why_not.look_again(self._a_task_of)
        for place in self._follow(ssn.state, ssn.signature, chooser, backlog, served):
            self._drop(place)
        for klass in doubted:
            self._tell_anew(klass, chooser)
        self._changed = ssn.state.table.changed.position
        offers_change = ssn.state.total != self._total
        if offers_change:
            self._total = dict(ssn.state.total)
        if not self._by_queue:
            return
        stamp_of = stamps(ssn)
        for name, refused in list(self._by_queue.items()):
            queue = ssn.queues[name]
            now = stamp_of(queue)
            if now == refused.stamp and not offers_change:
                continue
            if len(self.queues[name]) == backlog.groups(name) and served(name) and self._refused_again(ssn, queue):
                refused.stamp = now
            else:
                self._drop_refused(name)

    def _refused_again(self, ssn: Session, queue: Queue) -> bool:
        """Ask a queue in which nobody else waits about those whom it may not take; False where it may take one now.

        What they are told has other numbers than before. Where plugins can say how the queue stands, only those who
        ask for the least are looked at, by numbers, and everybody is told when somebody reads it.
        """
        known, table = self.queues[queue.name], ssn.state.table
        least, classes = self._by_queue[queue.name].least(known)
        refusing = as_it_stands(ssn, queue) if least else None
        if refusing is None:
            return self._asked_again(ssn, queue)
        if ssn.search.evaluator.cache.nowhere.stand_any(classes, table):
            return False
        for task in least:
            if refusing(task) is None:
                return False
        part = ToldLater(known, queue.name, refusing, len(ssn.nodes), table.touched.position)
        self._tell_later(queue.name, part)
        return True

    def _asked_again(self, ssn: Session, queue: Queue) -> bool:
        """Ask a queue about those whom it may not take one by one; False where it may take one now."""
        known = self.queues[queue.name]
        found: dict[Hashable, InVain] = {}
        for group in self._by_queue[queue.name].groups:
            why = before_trying(ssn, queue, known[group].first, known[group].why.task)
            if why is None or why.ground is not Ground.QUEUE:
                for asked in (*found, group):  # they are to be visited: nothing was found out about them
                    ssn.outcome.fit_errors.pop(known[asked].first.uid)
                return False
            found[group] = why
        part = self._part(queue.name)
        self._by_queue[queue.name].look_anew()
        for group, why in found.items():
            first = known[group].first.uid
            part[group] = Known(why, known[group].entries, known[group].klass)
            errors = ssn.outcome.fit_errors.get(first)
            if errors:
                self._errors[first] = errors
        return True

    def everybody(self, state: ClusterState, signature: object, chooser: Chooser, backlog: Backlog) -> bool:
        """Between two sessions: is everybody who waits for room still known to be in vain?

        Plugins cannot be asked then, so it is not known where a refusal follows from what they say of a queue, or where
        a node changed. A gang for which there is other room than there was, and still too little, is from now on
        refused for that.
        """
        if self._by_queue or self._changed != state.table.changed.position:
            return False
        if not backlog.keep_only_waiting(state.backlog_changes.values(), (id(state), signature)):
            return False
        state.backlog_changes = {}
        others = self._follow(state, signature, chooser, backlog, lambda _: False)
        if all(len(self.queues.get(name, ())) == backlog.groups(name) for name in backlog.queues()):
            for place, why in others.items():
                entries = self.queues[place[0]][place[1]].entries
                self._refuse_for(place, Known(why, entries, None), state.table.touched.position)
            return True
        for place in others:  # whoever is served before may take of that room
            self._drop(place)
        return False

    def _follow(
        self,
        state: ClusterState,
        signature: object,
        chooser: Chooser,
        backlog: Backlog,
        served: Callable[[str], bool],
    ) -> dict[Place, InVain]:
        """Forget the groups of which a job came or went, and those for whom there is room now.

        Who joins a group whose class fits nowhere waits for that too, behind its first job, if the queue is *served*.
        Returns the gangs for which there is still too little room, but not as much as there was.
        """
        table, nowhere = state.table, chooser.evaluator.cache.nowhere
        versions = (id(state), signature, state.queue_version, table.size)
        holds_for = (*versions, backlog.generation, id(nowhere))
        changed, backlog.changes = backlog.changes, []
        nowhere.catch_up(table)
        fell, nowhere.fell = nowhere.fell, []
        self._hand_out()
        if holds_for != self._signature or fell is None:
            self._signature = holds_for
            self._forget()
            return {}
        for klass in fell:
            for place in list(self._by_class.get(klass, ())):
                self._drop(place)
        for place in dict.fromkeys(changed):
            self._regroup(place, chooser, backlog, served)
        others: dict[Place, InVain] = {}
        if self._by_room and table.touched.position != self._touched:
            for place in list(self._by_room):
                known = self.queues[place[0]][place[1]].why
                why = _still_short(chooser, known)
                if why is None:
                    self._drop(place)
                elif why is not known:
                    others[place] = why
        self._touched = table.touched.position
        return others

    def _a_task_of(self, klass: Hashable) -> Task | None:
        """A task that waits because its class fits nowhere."""
        for queue, group in self._by_class.get(klass, ()):
            return self.queues[queue][group].why.task
        return None

    def _tell_anew(self, klass: Hashable, chooser: Chooser) -> None:
        """Refuse those of a class for how nodes are that changed, and are of no use to it."""
        at = chooser.evaluator.table.touched.position
        for place in self._by_class.get(klass, ()):
            its = self.queues[place[0]][place[1]]
            error = chooser.why_not.known_hopeless(its.why.task)
            why = InVain(Refusal(Stage.NODES, error=error), Ground.NODES, its.why.task)
            self._refuse_for(place, Known(why, its.entries, klass), at)

    def _regroup(self, place: Place, chooser: Chooser, backlog: Backlog, served: Callable[[str], bool]) -> None:
        """Other jobs stand in a group than did."""
        queue, group = place
        known = self.queues.get(queue, {}).get(group)
        if known is None:
            return
        entries = backlog.entries_of(queue, group) if known.why.ground is Ground.NODES else []
        first = known.first
        if entries and entries[0][1] is first and first_waiting(first) is known.why.task and served(queue):
            error = chooser.why_not.known_hopeless(known.why.task)
            if error is not None:
                why = InVain(Refusal(Stage.NODES, error=error), Ground.NODES, known.why.task)
                self._refuse_for(place, Known(why, entries, known.klass), chooser.evaluator.table.touched.position)
                return
        self._drop(place)

    def visit(self, backlog: Backlog, queue: str) -> Visit | None:
        """The groups of a queue that are to be looked at; None if there are none."""
        known = self.queues.get(queue)
        return backlog.visit(queue, known or {}) if known is None or len(known) < backlog.groups(queue) else None

    # -- what is learned --------------------------------------------------------------------------------------------
    def note(self, ssn: Session, queue: Queue, visit: Visit, why: InVain) -> None:
        """The group of the job that a visit gave last was passed over, from its first job on."""
        entries = visit.whole_group()
        if entries is None:
            return
        known, stamp = Known(why, entries[1], None), None
        errors = ssn.outcome.fit_errors.get(known.first.uid)
        if why.ground is not Ground.ROOM:
            known.klass = ssn.search.evaluator.key_of(why.task)
        if why.ground is Ground.NODES:
            if not ssn.search.evaluator.cache.nowhere.stands(known.klass, ssn.state.table):
                return
            errors = _following(errors, why.refusal.error, ssn.state.table.touched.position)
        elif why.ground is Ground.QUEUE:
            stamp = stamps(ssn)(queue)
        self._add((queue.name, entries[0]), known, stamp, errors)


def _following(errors: dict[str, FitError] | None, now: FitError | None, at: int) -> dict[str, FitError] | None:
    """What was found out about tasks of one class, with reasons that are counted anew when rows change.

    *now*: why the class fits nowhere; *at*: where the log of touched rows stands.
    """
    if not errors or now is None:
        return errors
    now.at = at
    return {uid: error if error.text else now for uid, error in errors.items()}


def _still_short(chooser: Chooser, why: InVain) -> InVain | None:
    """Why there is too little room for a gang now; None where there is enough, or its class is known to fit nowhere."""
    short = chooser.why_not.short_of(why.task, why.needed)
    if short is None or short[0] == why.refusal.placed:
        return why if short is not None else None
    return too_little(why.task, why.needed, *short) if chooser.why_not.known_hopeless(why.task) is None else None


def remembered(ssn: Session) -> Remembered | None:
    """What is remembered for a session; None where it has to look at everybody."""
    if ssn.thorough or ssn.state.rooms or not ssn.steady or not ssn.of_registrations(can_be_remembered):
        return None
    known: Remembered | None = ssn.runtime.remembered
    if known is None:
        known = ssn.runtime.remembered = Remembered()
    return known


def can_be_remembered(ssn: Session) -> bool:
    """Does it follow from what is kept up to date, and from nothing else, whether a refusal still stands?"""
    if ssn.anybody(points.PRE_JOB_ALLOCATION) or not ssn.allocatable_by_class():
        return False
    if None in ssn.stamps_at(points.OVERUSED) + ssn.stamps_at(points.ALLOCATABLE):
        return False
    evaluator = ssn.search.evaluator
    return evaluator.fits_by_class and all(f.amounts_only for f in evaluator.filters if f.scope is Scope.NODE)


def stamps(ssn: Session) -> Callable[[Queue], Hashable]:
    """Says what the answers about a queue follow from."""
    takes = ssn.bind(points.ALLOCATABLE_STAMP)
    if ssn.of_registrations(_one_stamp):
        return takes
    over = ssn.bind(points.OVERUSED_STAMP)
    return lambda queue: (takes(queue), over(queue))


def _one_stamp(ssn: Session) -> bool:
    """Do the answers about a queue follow from the same?"""
    return ssn.stamps_at(points.OVERUSED) == ssn.stamps_at(points.ALLOCATABLE)
