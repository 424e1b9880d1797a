"""The plugin: which nodes can give a task its CPUs, in how few NUMA nodes, and what was promised to whom."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Event, EventHandler
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.reason import Code, reason_id
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.plugins.numa_aware.asked_cpus import POLICIES, AskedCpus, Refused, admit, cpus_of, policy_of
from pumice.plugins.numa_aware.promised_cpus import CpuLedger, CpuTopologies
from pumice.words import counted

Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NAME: Final = "numa-aware"
_UNKNOWN: Final = -1
_BEING_PLACED: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
"""Not a task that comes back from an eviction that was undone: that one has its CPUs."""


def _no(text: str) -> int:
    return reason_id(NAME, text, Code.UNRESOLVABLE)


UNMEASURED: Final = _no("node(s) had no NUMA topology that can be read")
NOT_STATIC: Final = _no("node(s) had a CPU manager whose policy is not static")
OTHER_POLICY: Final = {p: _no(f"node(s) had another topology policy than {p}") for p in POLICIES[1:]}
NO_SUCH_POLICY: Final = _no(f"node(s) had no topology policy that the task can mean: there are {', '.join(POLICIES)}")
NO_CPU: Final = _no("node(s) had no CPU left that a container could have for itself")


class NumaAware(Plugin):
    """Puts tasks whose containers have CPUs of their own where the kubelet can give them in few enough NUMA nodes."""

    name = NAME
    persistent = True
    weight = Argument(1, "Weight of the score.")

    def on_session_open(self, ssn: Session) -> None:
        self._topologies = CpuTopologies.kept(ssn.runtime.kept, ssn.state)
        self._any = bool(self._topologies.names())
        self._ledger = CpuLedger(ssn.state, self._topologies, ssn.memory)
        self._answers: dict[Hashable, _Answer] = {}
        ssn.add_batch_predicate_fn(self.name, self._filter, key=self._asked)
        ssn.add_batch_node_order_fn(self.name, self._zones, key=_scored, normalize=self._fewest_is_best)
        ssn.add_event_handler(EventHandler(self._placed, self._taken_back, _placed_many))

    def _asked(self, task: Task) -> Hashable:
        return policy_of(task) if self._concerns(task) else SKIP

    def _concerns(self, task: Task) -> bool:
        return cpus_of(task.klass) is not None and (self._any or bool(policy_of(task)))

    # -- asking -----------------------------------------------------------------------------------------------------
    def _filter(self, task: Task, rows: NodeRows) -> Reasons:
        """The node can give every container its CPUs, as its topology policy wants them."""
        return self._answer(task, rows).reasons[rows.index]

    def _zones(self, task: Task, rows: NodeRows) -> Floats:
        """In how many NUMA nodes the task's CPUs would be."""
        return self._answer(task, rows).zones[rows.index]

    def _fewest_is_best(self, raw: Floats, _: Bools) -> Floats:
        most = raw.max(initial=0.0)
        scaled: Floats = 100.0 - np.floor(100.0 * raw / most) if most else np.full(len(raw), 100.0)
        return scaled * self.weight

    def _answer(self, task: Task, rows: NodeRows) -> _Answer:
        """The result for all nodes and tasks like this one, computed when it is first asked for."""
        ledger, size = self._ledger, rows._table.size
        key = (task.klass.id, policy_of(task))
        answer = self._answers.get(key)
        if answer is None or len(answer.reasons) != size:
            answer = self._answers[key] = _Answer(size, len(ledger.changed))
        for row in ledger.changed[answer.position :]:
            answer.reasons[row] = _UNKNOWN
        answer.position = len(ledger.changed)
        index = rows.index
        nodes = rows._table.nodes
        for row in index[answer.reasons[index] == _UNKNOWN].tolist():
            node = nodes[row]
            if node is not None:
                answer.reasons[row], answer.zones[row] = self._look(task, node, answer.alike)
        return answer

    def _look(self, task: Task, node: Node, alike: dict[Hashable, tuple[int, int]]) -> tuple[int, int]:
        """(objection, NUMA nodes) of one node; *alike* keeps what machines say that have the same CPUs free."""
        policy, topology = policy_of(task), self._topologies.of(node.name)
        if policy:
            if topology is None:
                return UNMEASURED, 0
            if topology.cpu_policy != "static":
                return NOT_STATIC, 0
            if topology.policy != policy:
                return OTHER_POLICY.get(policy, NO_SUCH_POLICY), 0
        elif topology is None or not topology.aligns:
            return 0, 0
        free = self._ledger.free(node.name, topology)
        if policy and not free:
            return NO_CPU, 0
        machine = topology.machine, free
        if (known := alike.get(machine)) is None:
            found = admit(topology, free, cpus_of(task.klass) or AskedCpus((), ()))
            known = (_said(found), 0) if isinstance(found, Refused) else (0, topology.spans(found))
            alike[machine] = known
        return known

    # -- placements -------------------------------------------------------------------------------------------------
    def _placed(self, event: Event) -> None:
        """Promise the CPUs that the task will have on its node."""
        task = event.task
        if task.node is not None and task.status in _BEING_PLACED and self._concerns(task):
            event.err = self._ledger.promise(task, task.node) or None

    def _taken_back(self, event: Event) -> None:
        """Give up what was promised; a task that is evicted has its CPUs until it is gone."""
        if event.task.status is not TaskStatus.RELEASING:
            self._ledger.withdraw(event.task)


class _Answer:
    """Objection and NUMA nodes per row, how much of the ledger's log they know, and what machines alike have said."""

    __slots__ = ("alike", "position", "reasons", "zones")

    def __init__(self, size: int, position: int) -> None:
        self.reasons: Reasons = np.full(size, _UNKNOWN, dtype=np.int32)
        self.zones: Floats = np.zeros(size)
        self.position = position
        self.alike: dict[Hashable, tuple[int, int]] = {}


def _scored(task: Task) -> Hashable:
    policy = policy_of(task)
    return policy if policy and cpus_of(task.klass) is not None else SKIP


def _placed_many(tasks: Sequence[Task]) -> None:
    """Tasks that are placed in bulk have no CPUs of their own."""


def _said(refused: Refused) -> int:
    asked = counted(refused.asked, "CPU")
    if not refused.zones:
        return _no(f"node(s) had not {asked} for one container ({refused.free} free)")
    where = counted(refused.zones, "NUMA node")
    return _no(f"node(s) had not {asked} for one container in {where} ({refused.free} free in the roomiest)")
