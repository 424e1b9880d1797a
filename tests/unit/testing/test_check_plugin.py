"""check_plugin: every shipped policy keeps the rules, and every way of breaking one is named."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pumice import Argument, Arguments, Job, Node, NodeRows, Plugin, Scope, Session, Task, Unfit, same_class, scope
from pumice.testing import check_plugin, job, node


class Good(Plugin):
    """Filters, scores and orders, each with what it declares."""

    name = "good"
    weight = Argument(1.0, "Weight of the score.")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_batch_node_order_fn(self.name, self.emptier, scope=Scope.NODE, key=same_class)

    def emptier(self, task: Task, rows: NodeRows) -> Any:
        return self.weight * rows.idle.milli_cpu / np.maximum(rows.allocatable.milli_cpu, 1)

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        if task.job.queue == "research" and not node.gpus:
            raise Unfit("no GPU")

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return node.used.milli_cpu / max(node.allocatable.milli_cpu, 1)

    def job_order(self, left: Job, right: Job) -> int:
        return right.priority - left.priority


def test_a_good_policy_passes() -> None:
    check_plugin(Good, {"weight": "2"})


class ReadsTheNode(Plugin):
    name = "reads-the-node"

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        return node.used.milli_cpu


class ReadsOtherNodes(Plugin):
    name = "reads-other-nodes"

    def on_session_open(self, ssn: Session) -> None:
        self.nodes = ssn.nodes

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return sum(other.used.milli_cpu for other in self.nodes.values())


class ReadsTheRealNode(Plugin):
    name = "reads-the-real-node"

    def on_session_open(self, ssn: Session) -> None:
        self.nodes = ssn.nodes

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return self.nodes[node.name].used.milli_cpu


class ReadsTheTime(Plugin):
    name = "reads-the-time"

    def on_session_open(self, ssn: Session) -> None:
        self.now = ssn.now

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        if self.now > 100:
            raise Unfit("too late")


class ReadsTheName(Plugin):
    name = "reads-the-name"

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        return float(task.name[-1] == "0")


class KeyTooWide(Plugin):
    name = "key-too-wide"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_node_order_fn(self.name, self.score, scope=Scope.STATIC, key=same_class)

    def score(self, task: Task, node: Node) -> float:
        return float(task.job.priority)


class Random(Plugin):
    name = "random-score"

    def node_order(self, task: Task, node: Node) -> float:
        return random.random()


class BatchOfTwo(Plugin):
    name = "batch-of-two"

    def batch_node_order(self, task: Task, rows: NodeRows) -> Any:
        return np.zeros(2)


class NoOrder(Plugin):
    name = "no-order"

    def job_order(self, left: Job, right: Job) -> int:
        return 1


class Circle(Plugin):
    name = "circle"

    def job_order(self, left: Job, right: Job) -> int:
        names = sorted(("gpus", "large", "plain"))
        if left.name not in names or right.name not in names or left.name == right.name:
            return 0
        return -1 if (names.index(right.name) - names.index(left.name)) % 3 == 1 else 1


class Raises(Plugin):
    name = "raises"

    def predicate(self, task: Task, node: Node) -> None:
        raise KeyError("zone")


class RaisesWhenAsked(Plugin):
    name = "raises-when-asked"

    def overused(self, queue: Any) -> bool:
        return bool(queue.nothing_of_that_name)


class CannotOpen(Plugin):
    name = "cannot-open"

    def on_session_open(self, ssn: Session) -> None:
        raise RuntimeError("no licence")


class CannotBuild(Plugin):
    name = "cannot-build"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        arguments.int("weight", 1) / 0


class Unpicklable(Plugin):
    name = "unpicklable"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.score = lambda: 0.0


class Writes(Plugin):
    name = "writes"

    def node_order(self, task: Task, node: Node) -> float:
        task.job.priority += 1  # type: ignore[misc]
        return 0.0


class WritesBehindTheSeal(Plugin):
    name = "writes-behind-the-seal"

    def node_order(self, task: Task, node: Node) -> float:
        object.__setattr__(task, "__class__", Task._draft)
        task.priority = 99  # type: ignore[misc]
        object.__setattr__(task, "__class__", Task)
        return 0.0


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (
            ReadsTheNode,
            "has scope STATIC, and its answer changed with what is placed: .*-0 on n0 0 and 2000",
        ),
        (ReadsOtherNodes, "has scope NODE, and its answer changed with what is placed on other nodes"),
        (ReadsTheRealNode, "of a node as it would be with more tasks it says other than of such a node"),
        (ReadsTheTime, "has scope STATIC, and its answer changed"),
        (ReadsTheName, "says of default/plain-0 and of default/plain-1, which have one key"),
        (KeyTooWide, "says of default/plain-0 and of default/twin-0, which have one key"),
        (Random, "is not deterministic: default/plain-0 on n0"),
        (BatchOfTwo, "one answer per row: 6 rows, shape"),
        (NoOrder, "job_order .* is no order"),
        (Circle, "is before .*, that before .*, but not the first"),
        (Raises, "predicate .* raises KeyError: 'zone' .*test_check_plugin.py:"),
        (RaisesWhenAsked, "dialect volcano: .*nothing_of_that_name"),
        (CannotOpen, "on_session_open raises .*no licence"),
        (CannotBuild, "cannot be built: ZeroDivisionError"),
        (Unpicklable, "cannot be pickled"),
        (Writes, "priority is read-only"),
        (WritesBehindTheSeal, "changes what it is given"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_breaks_a_rule_is_named(plugin: type[Plugin], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_plugin(plugin)


def test_objects_of_ones_own_are_looked_at() -> None:
    class Kept(Plugin):
        name = "kept"

        @scope(Scope.STATIC)
        def node_order(self, task: Task, node: Node) -> float:
            return node.used.milli_cpu if "kept" in node.labels else 0.0

    with pytest.raises(AssertionError, match="scope STATIC"):
        check_plugin(Kept, objects=[node("n6", labels={"kept": "yes"}), *job("mine")])
