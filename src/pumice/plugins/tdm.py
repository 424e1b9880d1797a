"""tdm: nodes that are lent for some hours of the day, to tasks that may be evicted when these are over."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP, Scope
from pumice.errors import InvalidInput
from pumice.framework.arguments import Argument, ArgumentMap, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.points.forms import PERMIT, REJECT
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.job import Job, parse_bool
from pumice.model.reason import Code, reason_id
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus
Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

ZONES: Final = "tdm.revocable-zone."
DAY: Final = 24 * 60
"""Minutes."""
_WINDOW: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_OFFSET: Final = re.compile(r"([+-])([01][0-9]):([0-5][0-9])", re.ASCII)
_NUMBER: Final = re.compile(r"([0-9]{1,6})(%?)", re.ASCII)
UNKNOWN: Final = reason_id("tdm", "node(s) are in a revocable zone that the conf does not name", Code.UNRESOLVABLE)
FOR_OTHERS: Final = reason_id("tdm", "node(s) are lent only to tasks that say they may be revoked", Code.UNRESOLVABLE)


def _window(arguments: Arguments, key: str, _: object) -> tuple[int, int]:
    found = _WINDOW.fullmatch(written) if isinstance(written := arguments[key], str) else None
    if found is None:
        raise InvalidInput(f"tdm: argument {key}: must be hours such as 22:00-06:00, got {written!r}")
    return int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])


def _clock(arguments: Arguments, key: str, default: str) -> str:
    written = arguments.str(key, default)
    if _OFFSET.fullmatch(written) is None:
        raise InvalidInput(f"tdm: argument {key}: must be written +02:00, got {arguments[key]!r}")
    return written


class Tdm(Plugin):
    """Lends the nodes of revocable zones at the hours that the conf gives, and takes them back afterwards."""

    name = "tdm"
    persistent = True
    windows = ArgumentMap(
        (0, 0),
        "The hours of a zone, such as `08:00-18:00`. Hours that end before they begin go on after midnight; equal ones "
        "are the whole day.",
        name=f"{ZONES}<name>",
        values="hours",
        read=_window,
    )
    period = Argument(
        60.0,
        "The least time between two rounds in which nodes are taken back.",
        name="tdm.evict.period",
        read=Arguments.seconds,
    )
    offset = Argument(
        "+00:00", "The clock that the hours are of.", name="tdm.utc-offset", read=_clock, values="`+hh:mm`"
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._not_lent = {zone: _not_lent(zone, window) for zone, window in self.windows.items()}

    def on_session_open(self, ssn: Session) -> None:
        self._ssn, self._memory = ssn, ssn.memory
        self._as_volcano = ssn.compat.time_windows
        sign, hours, minutes = self.offset[0], int(self.offset[1:3]), int(self.offset[4:])
        minute = (ssn.now / 60 + (hours * 60 + minutes) * (-1 if sign == "-" else 1)) % DAY
        self._active = frozenset(zone for zone, window in self.windows.items() if self._is_on(window, minute))
        name, static = self.name, Scope.STATIC
        ssn.add_batch_predicate_fn(name, self._lent, scope=static, key=self._kind)
        ssn.add_batch_node_order_fn(name, self._score, scope=static, key=self._lent_to)
        ssn.add_preemptable_fn(name, self._spare)
        ssn.add_victim_tasks_fn(name, self._taken_back)
        ssn.add_job_order_key_fn(name, says_preemptable)
        ssn.add_job_pipelined_fn(name, lambda job: PERMIT if job.is_pipelined else REJECT)
        ssn.add_job_starving_fn(name, _starving)

    def _is_on(self, window: tuple[int, int], minute: float) -> bool:
        """Report whether a window is open. One that ends before it begins goes on after midnight."""
        begins, ends = window
        if begins < ends:
            return begins <= minute < ends or (self._as_volcano and minute == ends)
        return minute >= begins or (minute < ends and not self._as_volcano)

    def _kind(self, task: Task) -> Hashable:
        """The key of an answer beside the class: the hour, and whether the task may be revoked."""
        return is_revocable(task), self._active

    def _lent_to(self, task: Task) -> Hashable:
        return self._active if is_revocable(task) else SKIP

    # -- nodes ------------------------------------------------------------------------------------------------------
    def _lent(self, task: Task, rows: NodeRows) -> Reasons:
        """The node is in no zone, or it is lent now and the task may be revoked."""
        out: Reasons = np.zeros(len(rows), dtype=np.int32)
        zoned = rows.labels.has(keys.REVOCABLE_ZONE)
        if zoned.any():
            out[zoned] = UNKNOWN
            for zone in self.windows:
                here = rows.labels.equals(keys.REVOCABLE_ZONE, zone)
                closed = zone not in self._active
                out[here] = self._not_lent[zone] if closed else 0 if is_revocable(task) else FOR_OTHERS
        return out

    def _score(self, _: Task, rows: NodeRows) -> Floats:
        """100 on nodes that are lent now: they are there for tasks that may be revoked."""
        out: Floats = np.zeros(len(rows))
        for zone in self._active:
            out[rows.labels.equals(keys.REVOCABLE_ZONE, zone)] = 100.0
        return out

    # -- victims ----------------------------------------------------------------------------------------------------
    def _spare(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | tuple[list[Task], int]:
        """For a task that nobody may evict: running ones that may be evicted, on nodes of no zone."""
        if preemptor.preemptable or is_revocable(preemptor):
            return [], REJECT
        return self._within_budgets([t for t in candidates if not _zone_of(t)])

    def _taken_back(self, tasks: Sequence[Task]) -> list[Task]:
        """Running tasks on nodes whose hours are over, at most once a period."""
        last = self._memory.get("taken back at")
        if last is not None and self._ssn.now - last < self.period:
            return []
        over = {zone for zone in self.windows if zone not in self._active}
        victims = self._within_budgets([t for t in tasks if _zone_of(t) in over])
        if victims:
            self._memory["taken back at"] = self._ssn.now
        return victims

    def _within_budgets(self, tasks: Sequence[Task]) -> list[Task]:
        """Running tasks that may be evicted, of each job no more than its budget allows."""
        left: dict[str, int] = {}
        victims = []
        for task in tasks:
            if task.status is not S.RUNNING or not task.preemptable or task.job is None:
                continue
            most = left.setdefault(task.job.uid, self._most_evicted(task.job))
            if most > 0:
                left[task.job.uid] = most - 1
                victims.append(task)
        return victims

    def _most_evicted(self, job: Job) -> int:
        """How many tasks a job may lose at once: as its budget says, else one."""
        total, running = len(job.tasks), job.count(S.RUNNING)
        least = _amount(job.annotations.get(keys.JDB_MIN_AVAILABLE), total)
        if least is not None:
            if running >= least:
                return running - least
            return 1 if self._as_volcano else 0
        most = _amount(job.annotations.get(keys.JDB_MAX_UNAVAILABLE), total)
        if most is not None:
            return max(0, most - (total - job.count(S.SUCCEEDED, S.FAILED) - running))
        return 1


def is_revocable(task: Task) -> bool:
    """Report whether the task may be on nodes that are lent. It says so, or says that it may be evicted."""
    zone = task.annotations.get(keys.REVOCABLE_ZONE)
    if zone is not None:
        return zone == "*"
    return parse_bool(task.annotations.get(keys.PREEMPTABLE_KEY, "false"))


def says_preemptable(job: Job) -> bool:
    """Report whether the job itself says that it may be evicted. Those that do not go first."""
    said = job.annotations.get(keys.PREEMPTABLE_KEY, job.labels.get(keys.PREEMPTABLE_KEY))
    return said is not None and parse_bool(said)


def _starving(job: Job) -> bool:
    return not says_preemptable(job) and bool(job.with_status(S.PENDING))


def _zone_of(task: Task) -> str:
    return task.node.labels.get(keys.REVOCABLE_ZONE, "") if task.node is not None else ""


def _not_lent(zone: str, window: tuple[int, int]) -> int:
    """The objection to a node of a zone at other hours than its own."""
    begins, ends = (f"{minute // 60:02}:{minute % 60:02}" for minute in window)
    return reason_id("tdm", f"node(s) of zone {zone} are lent only from {begins} to {ends}", Code.UNRESOLVABLE)


def _amount(written: str | None, total: int) -> int | None:
    """A number of tasks, or a percentage of all, rounded up; None where it is neither."""
    found = _NUMBER.fullmatch(written) if written is not None else None
    if found is None:
        return None
    return -(-total * int(found[1]) // 100) if found[2] else int(found[1])
