"""What is asked and what is answered: one request and one response type per verb, free of any JSON shape.

Which verb has which, stands in ``verbs``; verbs whose messages look alike share their types. The names of a request's
fields are the names on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET as UNSET
from msgspec import UnsetType

from pumice.extender.wire.objects import Amounts as Amounts
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.objects import WireGpu as WireGpu
from pumice.extender.wire.objects import WireJob as WireJob
from pumice.extender.wire.objects import WireNode as WireNode
from pumice.extender.wire.objects import WireQueue as WireQueue
from pumice.extender.wire.objects import WireSnapshot as WireSnapshot
from pumice.extender.wire.objects import WireSubJob as WireSubJob
from pumice.extender.wire.objects import WireTaint as WireTaint
from pumice.extender.wire.objects import WireTask as WireTask
from pumice.extender.wire.objects import WireVictims as WireVictims

# Requests


class SessionOpenRequest(Wire, frozen=True, kw_only=True):
    """A session opens on this cluster."""

    snapshot: WireSnapshot


class SessionCloseRequest(Wire, frozen=True, kw_only=True):
    """The session is over."""


class PredicateRequest(Wire, frozen=True, kw_only=True):
    """May the task go to the node?"""

    task: WireTask
    node: WireNode


class NodesRequest(Wire, frozen=True, kw_only=True):
    """How good are the nodes for the task (prioritize)? On which may it go (batchPredicate)?"""

    task: WireTask
    nodes: list[WireNode] = []
    names_only: bool = False
    """The sender keeps node objects to itself (kube-scheduler with ``nodeCacheCapable``)."""


class VictimsRequest(Wire, frozen=True, kw_only=True):
    """Which of the evictees may go for the sake of the evictor?"""

    evictor: WireTask
    evictees: list[WireTask] = []


class TasksRequest(Wire, frozen=True, kw_only=True):
    """Which of the tasks should go (victimTasks)? In which order do they come (taskOrder)?"""

    tasks: list[WireTask] = []


class TaskRequest(Wire, frozen=True, kw_only=True):
    """The task was placed (allocateFunc) or taken away (deallocateFunc), for now."""

    task: WireTask


class JobRequest(Wire, frozen=True, kw_only=True):
    """A question about one job."""

    job: WireJob


class JobsRequest(Wire, frozen=True, kw_only=True):
    """In which order do the jobs come?"""

    jobs: list[WireJob] = []


class QueueRequest(Wire, frozen=True, kw_only=True):
    """Is the queue above its share?"""

    queue: WireQueue


class QueuesRequest(Wire, frozen=True, kw_only=True):
    """In which order do the queues come?"""

    queues: list[WireQueue] = []


class AllocatableRequest(Wire, frozen=True, kw_only=True):
    """May the queue take the task?"""

    queue: WireQueue
    task: WireTask


class BestNodeRequest(Wire, frozen=True, kw_only=True):
    """Which of the scored nodes is it to be?"""

    task: WireTask
    scores: dict[str, float] = msgspec.field(name="nodeScore", default_factory=dict)


class GpuOrderRequest(Wire, frozen=True, kw_only=True):
    """How good are the devices of the node for the task?"""

    task: WireTask
    node: WireNode
    gpus: list[WireGpu] = []


class BindRequest(Wire, frozen=True, kw_only=True):
    """Bind the task to the node. From kube-scheduler only names and UID are known."""

    task: WireTask
    node: WireNode


class PreemptRequest(Wire, frozen=True, kw_only=True):
    """Is there anything against these victims, node by node? (kube-scheduler only)"""

    task: WireTask
    candidates: dict[str, WireVictims] = {}
    names_only: bool = False
    """Victims are told by UID only (``nodeCacheCapable``)."""


# Responses


class Acknowledged(Wire, frozen=True, kw_only=True):
    """Nothing is to be answered."""


class PredicateResponse(Wire, frozen=True, kw_only=True):
    """A reason against the node and a code (reference: 0 pass, 1 error, 2 unschedulable, 3 for good, 4 wait, 5 skip).

    Both are kept as they came: what a code without a text means, is the reader's rule.
    """

    text: str = ""
    code: int = 0


class PrioritizeResponse(Wire, frozen=True, kw_only=True):
    """Scores by node name. ``UNSET``: the field was missing; ``None``: it was null; both differ from an empty table."""

    scores: dict[str, float] | UnsetType | None = UNSET
    error: str = ""


class BatchPredicateResponse(Wire, frozen=True, kw_only=True):
    """Reasons and codes by node name; a node that is not named fits, unless ``fitting`` says otherwise."""

    errors: dict[str, str] = {}
    codes: dict[str, int] = {}
    fitting: list[WireNode] | None = None
    """The nodes that fit. ``None``: all that are not named above. The kube dialect cannot be written without it."""
    names_only: bool = False
    """As in the request: kube-scheduler wants names back if it sent names."""
    error: str = ""
    """Nothing could be decided at all."""

    @classmethod
    def to(cls, request: NodesRequest, refusals: dict[str, tuple[int, str]]) -> BatchPredicateResponse:
        """The answer to *request*, given code and reason for each node that does not fit."""
        return cls(
            errors={name: text for name, (_, text) in refusals.items()},
            codes={name: code for name, (code, _) in refusals.items()},
            fitting=[node for node in request.nodes if node.name not in refusals],
            names_only=request.names_only,
        )

    def refusals(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Code and reason for each node of *names* that does not fit. A reason without a code has code 1 (error)."""
        fitting = None if self.fitting is None else {node.name for node in self.fitting}
        refused = {}
        for name in names:
            text, code = self.errors.get(name, ""), self.codes.get(name, 0)
            if text or code:
                refused[name] = (code or 1, text or f"refused with code {code}")
            elif fitting is not None and name not in fitting:
                refused[name] = (2, "not among the nodes that fit")
        return refused


