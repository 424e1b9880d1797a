"""Why jobs were not served in a cycle. Jobs that are refused together share one refusal, spelt out when asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from pumice.engine.diagnosis import FitError
from pumice.errors import words_of
from pumice.framework.points.guard import FAILS, let_pass
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.limit import Limit
from pumice.model.reason import Verdict, Words


class Stage(StrEnum):
    """How far a job came in a cycle."""

    ABSENT = "absent"
    """It has no PodGroup or no queue, so nobody looked at it."""
    ENQUEUE = "enqueue"
    """It was not let into its queue."""
    VALID = "valid"
    """It was not worth trying."""
    QUEUE = "queue"
    """Its queue may not take it now."""
    NODES = "nodes"
    """No node is good enough for one of its tasks."""
    TOPOLOGY = "topology"
    """It asks for a network topology that cannot be had."""
    READY = "ready"
    """Its tasks have places, but not enough of them, or they wait for room that is being released."""
    OBJECTION = "objection"
    """A plugin that follows placements objected to one of its."""
    BIND = "bind"
    """What must be done before a bind could not be prepared."""
    REFUSED = "refused"
    """A bind was refused, a cycle failed at it, or it lost surplus too often: it is tried again later."""
    EVICTION = "eviction"
    """A plan to make room for it was refused."""
    UNSEEN = "unseen"
    """Nobody refused it, and nobody placed it."""
    SERVED = "served"
    """It has what it needs to run."""

    @property
    def code(self) -> ReasonCode:
        """The word for programs."""
        return _CODES[self]


_CODES: Final = {
    Stage.ABSENT: ReasonCode.NO_POD_GROUP,
    Stage.ENQUEUE: ReasonCode.NOT_LET_IN,
    Stage.VALID: ReasonCode.NOT_VALID,
    Stage.QUEUE: ReasonCode.QUEUE_REFUSED,
    Stage.NODES: ReasonCode.NO_NODE_FITS,
    Stage.TOPOLOGY: ReasonCode.TOPOLOGY_NOT_MET,
    Stage.READY: ReasonCode.GANG_NOT_READY,
    Stage.OBJECTION: ReasonCode.PLACEMENT_REFUSED,
    Stage.BIND: ReasonCode.BIND_NOT_PREPARED,
    Stage.REFUSED: ReasonCode.BIND_REFUSED,
    Stage.EVICTION: ReasonCode.PLAN_REFUSED,
    Stage.UNSEEN: ReasonCode.NOT_TRIED,
    Stage.SERVED: ReasonCode.SERVED,
}


def stage_of_invalid(said: Verdict) -> Stage:
    """The stage at which a job that is not worth trying was stopped: some reasons have their own."""
    stages: dict[str, Stage] = {
        ReasonCode.TOPOLOGY_NOT_MET: Stage.TOPOLOGY,
        ReasonCode.BIND_REFUSED: Stage.REFUSED,
        ReasonCode.SET_ASIDE: Stage.REFUSED,
        ReasonCode.SURPLUS_PAUSED: Stage.REFUSED,
    }
    return stages.get(said.reason, Stage.VALID)


class Refusal:
    """The stage that stopped a job and what was said, by whom, with what would help."""

    __slots__ = ("_advice", "_text", "_told", "code", "error", "limits", "placed", "plugin", "stage")

    def __init__(
        self,
        stage: Stage,
        text: str = "",
        plugin: str = "",
        error: FitError | None = None,
        advice: Words = "",
        limits: tuple[Limit, ...] = (),
        placed: int = 0,
        reason: str = "",
    ) -> None:
        self.code = reason or stage.code
        """What stopped it in one word: that of who refused, else that of the stage."""
        self.stage, self.plugin, self.error, self.limits = stage, plugin, error, limits
        self.placed = placed
        """How many of its tasks had found a place before one did not; all were taken back."""
        self._text, self._advice, self._told = text, advice, ""

    @classmethod
    def of(cls, stage: Stage, said: Verdict | str, plugin: str = "", otherwise: str = "") -> Refusal:
        """A refusal in the words of who refused; *otherwise* where he said none."""
        if isinstance(said, str):
            return cls(stage, said or otherwise, plugin)
        words = said.text or otherwise, said.plugin or plugin
        return cls(stage, *words, advice=said.advice, limits=said.limits, reason=said.reason)

    @property
    def text(self) -> str:
        """What stopped it, in words."""
        return self._text or (str(self.error) if self.error is not None else "")

    @property
    def advice(self) -> str:
        """What would help, in the words of who refused; nothing where he did not say, or cannot."""
        if not callable(self._advice):
            return self._advice
        try:
            return words_of(self._advice())
        except FAILS as exc:  # a plugin's own code: what it would have advised is not worth the answer to why
            let_pass(exc)
            return ""

    @property
    def told(self) -> str:
        """What stopped it, with the numbers. Put together once: many jobs share a refusal."""
        if not self.limits:
            return self.text
        if not self._told:
            self._told = "; ".join([self.text, *map(str, self.limits)])
        return self._told

    def __repr__(self) -> str:
        return f"Refusal({self.stage!r}, {self.text!r}, {self.plugin!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and (self.stage, self.text, self.plugin) == (
            other.stage,
            other.text,
            other.plugin,
        )

    __hash__ = None  # type: ignore[assignment]


class Refusals(Mapping[str, Refusal]):
    """Job -> refusal. What was refused in groups is listed job by job only when somebody reads it."""

    def __init__(self) -> None:
        self._known: dict[str, Refusal] = {}
        self._groups: list[tuple[Callable[[], Iterable[Job]], Refusal]] = []
        self._rest: dict[str, Refusal] = {}
        """Queue -> why everybody who is left in it was refused."""
        self._classes: dict[tuple[str, Hashable], Refusal] = {}
        """(queue, group of the backlog) -> why everybody who is left in the group was refused."""

    def add(self, job: Job, refusal: Refusal) -> None:
        """One job was refused; a later refusal replaces an earlier one."""
        self._known[job.uid] = refusal

    def add_group(self, jobs: Callable[[], Iterable[Job]], refusal: Refusal, rest_of: str = "") -> None:
        """Several jobs were refused for one reason. *rest_of*: they are all who are left in that queue."""
        self._groups.append((jobs, refusal))
        if rest_of:
            self._rest.setdefault(rest_of, refusal)

    def add_class(self, queue: str, group: Hashable, jobs: Callable[[], Iterable[Job]], refusal: Refusal) -> None:
        """Everybody who is left in a group of a queue's backlog was refused."""
        self._groups.append((jobs, refusal))
        self._classes.setdefault((queue, group), refusal)

    def of(self, job: Job, group: Hashable = None) -> Refusal | None:
        """Why a waiting job was refused, without spelling out everybody else where that can be known.

        *group*: where the job stands in the backlog.
        """
        known = self._known.get(job.uid) or self._classes.get((job.queue, group))
        if known is not None:
            return known
        if len(self._groups) == 1 and job.queue in self._rest:
            return self._rest[job.queue]
        return self._spell_out().get(job.uid)

    def tells(self, job: Job) -> bool:
        """Was this job refused by itself?"""
        return job.uid in self._known

    def of_itself(self, job: Job) -> Refusal | None:
        """Why this job was refused by itself, not with others."""
        return self._known.get(job.uid)

    def discard(self, job: Job) -> None:
        """The job was served after all."""
        self._known.pop(job.uid, None)

    def _spell_out(self) -> dict[str, Refusal]:
        groups, self._groups = self._groups, []
        for jobs, refusal in groups:
            for job in jobs():
                self._known.setdefault(job.uid, refusal)
        return self._known

    def __getitem__(self, uid: str) -> Refusal:
        return self._spell_out()[uid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spell_out())

    def __len__(self) -> int:
        return len(self._spell_out())
