"""Queues with their bounds, side by side or in a tree, and what each branch of the tree holds.

Built from the queues' specs and the cluster's size alone, and kept until one of them changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pumice.framework import quota
from pumice.model.queue import Queue
from pumice.model.resources import CPU, EMPTY, MEMORY, TOLERANCE, Missing, Number, Resources

ROOT = "root"


@dataclass(slots=True, eq=False)
class Branch:
    """A queue's place and bounds."""

    name: str
    queue: Queue | None
    """None for a root that nobody has made."""
    parent: Branch | None = None
    children: list[Branch] = field(default_factory=list)
    ancestors: tuple[Branch, ...] = ()
    """From the root down to the parent."""
    capability: dict[int, Number] = field(default_factory=dict)
    guarantee: Resources = EMPTY
    deserved: Resources = EMPTY
    limit: dict[int, Number] = field(default_factory=dict)
    """The most it may hold; a name it lacks is not to be had."""
    held: dict[int, Number] = field(default_factory=dict)
    """The amounts that all queues below it, and itself, hold now (kept by `Tree.sync`; inner branches only)."""
    problem: str = ""
    counted: tuple[tuple[int, Number], ...] = ()
    """The resources of which it deserves more than a trace."""

    @property
    def is_leaf(self) -> bool:
        """Has no queues below it."""
        return not self.children

    @property
    def best_effort(self) -> bool:
        """Deserves nothing."""
        return self.deserved.is_empty

    def path(self) -> Iterable[Branch]:
        """Itself and everything above it, upwards."""
        yield self
        yield from reversed(self.ancestors)

    def used(self) -> Mapping[int, Number]:
        """The amounts that it holds now."""
        return self.queue.held.amounts if self.is_leaf and self.queue is not None else self.held

    def above(self, level: int) -> Branch | None:
        """The ancestor so many levels up, the root excepted; None where there is none."""
        if not 0 < level <= len(self.ancestors):
            return None
        found = self.ancestors[-level]
        return found if found.name != ROOT else None

    def leaves(self) -> Iterable[Branch]:
        """Every branch at or below it that has a queue."""
        if self.queue is not None:
            yield self
        for child in self.children:
            yield from child.leaves()


DEEPEST: Final = 100
"""So many queues may stand above one another. An endless chain of parents has no queue that serves."""


