"""Random user plugins: rules drawn as data, turned into callbacks of every shape and scope.

A rule's *kind* says what it looks at, which bounds the scopes it may declare: an answer that depends on what is placed
must not be called static. A filter may get stricter as tasks are placed (room, pods) or laxer (company).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pumice import (
    SKIP,
    Arguments,
    Event,
    EventHandler,
    Node,
    NodeRows,
    Plugin,
    Queue,
    Scope,
    Session,
    Task,
    Unfit,
    reason_id,
    same_class,
)
from pumice.engine.views import of_job

STATIC, NODE, SESSION = Scope.STATIC, Scope.NODE, Scope.SESSION
KINDS = {"zone": STATIC, "pods": NODE, "cpu": NODE, "company": NODE, "parity": SESSION, "job": SESSION}
SCOPES = [STATIC, NODE, SESSION]


@dataclass(frozen=True)
class Rule:
    """One filter or score: what it looks at, how it is asked, what it declares."""

    kind: str
    batch: bool
    scope: Scope
    amount: int
    fails: bool = False
    normalized: bool = False
    keyed: bool = False
    """Says by a key which tasks share answers, instead of leaving it to the engine to find out."""
    choosy: bool = False
    """Applies to larger tasks only."""

    def declared(self) -> dict[str, Any]:
        """What is said about the callback when it is registered."""
        said: dict[str, Any] = {"scope": self.scope}
        if self.keyed and self.kind == "zone":
            said["key"] = lambda task: len(task.job.name)
        elif self.keyed and self.kind in ("pods", "cpu", "company"):
            said["key"] = same_class
        if self.choosy:
            key = said.get("key") or (same_class if self.scope is SESSION else of_job)
            said["key"] = lambda task: key(task) if task.requests.milli_cpu >= 500 else SKIP
        return said


@dataclass(frozen=True)
class Policy:
    """A user's plugin: its filters, its scores and the odd hook."""

    filters: tuple[Rule, ...]
    scorers: tuple[Rule, ...]
    best_node: bool
    refuses: int
    """An allocate handler objects to every so many-th task; 0 for none."""
    queue_limit: int
    """The queue may hold so many milli-cpu; 0 for any amount."""
    larger_first: bool


@st.composite
def rules(draw: st.DrawFn, score: bool, kinds: tuple[str, ...] = ()) -> Rule:
    """Any rule, or one of those *kinds* that says all that is true of it."""
    kind = draw(st.sampled_from(kinds or sorted(KINDS)))
    if kinds:
        return Rule(kind, True, NODE, draw(st.sampled_from([3, 2, 1, 0])), keyed=True)
    lowest = SCOPES.index(KINDS[kind])
    batch = draw(st.booleans())
    return Rule(
        kind,
        batch,
        draw(st.sampled_from(SCOPES[lowest:])),
        draw(st.sampled_from([3, 2, 1, 0])),
        fails=not batch and draw(st.integers(0, 9)) == 9,
        normalized=score and batch and draw(st.integers(0, 3)) == 3,
        keyed=draw(st.booleans()),
        choosy=draw(st.integers(0, 4)) == 4,
    )


def one_scalar(drawn: list[Rule]) -> tuple[Rule, ...]:
    """The rules, with at most one that is asked about single nodes: of several the last would count."""
    scalar = [rule for rule in drawn if not rule.batch]
    return tuple(rule if rule.batch or rule is scalar[0] else replace(rule, batch=True, fails=False) for rule in drawn)


policies = st.builds(
    Policy,
    filters=st.lists(rules(score=False), max_size=2).map(one_scalar),
    scorers=st.lists(rules(score=True), max_size=3).map(one_scalar),
    best_node=st.integers(0, 7).map(lambda n: n == 7),
    refuses=st.sampled_from([0, 0, 0, 0, 3]),
    queue_limit=st.sampled_from([0, 0, 0, 3000, 6000]),
    larger_first=st.booleans(),
)


def number(name: str) -> int:
    """The number at the end of a name."""
    return int(name.rpartition("-")[2])


def zone_of(node: Node) -> int:
    return int(node.labels.get("zone", "0"))


def follows_amounts(rule: Rule, milli: int, pods: int, used: int) -> tuple[bool, int]:
    """(whether a rule about amounts lets a task of so many milli-cpu pass, its score)."""
    if rule.kind == "pods":
        return pods <= rule.amount, pods * (rule.amount - 1)
    worth = used // 500 * (1 - rule.amount)
    if rule.kind == "cpu":
        return used <= 1000 * rule.amount + milli, worth
    return pods > 0 or milli >= 250 * rule.amount, worth


