"""Which callbacks are really asked at a point, and asking one of them so that its failure stays its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pumice.engine.choose import Chooser
from pumice.engine.evaluate import Evaluator
from pumice.framework.budgets import Budgets
from pumice.framework.callbacks import Callback
from pumice.framework.compat import Compat
from pumice.framework.points import POINTS
from pumice.framework.runtime import Runtime
from pumice.model.node import Node
from pumice.model.reason import Unfit, Verdict
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.framework.session import PluginEntry

A = TypeVar("A")


class Chains:
    """The enabled callbacks of a session, tier by tier. The base of everything that asks."""

    _registered: dict[str, dict[str, list[Callback]]]
    _tiers: Sequence[Sequence[PluginEntry]] | None
    state: ClusterState
    runtime: Runtime
    compat: Compat
    budgets: Budgets
    signature: object

    def _init_asking(self) -> None:
        self._chains: dict[str, list[list[Callback]]] = {}
        self._entries: dict[str, list[tuple[int, int, PluginEntry]]] | None = None
        self._evaluator: Evaluator | None = None
        self._chooser: Chooser | None = None
        self._job_keys: dict[str, tuple[int, Any]] = {}
        self._keyed: dict[str, Callable[[Any], Any] | None] = {}
        self._preemptive: dict[Hashable, Verdict] = {}
        self._preemptive_at = -1

    def _ask_anew(self, point: str) -> None:
        """Somebody registered: forget what was made of the chains before."""
        self._chains.pop(point, None)
        self._keyed.pop(point, None)
        self._entries = None
        self._evaluator = None
        self._chooser = None

    def chain(self, point: str) -> list[list[Callback]]:
        """The callbacks that are really asked at a point, tier by tier."""
        known = self._chains.get(point)
        if known is None:
            registered = self._registered.get(point)
            if not registered:
                known = []
            elif self._tiers is None:
                known = [[c for callbacks in registered.values() for c in callbacks]]
            else:
                known = [[c for name in tier for c in registered[name]] for tier in self._order(point, registered)]
            self._chains[point] = known
            self._keyed.pop(point, None)
        return known

    def _order(self, point: str, registered: Mapping[str, list[Callback]]) -> list[list[str]]:
        """Who is asked at a point, tier by tier; worked out once for a configuration and those who register."""
        key = (self.signature, point, *registered)
        known = self.runtime.orders.get(key) if self.signature is not None else None
        if known is None:
            known = []
            flag = POINTS[point].flag
            last = -1
            for tier, entry in self._asked_in_order(registered):
                if flag is None or entry.enabled(flag):
                    if tier != last:
                        known.append([])
                        last = tier
                    name = entry.name if entry.name in registered else getattr(entry.plugin, "name", "")
                    if name in registered:
                        known[-1].append(name)
            self.runtime.orders[key] = known
        return known

    def _asked_in_order(self, registered: Mapping[str, list[Callback]]) -> list[tuple[int, PluginEntry]]:
        """The conf's entries of the plugins that registered, with their tiers, in the conf's order."""
        if self._entries is None:
            self._entries = {}
            place = 0
            for number, tier in enumerate(self._tiers or ()):
                for entry in tier:
                    place += 1
                    for name in {entry.name, getattr(entry.plugin, "name", "") or entry.name}:
                        self._entries.setdefault(name, []).append((place, number, entry))
        found = {(place, number): entry for name in registered for place, number, entry in self._entries.get(name, ())}
        return [(number, found[place, number]) for place, number in sorted(found)]

    def _asked(self, callback: Callback, shape: Callable[[Any], A], failed: A, *args: Any) -> A:
        """One callback's answer in its shape; if it fails, what its point's failure policy says."""
        try:
            return shape(callback.fn(*args))
        except Unfit:
            raise
        except Exception as exc:
            self.contain(callback.plugin, callback.point, exc, *about(args))
            return failed

    def contain(
        self, plugin: str, point: str, exc: Exception, task: Task | None = None, node: Node | None = None
    ) -> None:
        raise NotImplementedError

    def _broadcast(self, point: str, *args: Any) -> None:
        for tier in self.chain(point):
            for callback in tier:
                self._asked(callback, identity, None, *args)


def identity(answer: Any) -> Any:
    return answer


def about(args: tuple[Any, ...]) -> tuple[Task | None, Node | None]:
    task = next((a for a in args if isinstance(a, Task)), None)
    node = next((a for a in args if isinstance(a, Node)), None)
    return task, node
