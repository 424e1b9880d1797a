"""Every question of the protocol.

A ``Verb`` ties the two message types together, so that ``dialect.decode_response(PREDICATE, body)`` is known to be a
``PredicateResponse``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pumice.extender.wire.messages import (
    Acknowledged,
    AllocatableRequest,
    BatchPredicateResponse,
    BestNodeRequest,
    BestNodeResponse,
    BindRequest,
    ErrorResponse,
    GpuOrderRequest,
    GpuOrderResponse,
    JobRequest,
    JobsRequest,
    NodesRequest,
    OrderResponse,
    OverusedResponse,
    PredicateRequest,
    PredicateResponse,
    PreemptRequest,
    PreemptResponse,
    PrioritizeResponse,
    QueueRequest,
    QueuesRequest,
    SessionCloseRequest,
    SessionOpenRequest,
    TaskRequest,
    TasksRequest,
    VerdictResponse,
    VictimsRequest,
    VictimsResponse,
    VoteResponse,
)
from pumice.extender.wire.objects import Wire

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)


@dataclass(frozen=True, slots=True)
class Verb(Generic[Req, Resp]):
    """One question of the protocol: its name and the types of its messages."""

    name: str
    request: type[Req]
    response: type[Resp]

    def __str__(self) -> str:
        return self.name


ON_SESSION_OPEN: Final = Verb("onSessionOpen", SessionOpenRequest, Acknowledged)
ON_SESSION_CLOSE: Final = Verb("onSessionClose", SessionCloseRequest, Acknowledged)
PREDICATE: Final = Verb("predicate", PredicateRequest, PredicateResponse)
PRIORITIZE: Final = Verb("prioritize", NodesRequest, PrioritizeResponse)
PREEMPTABLE: Final = Verb("preemptable", VictimsRequest, VictimsResponse)
RECLAIMABLE: Final = Verb("reclaimable", VictimsRequest, VictimsResponse)
QUEUE_OVERUSED: Final = Verb("queueOverused", QueueRequest, OverusedResponse)
JOB_ENQUEUEABLE: Final = Verb("jobEnqueueable", JobRequest, VoteResponse)
JOB_ENQUEUED: Final = Verb("jobEnqueued", JobRequest, Acknowledged)
JOB_READY: Final = Verb("jobReady", JobRequest, VerdictResponse)
ALLOCATE_FUNC: Final = Verb("allocateFunc", TaskRequest, ErrorResponse)
DEALLOCATE_FUNC: Final = Verb("deallocateFunc", TaskRequest, ErrorResponse)
BATCH_PREDICATE: Final = Verb("batchPredicate", NodesRequest, BatchPredicateResponse)
BIND: Final = Verb("bind", BindRequest, ErrorResponse)
JOB_PIPELINED: Final = Verb("jobPipelined", JobRequest, VoteResponse)
JOB_VALID: Final = Verb("jobValid", JobRequest, VerdictResponse)
ALLOCATABLE: Final = Verb("allocatable", AllocatableRequest, VerdictResponse)
BEST_NODE: Final = Verb("bestNode", BestNodeRequest, BestNodeResponse)
VICTIM_TASKS: Final = Verb("victimTasks", TasksRequest, VictimsResponse)
GPU_ORDER: Final = Verb("gpuOrder", GpuOrderRequest, GpuOrderResponse)
JOB_ORDER: Final = Verb("jobOrder", JobsRequest, OrderResponse)
TASK_ORDER: Final = Verb("taskOrder", TasksRequest, OrderResponse)
QUEUE_ORDER: Final = Verb("queueOrder", QueuesRequest, OrderResponse)
PREEMPT: Final = Verb("preempt", PreemptRequest, PreemptResponse)

VOLCANO_VERBS: Final[frozenset[Verb[Any, Any]]] = frozenset(
    {
        ON_SESSION_OPEN,
        ON_SESSION_CLOSE,
        PREDICATE,
        PRIORITIZE,
        PREEMPTABLE,
        RECLAIMABLE,
        QUEUE_OVERUSED,
        JOB_ENQUEUEABLE,
        JOB_ENQUEUED,
        JOB_READY,
        ALLOCATE_FUNC,
        DEALLOCATE_FUNC,
    }
)
"""The twelve that a real Volcano asks."""

OUR_VERBS: Final[frozenset[Verb[Any, Any]]] = frozenset(
    {
        BATCH_PREDICATE,
        BIND,
        JOB_PIPELINED,
        JOB_VALID,
        ALLOCATABLE,
        BEST_NODE,
        VICTIM_TASKS,
        GPU_ORDER,
        JOB_ORDER,
        TASK_ORDER,
        QUEUE_ORDER,
    }
)
"""Those that Pumice asks beyond Volcano's."""

VERBS: Final[dict[str, Verb[Any, Any]]] = {
    verb.name: verb for verb in sorted(VOLCANO_VERBS | OUR_VERBS | {PREEMPT}, key=lambda verb: verb.name)
}
"""Every verb by its name."""
