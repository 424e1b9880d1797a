"""Every question of the protocol, declared once: parts, answer, points, who asks it, and what a failed call means.

How questions are written and read, which hook a verb becomes, how a served policy answers it, the OpenAPI document, the
check and the pages follow from this table. A new verb is one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from pumice.extender import answers as a
from pumice.extender.answers import Answer

A_co = TypeVar("A_co", bound=Answer, covariant=True)


class Kind(Enum):
    """What a part of a question is."""

    TASK = "Task"
    NODE = "Node"
    JOB = "Job"
    QUEUE = "Queue"
    GPU = "Gpu"
    SCORES = "Scores"
    SNAPSHOT = "Snapshot"
    CANDIDATES = "Candidates"


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a question: its name on the wire, what stands there, and whether it is a list."""

    name: str
    kind: Kind
    many: bool = False


class Whose(Enum):
    """Who asks a verb."""

    VOLCANO = "Volcano"
    PUMICE = "Pumice"
    KUBE = "kube-scheduler"


class Outcome(Enum):
    """What a call without a usable answer is taken for. NO: refused, not ready, overused, nobody may go."""

    NO = "no"
    YES = "yes"
    NEUTRAL = "no opinion"


TASK, NODE = Part("task", Kind.TASK), Part("node", Kind.NODE)
JOB, QUEUE = Part("job", Kind.JOB), Part("queue", Kind.QUEUE)
NODES, TASKS = Part("nodes", Kind.NODE, many=True), Part("tasks", Kind.TASK, many=True)
EVICTOR, EVICTEES = Part("evictor", Kind.TASK), Part("evictees", Kind.TASK, many=True)


@dataclass(frozen=True, slots=True)
class Verb(Generic[A_co]):
    """One question of the protocol."""

    name: str
    question: str
    parts: tuple[Part, ...]
    answer: type[A_co]
    points: tuple[str, ...] = ()
    """The extension points that it carries; the first is where its answer is registered."""
    whose: Whose = Whose.VOLCANO
    failed: Outcome = Outcome.NO
    ignored: Outcome = Outcome.NEUTRAL
    as_volcano: tuple[Outcome, Outcome] | None = None
    """``failed`` and ``ignored`` under ``compat: volcano``, where they differ."""
    once: bool = False
    """It changes something: not sent again after a lost connection, and asked twice it may be answered otherwise."""
    no: str = ""
    """What a no without a word is told as; ``{0.name}`` is the first thing that was asked about."""
    asked: str = ""
    """How often a real Volcano asks it."""

    def __str__(self) -> str:
        return self.name

    def outcome(self, *, ignored: bool, volcano: bool) -> Outcome:
        """What a failed call is taken for."""
        failed, neutral = self.as_volcano if volcano and self.as_volcano else (self.failed, self.ignored)
        return neutral if ignored else failed


_NO, _YES, _NEUTRAL = Outcome.NO, Outcome.YES, Outcome.NEUTRAL
_FILTER = ("batch_predicate", "predicate", "pre_predicate")
_SCORE = ("batch_node_order", "node_order", "node_map", "node_reduce", "node_pre_order")
_EVENTS = ("event handlers",)