class VictimsResponse(Wire, frozen=True, kw_only=True):
    """A vote (0 abstains; not read at victimTasks) and the victims.

    ``UNSET``: the field was missing; ``None``: it was null. A victim that was read has its UID and nothing else; one
    that is to be written to Volcano should be the task of the request, because Volcano evicts what it reads here.
    """

    status: int = 0
    victims: list[WireTask] | UnsetType | None = UNSET

    @property
    def uids(self) -> list[str]:
        """The victims' UIDs; none if the field was missing or null."""
        return [task.uid for task in self.victims] if self.victims else []


class VoteResponse(Wire, frozen=True, kw_only=True):
    """Negative rejects, 0 abstains, positive permits."""

    status: int = 0


class VerdictResponse(Wire, frozen=True, kw_only=True):
    """Yes or no; why not (one word, and a sentence), where the service says so."""

    status: bool = False
    reason: str = ""
    message: str = ""


class OverusedResponse(Wire, frozen=True, kw_only=True):
    """Whether the queue is above its share."""

    overused: bool = False


class ErrorResponse(Wire, frozen=True, kw_only=True):
    """What went wrong; empty if nothing did."""

    error: str = ""


class BestNodeResponse(Wire, frozen=True, kw_only=True):
    """The chosen node; empty: no opinion."""

    node_name: str = ""
    error: str = ""


class GpuOrderResponse(Wire, frozen=True, kw_only=True):
    """Scores by device index; a device without one is not ordered by this service."""

    scores: dict[str, float] = {}
    error: str = ""


class OrderResponse(Wire, frozen=True, kw_only=True):
    """Ranks by UID (queues: by name), smallest first; who has none, or the same, is not ordered by this service."""

    ranks: dict[str, float] = {}


class PreemptResponse(Wire, frozen=True, kw_only=True):
    """The nodes where preemption may go on, with the victims there."""

    candidates: dict[str, WireVictims] = {}
