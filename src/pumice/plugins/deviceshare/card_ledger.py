"""One ledger per card: who has which part of it, by what pods say they got and by what was promised since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.plugins.deviceshare.cards import (
    ALL_CORES,
    Card,
    Part,
    asked_of,
    read_cards,
    read_parts,
    wants,
    write_parts,
)
from pumice.plugins.deviceshare.mig import KnownGeometries, geometries_of
from pumice.state.cluster import ClusterState

Promise: TypeAlias = tuple[str, str]
"""Node, and the parts as the annotation will say them."""
Rules: TypeAlias = Sequence[Mapping[str, str]]
Chosen: TypeAlias = tuple[list[list[Part]], float]
"""The parts of each container, and the score of the cards."""
_BEING_PLACED: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


def binpack(card: Card) -> tuple[float, int]:
    """The fullest first."""
    return -card.used_memory, 0


def spread(card: Card) -> tuple[float, int]:
    """The card with the fewest users first."""
    return card.used, 0


def no_policy(_: Card) -> tuple[float, int]:
    """The last first."""
    return 0.0, 0


class CardSettings(NamedTuple):
    """The conf's settings of cards."""

    rules: Rules = ()
    """Pods that have the labels of the same rule never share a card."""
    known: KnownGeometries = ()
    """How cards are cut by MIG."""
    fall_back: bool = False
    """Whether a MIG card without a known geometry is shared like any other."""


class CardLedger:
    """The cards of all nodes. Rows are read again when the log of the node table says that they changed."""

    def __init__(self, state: ClusterState, memory: dict[str, Any], settings: CardSettings) -> None:
        self._state, self._settings = state, settings
        self._promises: dict[str, Promise] = memory.setdefault("cards", {})
        self._position = -1
        self._rows: dict[int, _Holding] = {}
        self.changed: list[int] = []
        """Rows that were read again, in order."""
        for uid, (node, _) in list(self._promises.items()):
            task = state.tasks.get(uid)
            if task is None or task.node_name != node:
                del self._promises[uid]

    def sync(self) -> None:
        """Bring the rows up to date that changed since the last time."""
        table = self._state.table
        if table.touched.position == self._position:
            return
        rows = table.touched.since(self._position) if self._position >= 0 else None
        self._position = table.touched.position
        for row in range(table.size) if rows is None else sorted(rows):
            node = table.nodes[row]
            self._rows.pop(row, None)
            if node is not None and keys.VGPU_REGISTER in node.annotations:
                self._rows[row] = _Holding(node, self._parts_of, self._settings)
            self.changed.append(row)

    def on(self, node: Node) -> _Holding | None:
        """The cards of a node; None where it registered none."""
        self.sync()
        return self._rows.get(node.row)

    def _parts_of(self, task: Task, node: Node, cards: Mapping[str, Card]) -> list[Part] | None:
        """The parts of a node's cards that a task has: by its annotation and requests; None if unknown."""
        promise = self._promises.get(task.uid)
        if promise is not None and promise[0] == node.name:
            return [*read_parts(promise[1])]
        told = [*read_parts(task.annotations.get(keys.VGPU_IDS, ""))]
        asked = [one for one in asked_of(task.klass) for _ in range(one.cards)]
        if len(told) != len(asked) or not all(part.uuid in cards for part in told):
            return None
        return [
            part._replace(memory=one.memory_of(cards[part.uuid]), cores=one.cores)
            for part, one in zip(told, asked, strict=True)
        ]

    def promise(self, task: Task, node: Node, parts: Sequence[Sequence[Part]]) -> None:
        """Let a task have these parts."""
        self._promises[task.uid] = (node.name, write_parts(parts))
        self._read_again(node)

    def withdraw(self, task: Task) -> None:
        """Let a task have nothing of what was promised."""
        promise = self._promises.pop(task.uid, None)
        node = self._state.nodes.get(promise[0]) if promise is not None else None
        if node is not None:
            self._read_again(node)

    def promised(self, task: Task) -> str:
        """The promised parts of a task, as the annotation says them."""
        return self._promises.get(task.uid, ("", ""))[1]

    def _read_again(self, node: Node) -> None:
        self.sync()
        if node.row in self._rows:
            self._rows[node.row] = _Holding(node, self._parts_of, self._settings)
            self.changed.append(node.row)


