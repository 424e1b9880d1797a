"""Every question of the protocol, declared once: parts, answer, points, who asks it, and what a failed call means.

How questions are written and read, which hook a verb becomes, how a served policy answers it, the OpenAPI document, the
check and the pages follow from this table. A new verb is one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pumice.extender import answers as a
from pumice.extender.answers import Answer

A_co = TypeVar("A_co", bound=Answer, covariant=True)


class PartKind(StrEnum):
    """The kind of a part of a question."""

    __hash__ = str.__hash__  # Enum's own is written in Python, and parts are looked up for every question
    TASK = "Task"
    NODE = "Node"
    JOB = "Job"
    QUEUE = "Queue"
    GPU = "Gpu"
    SCORES = "Scores"
    SNAPSHOT = "Snapshot"
    CANDIDATES = "Candidates"


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One field of a question: its name on the wire, what stands there, and whether it is a list."""

    name: str
    kind: PartKind
    many: bool = False


class VerbOutcome(Enum):
    """The replacement for a call without a usable answer. NO: refused, not ready, overused, nobody may go."""

    NO = "no"
    YES = "yes"
    NEUTRAL = "no opinion"


TASK, NODE = MessagePart("task", PartKind.TASK), MessagePart("node", PartKind.NODE)
JOB, QUEUE = MessagePart("job", PartKind.JOB), MessagePart("queue", PartKind.QUEUE)
NODES, TASKS = MessagePart("nodes", PartKind.NODE, many=True), MessagePart("tasks", PartKind.TASK, many=True)
JOBS, QUEUES = MessagePart("jobs", PartKind.JOB, many=True), MessagePart("queues", PartKind.QUEUE, many=True)
VICTIMS = (MessagePart("evictor", PartKind.TASK), MessagePart("evictees", PartKind.TASK, many=True))
GPUS, SCORES = MessagePart("gpus", PartKind.GPU, many=True), MessagePart("nodeScore", PartKind.SCORES)
SNAPSHOT, CANDIDATES = MessagePart("snapshot", PartKind.SNAPSHOT), MessagePart("candidates", PartKind.CANDIDATES)
NO, YES, NEUTRAL = VerbOutcome.NO, VerbOutcome.YES, VerbOutcome.NEUTRAL


@dataclass(frozen=True, slots=True)
class Verb(Generic[A_co]):
    """One question of the protocol."""

    name: str
    question: str
    parts: tuple[MessagePart, ...]
    answer: type[A_co]
    points: tuple[str, ...] = ("",)
    """The extension points that it carries, its own name unless said otherwise; the first is where it is asked."""
    failed: VerbOutcome = NO
    ignored: VerbOutcome = NEUTRAL
    as_volcano: tuple[VerbOutcome, VerbOutcome] | None = None
    """``failed`` and ``ignored`` under ``compat: volcano``, where they differ."""
    once: bool = False
    """It changes something: not sent again after a lost connection, and asked twice it may be answered otherwise."""
    volcano: bool = False
    """Whether a real Volcano asks it."""
    kube: str = ""
    """Its name in kube-scheduler's protocol; empty: not there."""

    def __post_init__(self) -> None:
        if self.points == ("",):
            own = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in self.name)
            object.__setattr__(self, "points", (own,))

    def __str__(self) -> str:
        return self.name

    def outcome(self, *, ignored: bool, volcano: bool) -> VerbOutcome:
        """The replacement for a failed call."""
        failed, neutral = self.as_volcano if volcano and self.as_volcano else (self.failed, self.ignored)
        return neutral if ignored else failed


_FILTER = ("batch_predicate", "predicate", "pre_predicate")
_SCORE = ("batch_node_order", "node_order", "node_map", "node_reduce", "node_pre_order")
_EVENTS = ("event handlers",)
_EMPTY = (NO, YES)
"""To Volcano an error leaves nobody in this tier, and an ignored one permits."""