class QueueTree:
    """All queues with their bounds. *problems* says what is wrong with which queue."""

    def __init__(self, queues: Mapping[str, Queue], total: Mapping[int, Number], *, hierarchy: bool) -> None:
        self.branches: dict[str, Branch] = {q.name: Branch(q.name, q) for q in queues.values()}
        self.problems: dict[str, str] = {}
        self.broken = ""
        """The first thing that makes the tree none: a cycle, a missing parent, no root."""
        self._seen: dict[str, tuple[int, dict[int, Number]]] = {}
        if hierarchy:
            self._join(total)
        else:
            self._stand_alone(total)
        for branch in self.branches.values():
            branch.counted = tuple((d, v) for d, v in sorted(branch.deserved.items()) if v >= TOLERANCE)
        self.inner = [b for b in self.branches.values() if b.children]

    # -- side by side ---------------------------------------------------------------------------------------------
    def _stand_alone(self, total: Mapping[int, Number]) -> None:
        guaranteed = _sum(b.queue.guarantee for b in self.branches.values() if b.queue is not None)
        spare = Resources(total).exceeding(guaranteed)
        for branch in self.branches.values():
            queue = branch.queue
            assert queue is not None, f"queue {branch.name} has no object"
            branch.guarantee = queue.guarantee
            branch.capability = dict(queue.capability.items())
            cap = dict(branch.capability)
            if cap:
                for d in (CPU, MEMORY):
                    if cap.get(d, 0) <= 0:
                        cap[d] = math.inf
            branch.limit = _lower(spare + branch.guarantee, cap)
            branch.deserved = queue.deserved.at_most(Resources(branch.limit), Missing.INFINITY).at_least(
                queue.guarantee
            )
            self._check_guarantee(branch)

    # -- in a tree ------------------------------------------------------------------------------------------------
    def _join(self, total: Mapping[int, Number]) -> None:
        root = self.branches.get(ROOT)
        if root is None:
            root = self.branches[ROOT] = Branch(ROOT, None)
            self.broken = "queue root does not exist"
        for name, branch in sorted(self.branches.items()):
            if branch is not root:
                branch.problem = self._lineage_problem(name)
                if branch.problem:
                    self.problems[name] = branch.problem
                    self.broken = self.broken or branch.problem
        for _, branch in sorted(self.branches.items()):
            if branch is not root and not branch.problem and branch.queue is not None:
                branch.parent = self.branches[branch.queue.parent]
                branch.parent.children.append(branch)
        for branch in self.branches.values():
            line = []
            above = branch.parent
            while above is not None:
                line.append(above)
                above = above.parent
            branch.ancestors = tuple(reversed(line))
        own = dict(root.queue.capability.items()) if root.queue is not None else {}
        for d, v in ((d, math.inf) for d in (CPU, MEMORY, *total)):
            if d not in own or (d in (CPU, MEMORY) and own[d] <= 0):
                own[d] = v
        root.capability = own
        root.limit = dict(own)
        self._bound_children(root)

    def _lineage_problem(self, name: str) -> str:
        """Why a queue does not hang on the root, or nothing."""
        passed = [name]
        at = self.branches[name]
        while at.name != ROOT:
            if len(passed) > DEEPEST:
                return f"queue {name}: its line of parents is longer than {DEEPEST}"
            parent = at.queue.parent if at.queue is not None else ROOT
            if parent not in self.branches:
                return f"queue {name}: the parent {parent!r} of queue {at.name} does not exist"
            if parent in passed:
                return f"queue {name}: its line of parents is a cycle: {' -> '.join([*passed, parent])}"
            passed.append(parent)
            at = self.branches[parent]
        return ""

    def _bound_children(self, branch: Branch) -> None:
        """Bounds of everything below *branch*, from the top down."""
        children = branch.children
        for child in children:
            queue = child.queue
            assert queue is not None, f"queue {child.name} has no object"
            child.guarantee = queue.guarantee
            child.deserved = queue.deserved.at_least(queue.guarantee)
            child.capability = dict(queue.capability.items())
            for d, v in branch.capability.items():
                if d not in child.capability or (d in (CPU, MEMORY) and child.capability[d] <= 0):
                    child.capability[d] = v
        guaranteed = _sum(c.guarantee for c in children)
        deserved = _sum(c.deserved for c in children)
        if branch.name == ROOT:
            branch.guarantee, branch.deserved = guaranteed, deserved
        spare = Resources(branch.limit).exceeding(guaranteed)
        for child in children:
            child.limit = _lower(spare + child.guarantee, child.capability)
            self._check_child(branch, child)
        self._check_sums(branch, deserved, guaranteed)
        for child in children:
            self._bound_children(child)

    # -- what is wrong --------------------------------------------------------------------------------------------
    def _complain(self, branch: Branch, text: str) -> None:
        self.problems.setdefault(branch.name, f"queue {branch.name}: {text}")

    def _check_guarantee(self, branch: Branch) -> None:
        over = [d for d, v in branch.guarantee.items() if v > branch.capability.get(d, math.inf) > 0]
        if over:
            self._complain(
                branch, f"guarantee {branch.guarantee!r} must not exceed capability {Resources(branch.capability)!r}"
            )

    def _check_child(self, parent: Branch, child: Branch) -> None:
        self._check_guarantee(child)
        if any(v > parent.capability.get(d, math.inf) for d, v in child.capability.items()):
            self._complain(child, f"its capability exceeds that of its parent {parent.name}, which limits it")

    def _check_sums(self, branch: Branch, deserved: Resources, guaranteed: Resources) -> None:
        if branch.name == ROOT:
            return
        for what, own, below in (("guarantee", branch.guarantee, guaranteed), ("deserved", branch.deserved, deserved)):
            if any(v > own.get(d) for d, v in below.items()):
                self._complain(branch, f"the queues below it have more {what} ({below!r}) than it has ({own!r})")

    # -- what branches hold ---------------------------------------------------------------------------------------
    def sync(self, names: Iterable[str] | None = None) -> None:
        """Bring the sums of inner branches up to date with the named queues (all of them if None)."""
        if not self.inner:
            return
        for name in self.branches if names is None else names:
            branch = self.branches.get(name)
            if branch is None or branch.queue is None:
                continue
            queue = branch.queue
            version, before = self._seen.get(name, (-1, {}))
            if version == queue.version:
                continue
            for above in branch.path():
                if above.children:
                    quota.added(above.held, queue.held.amounts.items())
                    quota.added(above.held, before.items(), -1)
            self._seen[name] = queue.version, dict(queue.held.amounts)


def common_level(left: Branch, right: Branch) -> int:
    """How deep the lines of two queues run together: 0 when they share only the root."""
    level = 0
    for n, (a, b) in enumerate(zip(left.ancestors, right.ancestors, strict=False)):
        if a is not b:
            break
        level = n
    return level


def rivals(left: Branch, right: Branch) -> tuple[Branch, Branch]:
    """The two that compete when two queues do: their ancestors just below the deepest common one, or themselves."""
    below = common_level(left, right) + 1
    return (
        left.ancestors[below] if below < len(left.ancestors) else left,
        right.ancestors[below] if below < len(right.ancestors) else right,
    )


def _sum(parts: Iterable[Resources]) -> Resources:
    out: dict[int, Number] = {}
    for part in parts:
        quota.added(out, part.items())
    return Resources(out)


def _lower(most: Resources, cap: Mapping[int, Number]) -> dict[int, Number]:
    return {d: min(v, cap.get(d, math.inf)) for d, v in most.items()}