class _Holding:
    """The cards of one node and their users: all, and all but those that this session evicts."""

    def __init__(
        self,
        node: Node,
        parts_of: Callable[[Task, Node, Mapping[str, Card]], list[Part] | None],
        settings: CardSettings,
    ) -> None:
        self._rules = settings.rules
        self.problem = ""
        try:
            self.cards = read_cards(node, partial(geometries_of, settings.known), fall_back=settings.fall_back)
        except InvalidInput as exc:
            self.cards, self.problem = (), str(exc)
        self._empty = self.cards
        place = {card.uuid: n for n, card in enumerate(self.cards)}
        known = {card.uuid: card for card in self.cards}
        self._labels: list[list[tuple[Task, bool]]] = [[] for _ in self.cards]
        all_cards, staying = list(self.cards), list(self.cards)
        unknown: list[Task] = []
        for task in sorted(node.tasks.values(), key=lambda t: t.uid):
            if not asked_of(task.klass):
                continue
            parts = parts_of(task, node, known)
            if parts is None:
                if task.status not in _BEING_PLACED:
                    unknown.append(task)
                continue
            for part in parts:
                at = place.get(part.uuid)
                if at is not None:
                    all_cards[at] = all_cards[at].with_part(part)
                    self._labels[at].append((task, task.evicted))
                    if not task.evicted:
                        staying[at] = staying[at].with_part(part)
        self.cards, self.staying = tuple(all_cards), tuple(staying)
        for task in unknown:  # somebody else put it there and did not say where: it has what it would get
            chosen = self.choose(task, no_policy, future=False)
            for part in (p for parts in chosen[0] for p in parts) if chosen is not None else ():
                at = place[part.uuid]
                self._labels[at].append((task, task.evicted))
                self.cards = (*self.cards[:at], self.cards[at].with_part(part), *self.cards[at + 1 :])
                if not task.evicted:
                    self.staying = (*self.staying[:at], self.staying[at].with_part(part), *self.staying[at + 1 :])

    def choose(
        self, task: Task, order: Callable[[Card], tuple[float, int]], *, future: bool, score: str = ""
    ) -> Chosen | None:
        """Cards for every container of a task, or None; *future*: once those are gone that this session evicts."""
        return self._choose(list(self.staying if future else self.cards), task, order, future, score)

    def is_large_enough(self, task: Task) -> bool:
        """Report whether there would be room on the empty card."""
        return self._choose(list(self._empty), task, no_policy, None, "") is not None

    def _choose(
        self,
        cards: list[Card],
        task: Task,
        order: Callable[[Card], tuple[float, int]],
        future: bool | None,
        score: str,
    ) -> Chosen | None:
        chosen: list[list[Part]] = []
        total = 0.0
        for asked in asked_of(task.klass):
            parts: list[Part] = []
            for at in sorted(range(len(cards)), key=lambda n: (*order(cards[n]), -n)):
                if len(parts) == asked.cards:
                    break
                card = cards[at]
                part = card.part_for(asked)
                if part is None or not wants(task, card) or self._excluded(task, at, future):
                    continue
                cards[at] = card.with_part(part)
                parts.append(part)
                if score == "binpack":
                    total += 100.0 * cards[at].used_memory / max(card.memory, 1)
                elif score == "spread":
                    total += 100.0 if cards[at].used == 1 else 0.0
            if len(parts) < asked.cards:
                return None
            chosen.append(parts)
        return chosen, total

    def _excluded(self, task: Task, at: int, future: bool | None) -> bool:
        """Report whether a user of the card matches a rule that the task matches too. An empty card has no user
        (None)."""
        for rule in self._rules if future is not None else ():
            if _matches(task, rule):
                for other, evicted in self._labels[at]:
                    if other is not task and not (future and evicted) and _matches(other, rule):
                        return True
        return False

    def roomiest(self) -> tuple[int, int]:
        """(MiB, percent of the cores) that are free on the card with most free memory."""
        return max(((c.free_memory(), ALL_CORES - c.used_cores) for c in self.staying), default=(0, 0))


def _matches(task: Task, rule: Mapping[str, str]) -> bool:
    return all(task.labels.get(key) == value for key, value in rule.items())
