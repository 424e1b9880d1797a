"""The plugin: which nodes have cards for a task, which are better, and what is written beside a bind."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.errors import InvalidInput
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Event, EventHandler
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.node import Node
from pumice.model.reason import Code, reason_id
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.plugins.deviceshare.card_ledger import CardLedger, CardSettings, binpack, no_policy, spread
from pumice.plugins.deviceshare.cards import MIG, asked_of
from pumice.plugins.deviceshare.mig import ARGUMENT as GEOMETRIES
from pumice.plugins.deviceshare.mig import KnownGeometries, read_geometries

Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

NAME: Final = "deviceshare"
_UNKNOWN: Final = -1
_ORDERS: Final = {"binpack": binpack, "spread": spread, "": no_policy}
_OTHERS: Final = ("AscendMindClusterVNPUEnable", "AscendHAMiVNPUEnable")
NO_CARDS: Final = reason_id(NAME, "node(s) had no cards that are shared", Code.UNRESOLVABLE)
UNREADABLE: Final = reason_id(NAME, "node(s) had registered cards that cannot be read", Code.UNRESOLVABLE)
UNCUT: Final = reason_id(NAME, "node(s) had MIG cards that the conf does not say how to cut", Code.UNRESOLVABLE)
OTHER_MODE: Final = reason_id(NAME, "node(s) had cards of another sharing mode", Code.UNRESOLVABLE)


def _rules(arguments: Arguments, key: str, _: object) -> list[dict[str, str]]:
    found = arguments.get(key) or []
    rules = found if isinstance(found, list) else [found]
    if not all(
        isinstance(rule, Mapping) and rule and all(isinstance(v, str) for pair in rule.items() for v in pair)
        for rule in rules
    ):
        raise InvalidInput(
            f"deviceshare: argument {key}: must be a list of labels such as [{{app: train}}], got {found!r}"
        )
    return [dict(rule) for rule in rules]


def _geometries(arguments: Arguments, key: str, _: object) -> KnownGeometries:
    return read_geometries(arguments.get(key) or [])


def _refused(arguments: Arguments, key: str, default: bool) -> bool:
    if arguments.bool(key, default):
        raise InvalidInput(
            f"deviceshare: {key.partition('.')[2]}: Volcano's, not in Pumice: see docs/limits.md#volumes-and-devices"
        )
    return False


class DeviceShare(Plugin):
    """Gives tasks parts of cards: memory and cores of vGPUs, and the index of a GPU that is shared by memory or whole.

    Only one of ``VGPUEnable``, ``GPUSharingEnable`` and ``GPUNumberEnable`` can be true.
    """

    name = NAME
    persistent = True
    vgpu = Argument(False, "Share vGPU cards.", name="deviceshare.VGPUEnable")
    sharing = Argument(False, "Share cards by memory.", name="deviceshare.GPUSharingEnable")
    number = Argument(False, "Say which whole cards a task has.", name="deviceshare.GPUNumberEnable")
    policy = Argument(
        "",
        "`binpack` fills cards up, `spread` takes cards that few use.",
        name="deviceshare.SchedulePolicy",
        choices=("binpack", "spread", ""),
    )
    weight = Argument(0, "Weight of the policy among nodes.", name="deviceshare.ScheduleWeight")
    rules = Argument[list[dict[str, str]]](
        [],
        "Pods that have the labels of the same rule never share a card.",
        name="deviceshare.GPUExclusiveRules",
        values="a list of labels such as `[{app: train}]`",
        read=_rules,
    )
    geometries = Argument[KnownGeometries](
        (),
        "How types of cards can be cut, as `knownMigGeometries` of Volcano's device config.",
        name=GEOMETRIES,
        values="a list",
        read=_geometries,
    )
    refused = tuple(
        Argument(False, "Refused: NPUs are not in Pumice.", name=f"deviceshare.{name}", read=_refused, values="false")
        for name in _OTHERS
    )
    ignored = tuple(
        Argument[object](None, "Has no effect.", name=f"deviceshare.{name}", read=Arguments.get)
        for name in ("NodeLockEnable", "KnownGeometriesCMName", "KnownGeometriesCMNamespace")
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        if sum((self.vgpu, self.sharing, self.number)) > 1:
            raise InvalidInput(
                "deviceshare: VGPUEnable, GPUSharingEnable and GPUNumberEnable: only one of them can be true"
            )
        self._indexes = self.sharing or self.number
        self._settings = CardSettings(self.rules, self.geometries)

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        settings = self._settings._replace(fall_back=ssn.compat.unknown_geometries)
        self._ledger = CardLedger(ssn.state, ssn.memory, settings)
        self._answers: dict[Hashable, _Answer] = {}
        unscored = self.policy == "spread" and ssn.compat.unscored_vgpu_spread
        self._scores = bool(self.weight and self.policy) and not unscored
        ssn.add_batch_predicate_fn(self.name, self._filter, key=self._asked)
        if self._scores:
            ssn.add_batch_node_order_fn(self.name, self._score, key=self._asked)
        ssn.add_event_handler(EventHandler(self._placed, self._taken_back, _placed_many))
        ssn.add_bind_request_mutate_fn(self.name, self._notes)

    def _concerns(self, task: Task) -> bool:
        return self.vgpu and bool(asked_of(task.klass))

    def _asked(self, task: Task) -> Hashable:
        return _kind(task) if self._concerns(task) else SKIP

    # -- asking -----------------------------------------------------------------------------------------------------
    def _filter(self, task: Task, rows: NodeRows) -> Reasons:
        """The node has cards with room for every container."""
        return self._answer(task, rows).reasons[rows.index]

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        """How well the cards that it would get go with the policy."""
        return self._answer(task, rows).scores[rows.index] * self.weight

    def _answer(self, task: Task, rows: NodeRows) -> _Answer:
        ledger, size = self._ledger, rows._table.size
        ledger.sync()
        key = (task.klass.id, _kind(task), frozenset(task.labels.items()) if self._settings.rules else None)
        answer = self._answers.get(key)
        if answer is None or len(answer.reasons) != size:
            answer = self._answers[key] = _Answer(size, len(ledger.changed))
        for row in ledger.changed[answer.position :]:
            answer.reasons[row] = _UNKNOWN
        answer.position = len(ledger.changed)
        index, nodes = rows.index, rows._table.nodes
        for row in index[answer.reasons[index] == _UNKNOWN].tolist():
            node = nodes[row]
            if node is not None:
                answer.reasons[row], answer.scores[row] = self._look(task, node)
        return answer

    def _look(self, task: Task, node: Node) -> tuple[int, float]:
        """(objection, score) of one node, as if those were gone that this session evicts."""
        held = self._ledger.on(node)
        if held is None or not held.cards:
            return (UNREADABLE if held is not None and held.problem else NO_CARDS), 0.0
        mode = task.annotations.get(keys.VGPU_MODE)
        if mode is not None and all(card.mode != mode for card in held.cards):
            return OTHER_MODE, 0.0
        if all(card.mode == MIG and not card.ways for card in held.cards):
            return UNCUT, 0.0
        chosen = held.choose(task, _ORDERS[self.policy], future=True, score=self.policy)
        if chosen is None:
            return _no_room(task, held.roomiest(), held.is_large_enough(task)), 0.0
        return 0, chosen[1]

    # -- placements -------------------------------------------------------------------------------------------------
    def _placed(self, event: Event) -> None:
        """Promise parts of cards. A task that starts now gets no card that another task still uses."""
        task, node = event.task, event.task.node
        if node is None or not self._concerns(task) or task.status not in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
            return
        self._ledger.withdraw(task)
        held = self._ledger.on(node)
        now = task.status is TaskStatus.ALLOCATED
        chosen = held.choose(task, _ORDERS[self.policy], future=not now) if held is not None else None
        if chosen is None:
            event.err = f"node {node.name}: no room on its cards for {task.key}"
        else:
            self._ledger.promise(task, node, chosen[0])

    def _taken_back(self, event: Event) -> None:
        """Give up what was promised; a task that is evicted has its cards until it is gone."""
        if self._concerns(event.task) and event.task.status is not TaskStatus.RELEASING:
            self._ledger.withdraw(event.task)

    # -- binding ----------------------------------------------------------------------------------------------------
    def _notes(self, task: Task, node: str) -> Mapping[str, str]:
        """The data of a task's cards for the node's device plugin."""
        if self._concerns(task):
            return self._cards(task, node)
        return self._index(task) if self._indexes else {}

    def _cards(self, task: Task, node: str) -> Mapping[str, str]:
        """The parts of cards, and when they were given."""
        parts = self._ledger.promised(task)
        if not parts:
            return {}
        when = str(int(self._ssn.now))
        return {
            keys.VGPU_NODE: node,
            keys.VGPU_TIME: when,
            keys.VGPU_IDS: parts,
            keys.VGPU_TO_ALLOCATE: parts,
            keys.VGPU_BIND_PHASE: "allocating",
            keys.VGPU_BIND_TIME: when,
        }

    def _index(self, task: Task) -> Mapping[str, str]:
        """Which cards a task has, by number."""
        if not task.devices:
            return {}
        when = str(int(self._ssn.now * 1_000_000_000))
        return {keys.GPU_INDEX: ",".join(map(str, task.devices)), keys.GPU_PREDICATE_TIME: when}


class _Answer:
    """Objection and score per row, and how much of the ledger's log they know."""

    __slots__ = ("position", "reasons", "scores")

    def __init__(self, size: int, position: int) -> None:
        self.reasons: Reasons = np.full(size, _UNKNOWN, dtype=np.int32)
        self.scores: Floats = np.zeros(size)
        self.position = position


def _kind(task: Task) -> Hashable:
    """The key beside the class: the cards that the task's annotations allow."""
    get = task.annotations.get
    return get(keys.USE_GPU_TYPE), get(keys.NO_USE_GPU_TYPE), get(keys.VGPU_MODE)


def _placed_many(tasks: Sequence[Task]) -> None:
    """Tasks that are placed in bulk ask for no cards."""


def _no_room(task: Task, free: tuple[int, int], large_enough: bool) -> int:
    most = max(asked_of(task.klass), key=lambda a: (a.cards, a.memory, a.percent, a.cores))
    memory = f"{most.memory} MiB" if most.memory else f"{most.percent} % of the memory"
    wants = f"{most.cards} with {memory}" + (f" and {most.cores} % of the cores" if most.cores else "")
    if not large_enough:
        return reason_id(NAME, f"node(s) had too few cards that are large enough: {wants}", Code.UNRESOLVABLE)
    text = f"node(s) had too few cards with room: {wants} (the roomiest has {free[0]} MiB, {free[1]} % of its cores)"
    return reason_id(NAME, text)