ON_SESSION_OPEN: Final = Verb(
    "onSessionOpen",
    "A session opens here.",
    (SNAPSHOT,),
    a.Acknowledged,
    (),
    ignored=YES,
    as_volcano=(NEUTRAL, YES),
    once=True,
    volcano=True,
)
PREDICATE: Final = Verb("predicate", "May the task go to the node?", (TASK, NODE), a.NodeRefusal, _FILTER, volcano=True)
BATCH_PREDICATE: Final = Verb(
    "batchPredicate", "On which nodes may the task go?", (TASK, NODES), a.NodeRefusals, _FILTER, kube="filter"
)
PRIORITIZE: Final = Verb(
    "prioritize",
    "How good are the nodes for the task?",
    (TASK, NODES),
    a.Scores,
    _SCORE,
    volcano=True,
    kube="prioritize",
)
BEST_NODE: Final = Verb(
    "bestNode", "Which of the scored nodes is it to be?", (TASK, SCORES), a.BestNode, failed=NEUTRAL
)
GPU_ORDER: Final = Verb(
    "gpuOrder", "How good are the devices of the node for the task?", (TASK, NODE, GPUS), a.GpuScores
)
PREEMPTABLE: Final = Verb(
    "preemptable",
    "Which of the evictees may be preempted for the evictor?",
    VICTIMS,
    a.Victims,
    as_volcano=_EMPTY,
    volcano=True,
)
RECLAIMABLE: Final = Verb(
    "reclaimable",
    "Which of the evictees may be reclaimed for the evictor?",
    VICTIMS,
    a.Victims,
    as_volcano=_EMPTY,
    volcano=True,
)
VICTIM_TASKS: Final = Verb(
    "victimTasks", "Which tasks should go though nobody waits for their room?", (TASKS,), a.Victims, failed=NEUTRAL
)
PREEMPT: Final = Verb(
    "preempt",
    "Is anything against these victims, by node?",
    (TASK, CANDIDATES),
    a.Candidates,
    ("preemptable",),
    kube="preempt",
)
JOB_ENQUEUEABLE: Final = Verb(
    "jobEnqueueable", "May the job be let into its queue?", (JOB,), a.Vote, as_volcano=_EMPTY, volcano=True
)
JOB_ENQUEUED: Final = Verb(
    "jobEnqueued", "The job was let into its queue.", (JOB,), a.Acknowledged, failed=NEUTRAL, once=True, volcano=True
)
JOB_PIPELINED: Final = Verb("jobPipelined", "May the job's promised places be kept?", (JOB,), a.Vote)
JOB_READY: Final = Verb(
    "jobReady", "May the job's placements be committed?", (JOB,), a.VerdictAnswer, as_volcano=(YES, NO), volcano=True
)
JOB_VALID: Final = Verb("jobValid", "Is the job worth trying?", (JOB,), a.VerdictAnswer)
QUEUE_OVERUSED: Final = Verb(
    "queueOverused", "Is the queue above its share?", (QUEUE,), a.Overused, ("overused",), volcano=True
)
ALLOCATABLE: Final = Verb("allocatable", "May the queue take the task?", (QUEUE, TASK), a.VerdictAnswer)
JOB_ORDER: Final = Verb("jobOrder", "In which order do the jobs come?", (JOBS,), a.Ranks, failed=NEUTRAL)
TASK_ORDER: Final = Verb("taskOrder", "In which order do the tasks come?", (TASKS,), a.Ranks, failed=NEUTRAL)
QUEUE_ORDER: Final = Verb("queueOrder", "In which order do the queues come?", (QUEUES,), a.Ranks, failed=NEUTRAL)
ALLOCATE_FUNC: Final = Verb(
    "allocateFunc", "The task was placed, for now.", (TASK,), a.Error, _EVENTS, once=True, volcano=True
)
DEALLOCATE_FUNC: Final = Verb(
    "deallocateFunc",
    "The task's placement was taken back, for now.",
    (TASK,),
    a.Error,
    _EVENTS,
    once=True,
    volcano=True,
)
BIND: Final = Verb("bind", "Bind the task to the node.", (TASK, NODE), a.Error, (), once=True, kube="bind")
ON_SESSION_CLOSE: Final = Verb(
    "onSessionClose", "The session is over.", (), a.Acknowledged, (), NEUTRAL, once=True, volcano=True
)

VERBS: Final[dict[str, Verb[Any]]] = {
    thing.name: thing for key, thing in list(globals().items()) if key.isupper() and isinstance(thing, Verb)
}
"""Every verb by its name, in the order of a session."""
ASKED: Final = tuple(sorted(name for name in VERBS if name != PREEMPT.name))
"""Those that have an argument of their own: ``extender.<verb>Verb``. The other is kube-scheduler's."""
VOLCANO_VERBS: Final = frozenset(name for name, verb in VERBS.items() if verb.volcano)
"""The twelve that a real Volcano asks."""
KUBE_PATHS: Final = {verb.kube: verb for verb in VERBS.values() if verb.kube}
"""kube-scheduler's verbs under the names that its documentation gives them."""


SESSION_HEADER: Final = "X-Pumice-Session"
"""Says which scheduler asks, so that a service can keep the sessions of two apart."""


class TokenFile:
    """The bearer token in a file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[int, bytes] = (0, b"")

    def read(self) -> bytes:
        """The token.

        :raises OSError: the file cannot be read.
        """
        changed = self._path.stat().st_mtime_ns
        if changed != self._known[0]:
            self._known = (changed, self._path.read_bytes().strip())
        return self._known[1]


def carriers(point: str) -> list[str]:
    return [name for name, verb in VERBS.items() if point in verb.points]
