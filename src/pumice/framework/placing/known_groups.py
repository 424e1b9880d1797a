"""Groups of the backlog that were passed over, by queue and by what their refusals follow from."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from pumice.engine.fit_error import FitError
from pumice.framework.placing.grounds import Ground, Known, Place
from pumice.framework.placing.told_later import LaterErrors, ToldLater, least_asking
from pumice.framework.session.fit_errors import FitErrors
from pumice.framework.session.refusals import Refusals
from pumice.model.task import Task


@dataclass(slots=True)
class RefusedByQueue:
    """The groups that a queue may not take."""

    stamp: Hashable
    """What the answers about it followed from."""
    groups: set[Hashable]
    _least: tuple[list[Task], set[Hashable]] | None = None

    def add(self, group: Hashable) -> None:
        """Another one."""
        self.groups.add(group)
        self.look_anew()

    def discard(self, group: Hashable) -> None:
        """One less."""
        self.groups.discard(group)
        self.look_anew()

    def look_anew(self) -> None:
        """They are others, or known for something else."""
        self._least = None

    def least(self, known: Mapping[Hashable, Known]) -> tuple[list[Task], set[Hashable]]:
        """Those of their tasks who ask for so little that nobody is refused unless they are, and the classes of all.

        None of them where the queue was not asked about each task by itself. Found out once for the same groups.
        """
        if self._least is None:
            mine = [known[group] for group in self.groups]
            alone = all(its.why.alone for its in mine)
            self._least = least_asking([its.why.task for its in mine]) if alone else [], {its.klass for its in mine}
        return self._least


class KnownGroups:
    """What was handed out of it stays as it is: a queue's part is copied before it is changed."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.queues: dict[str, Mapping[Hashable, Known]] = {}
        self._errors: dict[str, dict[str, FitError]] = {}
        """Job -> task -> why it fits nowhere, of the first job of each group; but of those who are told later."""
        self._firsts: dict[str, Place] = {}
        """First job of a group that its queue may not take -> the group."""
        self._by_class: dict[Hashable, set[Place]] = {}
        self._by_room: set[Place] = set()
        self._by_queue: dict[str, RefusedByQueue] = {}
        self._own: dict[str, dict[Hashable, Known]] = {}
        """The parts of queues that were not handed out since they were last changed."""
        self._later: set[str] = set()
        """The queues whose groups are told later of how it stands in this session."""

    def _hand_out(self) -> None:
        """What is there so far stays as it is."""
        self._own, self._later = {}, set()
        self.queues, self._errors = dict(self.queues), dict(self._errors)

    def stand(self, refusals: Refusals, errors: FitErrors) -> None:
        """Have a session, or a report, tell those who are known what they are told."""
        refusals.stand(self.queues)
        if any(isinstance(part, ToldLater) for part in self.queues.values()):
            later = LaterErrors(self._errors, dict(self._firsts), self.queues, frozenset(self._later))
            errors.stand(later, later.found_now)
        else:
            errors.stand(self._errors)

    def _add(self, place: Place, known: Known, stamp: Hashable, errors: dict[str, FitError] | None) -> None:
        self._drop(place)
        queue, group = place
        self._part(queue)[group] = known
        if errors:
            self._errors[known.first.uid] = errors
        if known.why.ground is Ground.NODES:
            self._by_class.setdefault(known.klass, set()).add(place)
        elif known.why.ground is Ground.ROOM:
            self._by_room.add(place)
        else:
            if queue in self._by_queue and self._by_queue[queue].stamp != stamp:
                self._drop_refused(queue)
            self._by_queue.setdefault(queue, RefusedByQueue(stamp, set())).add(group)
            self._firsts[known.first.uid] = place

    def _drop(self, place: Place) -> None:
        queue, group = place
        if group not in self.queues.get(queue, {}):
            return
        known = self._part(queue).pop(group)
        self._errors.pop(known.first.uid, None)
        self._firsts.pop(known.first.uid, None)
        self._by_room.discard(place)
        places = self._by_class.get(known.klass)
        if places is not None:
            places.discard(place)
            if not places:
                del self._by_class[known.klass]
        refused = self._by_queue.get(queue)
        if refused is not None:
            refused.discard(group)
            if not refused.groups:
                del self._by_queue[queue]

    def _part(self, queue: str) -> dict[Hashable, Known]:
        """The groups of a queue, to be changed; reports that have them keep theirs."""
        own = self._own.get(queue)
        if own is None:
            part = self.queues.get(queue, {})
            own = self._own[queue] = dict(part)
            self.queues[queue] = own
            if isinstance(part, ToldLater):
                self._later.discard(queue)
                self._errors.update(part.errors())
        return own

    def _drop_refused(self, queue: str) -> None:
        for group in list(self._by_queue[queue].groups):
            self._drop((queue, group))

    def _refuse_for(self, place: Place, known: Known, at: int) -> None:
        """Refuse a group for what is found in the present state of the nodes."""
        queue, group = place
        self._part(queue)[group] = known
        error = known.refusal.error
        if error is not None:
            error.at = at
            self._errors[known.first.uid] = {known.why.task.uid: error}

    def _tell_later(self, queue: str, part: ToldLater) -> None:
        """Refuse those whom a queue may not take for how it stands now."""
        before = self.queues[queue]
        self.queues[queue] = part
        self._own.pop(queue, None)
        self._later.add(queue)
        if not isinstance(before, ToldLater):
            for group in self._by_queue[queue].groups:
                self._errors.pop(before[group].first.uid, None)