def passes(rule: Rule, task: Task, zone: int, pods: int, used: int, row: int) -> bool:
    match rule.kind:
        case "zone":
            return zone != (rule.amount + len(task.job.name)) % 4
        case "pods" | "cpu" | "company":
            return follows_amounts(rule, int(task.requests.milli_cpu), pods, used)[0]
        case "parity":
            return (number(task.name) + row) % 4 != rule.amount
        case _:
            return task.job.ready_count <= rule.amount + row


def worth(rule: Rule, task: Task, zone: int, pods: int, used: int, row: int) -> int:
    match rule.kind:
        case "zone":
            return (zone * (rule.amount + 1) + len(task.job.name)) % 5
        case "pods" | "cpu" | "company":
            return follows_amounts(rule, int(task.requests.milli_cpu), pods, used)[1]
        case "parity":
            return (number(task.name) * 3 + row * (rule.amount + 1)) % 4
        case _:
            return (int(task.job.ready_count) + row * rule.amount) % 3


def scaled(raw: Any, mask: Any) -> Any:
    """Scale over the candidates; whole numbers, so that sums are exact in any order."""
    top = raw[mask].max(initial=0)
    return np.floor(raw * 10 / top) if top > 0 else np.zeros(len(raw))


class UserPolicy(Plugin):
    """A policy made of rules."""

    name = "user-policy"
    policy: Policy

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)

    def on_session_open(self, ssn: Session) -> None:
        for n, rule in enumerate(self.policy.filters):
            if rule.batch:
                ssn.add_batch_predicate_fn(self.name, self.batch_filter(rule, n), **rule.declared())
            else:
                ssn.add("predicate", self.name, self.filter(rule), **rule.declared())
        for rule in self.policy.scorers:
            if rule.batch:
                ssn.add_batch_node_order_fn(
                    self.name,
                    self.batch_scorer(rule),
                    normalize=scaled if rule.normalized else None,
                    **rule.declared(),
                )
            else:
                ssn.add("node_order", self.name, self.scorer(rule), **rule.declared())
        if self.policy.best_node:
            ssn.add_best_node_fn(self.name, lambda task, scores: min(scores, key=lambda n: (scores[n], n)))
        if self.policy.refuses:
            ssn.add_event_handler(EventHandler(allocate=self.object_to))
        if self.policy.queue_limit:
            ssn.add_allocatable_fn(self.name, self.within_limit)
        if self.policy.larger_first:
            ssn.add_job_order_fn(self.name, lambda a, b: len(b.tasks) - len(a.tasks))

    def object_to(self, event: Event) -> None:
        if number(event.task.name) % self.policy.refuses == 1:
            event.err = "no"

    def within_limit(self, queue: Queue, task: Task) -> bool:
        return (queue.held + task.requests).milli_cpu <= self.policy.queue_limit

    def filter(self, rule: Rule) -> Any:
        def ask(task: Task, node: Node) -> None:
            if rule.fails and zone_of(node) == 3:
                raise RuntimeError("zone 3 is broken")
            if not passes(rule, task, zone_of(node), len(node.tasks), int(node.used.milli_cpu), number(node.name)):
                raise Unfit(f"{rule.kind} {rule.amount}")

        return ask

    def batch_filter(self, rule: Rule, n: int) -> Any:
        def ask(task: Task, rows: NodeRows) -> Any:
            fits = np.array([passes(rule, task, *facts) for facts in columns(rows)], dtype=np.bool_)
            return fits if n % 2 else np.where(fits, 0, reason_id(self.name, f"batch {rule.kind}"))

        return ask

    def scorer(self, rule: Rule) -> Any:
        def ask(task: Task, node: Node) -> float:
            if rule.fails and zone_of(node) == 3:
                return float("nan")
            return worth(rule, task, zone_of(node), len(node.tasks), int(node.used.milli_cpu), number(node.name))

        return ask

    def batch_scorer(self, rule: Rule) -> Any:
        def ask(task: Task, rows: NodeRows) -> Any:
            return [float(worth(rule, task, *facts)) for facts in columns(rows)]

        return ask


def columns(rows: NodeRows) -> list[tuple[int, int, int, int]]:
    """(zone, pods, used milli-cpu, number) of every row, read as a batch callback should: through the rows."""
    zones = [int(z or 0) for z in rows.labels.get("zone")]
    return list(zip(zones, rows.pod_count.tolist(), rows.used.milli_cpu.tolist(), map(number, rows.names), strict=True))


def plugin_of(policy: Policy) -> type[UserPolicy]:
    """The plugin class of a policy."""
    return type("DrawnPolicy", (UserPolicy,), {"policy": policy})