ON_SESSION_OPEN: Final = Verb(
    "onSessionOpen",
    "A session opens on this cluster.",
    (Part("snapshot", Kind.SNAPSHOT),),
    a.Acknowledged,
    ignored=_YES,
    as_volcano=(_NEUTRAL, _YES),
    once=True,
    asked="once a cycle, with the whole cluster",
)
ON_SESSION_CLOSE: Final = Verb(
    "onSessionClose", "The session is over.", (), a.Acknowledged, failed=_NEUTRAL, once=True, asked="once a cycle"
)
PREDICATE: Final = Verb(
    "predicate", "May the task go to the node?", (TASK, NODE), a.Refusal, _FILTER, asked="once per task and node"
)
PRIORITIZE: Final = Verb(
    "prioritize",
    "How good are the nodes for the task?",
    (TASK, NODES),
    a.Scores,
    _SCORE,
    asked="once per task, with its candidate nodes",
)
PREEMPTABLE: Final = Verb(
    "preemptable",
    "Which of the evictees may be preempted for the evictor?",
    (EVICTOR, EVICTEES),
    a.Victims,
    ("preemptable",),
    as_volcano=(_NO, _YES),
    asked="once per preemptor and node",
)
RECLAIMABLE: Final = Verb(
    "reclaimable",
    "Which of the evictees may be reclaimed for the evictor?",
    (EVICTOR, EVICTEES),
    a.Victims,
    ("reclaimable",),
    as_volcano=(_NO, _YES),
    asked="once per reclaimer and node",
)
QUEUE_OVERUSED: Final = Verb(
    "queueOverused",
    "Is the queue above its share?",
    (QUEUE,),
    a.Overused,
    ("overused",),
    no="the extender says that queue {0.name} is above its share",
    asked="several times per queue and action",
)
JOB_ENQUEUEABLE: Final = Verb(
    "jobEnqueueable",
    "May the job be let into its queue?",
    (JOB,),
    a.Vote,
    ("job_enqueueable",),
    as_volcano=(_NO, _YES),
    no="the extender says no to jobEnqueueable",
    asked="once per waiting job, with its tasks four times over",
)
JOB_ENQUEUED: Final = Verb(
    "jobEnqueued",
    "The job was let into its queue.",
    (JOB,),
    a.Acknowledged,
    ("job_enqueued",),
    failed=_NEUTRAL,
    once=True,
    asked="once per job that is let in",
)
JOB_READY: Final = Verb(
    "jobReady",
    "May the job's placements be committed?",
    (JOB,),
    a.Verdict,
    ("job_ready",),
    as_volcano=(_YES, _NO),
    no="the extender says the job is not ready",
    asked="several times per job, with its tasks four times over",
)
ALLOCATE_FUNC: Final = Verb(
    "allocateFunc", "The task was placed, for now.", (TASK,), a.Error, _EVENTS, once=True, asked="once per placement"
)
DEALLOCATE_FUNC: Final = Verb(
    "deallocateFunc",
    "The task's placement was taken back, for now.",
    (TASK,),
    a.Error,
    _EVENTS,
    once=True,
    asked="once per placement undone or eviction",
)
BATCH_PREDICATE: Final = Verb(
    "batchPredicate", "On which nodes may the task go?", (TASK, NODES), a.Refusals, _FILTER, Whose.PUMICE
)
BIND: Final = Verb("bind", "Bind the task to the node.", (TASK, NODE), a.Error, (), Whose.PUMICE, once=True)
JOB_PIPELINED: Final = Verb(
    "jobPipelined",
    "May the job's promised places be kept?",
    (JOB,),
    a.Vote,
    ("job_pipelined",),
    Whose.PUMICE,
    no="the extender says no to jobPipelined",
)
JOB_VALID: Final = Verb(
    "jobValid",
    "Is the job worth trying?",
    (JOB,),
    a.Verdict,
    ("job_valid",),
    Whose.PUMICE,
    no="the extender says the job is not valid",
)
ALLOCATABLE: Final = Verb(
    "allocatable",
    "May the queue take the task?",
    (QUEUE, TASK),
    a.Verdict,
    ("allocatable",),
    Whose.PUMICE,
    no="the extender keeps it out of {0.name}",
)
BEST_NODE: Final = Verb(
    "bestNode",
    "Which of the scored nodes is it to be?",
    (TASK, Part("nodeScore", Kind.SCORES)),
    a.BestNode,
    ("best_node",),
    Whose.PUMICE,
    failed=_NEUTRAL,
)
VICTIM_TASKS: Final = Verb(
    "victimTasks",
    "Which of the tasks should go though nobody waits for their room?",
    (TASKS,),
    a.Victims,
    ("victim_tasks",),
    Whose.PUMICE,
    failed=_NEUTRAL,
)
GPU_ORDER: Final = Verb(
    "gpuOrder",
    "How good are the devices of the node for the task?",
    (TASK, NODE, Part("gpus", Kind.GPU, many=True)),
    a.GpuScores,
    ("gpu_order",),
    Whose.PUMICE,
)
JOB_ORDER: Final = Verb(
    "jobOrder",
    "In which order do the jobs come?",
    (Part("jobs", Kind.JOB, many=True),),
    a.Ranks,
    ("job_order",),
    Whose.PUMICE,
    failed=_NEUTRAL,
)
TASK_ORDER: Final = Verb(
    "taskOrder", "In which order do the tasks come?", (TASKS,), a.Ranks, ("task_order",), Whose.PUMICE, failed=_NEUTRAL
)
QUEUE_ORDER: Final = Verb(
    "queueOrder",
    "In which order do the queues come?",
    (Part("queues", Kind.QUEUE, many=True),),
    a.Ranks,
    ("queue_order",),
    Whose.PUMICE,
    failed=_NEUTRAL,
)
PREEMPT: Final = Verb(
    "preempt",
    "Is there anything against these victims, node by node?",
    (TASK, Part("candidates", Kind.CANDIDATES)),
    a.Candidates,
    ("preemptable",),
    Whose.KUBE,
)

VERBS: Final[dict[str, Verb[Any]]] = dict(
    sorted((thing.name, thing) for key, thing in list(globals().items()) if key.isupper() and isinstance(thing, Verb))
)
"""Every verb by its name."""
VOLCANO_VERBS: Final = frozenset(name for name, verb in VERBS.items() if verb.whose is Whose.VOLCANO)
"""The twelve that a real Volcano asks."""
ASKED: Final = tuple(name for name, verb in VERBS.items() if verb.whose is not Whose.KUBE)
"""Those that have an argument of their own: ``extender.<verb>Verb``."""

KUBE_PATHS: Final[dict[str, Verb[Any]]] = {
    "filter": BATCH_PREDICATE,
    "prioritize": PRIORITIZE,
    "preempt": PREEMPT,
    "bind": BIND,
}
"""kube-scheduler's verbs under the names that its documentation gives them."""


def carriers(point: str) -> list[str]:
    """The verbs that carry an extension point."""
    return [name for name, verb in VERBS.items() if point in verb.points]
