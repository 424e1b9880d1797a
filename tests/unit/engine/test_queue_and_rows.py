"""The ordered queue is Go's heap; rows are arrays, also of nodes as they would be."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pumice import Node, NodeRows, Session, Task
from pumice.engine.heap import GoHeap
from pumice.engine.rows import ImaginedNode
from pumice.testing import cluster, job, node, session, task_of


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_what_is_popped_comes_in_order(first: list[int], later: list[int]) -> None:
    heap = GoHeap(lambda a, b: a < b, first)
    twin = list(first)
    heapq.heapify(twin)
    for item in later:
        heap.push(item)
        heapq.heappush(twin, item)
        assert heap.pop() == heapq.heappop(twin)
    copy = heap.clone()
    assert [heap.pop() for _ in range(len(heap))] == sorted(twin)
    assert sorted(copy) == sorted(twin)


def test_equals_come_out_as_from_gos_heap() -> None:
    """container/heap puts the last element on top and sifts it down: equals do not keep their order."""
    heap = GoHeap(lambda a, b: a[0] < b[0], [(1, n) for n in "abcd"])
    assert [heap.pop()[1] for _ in range(4)] == ["a", "d", "c", "b"]


def rows_of(ssn: Session, task: Task, extra: list[int]) -> NodeRows:
    return NodeRows(ssn.state.table, np.arange(len(extra)), np.array(extra), task.klass)


def test_imagined_rows_and_nodes_say_the_same() -> None:
    ssn = session(cluster("2x8gpu"), job("a", tasks=2, gpu=1, memory="1Gi"), job("r", on="node-1", cpu=2))
    task = task_of(ssn, "a-0")
    rows = rows_of(ssn, task, [0, 3])
    nodes: list[Node] = [ImaginedNode(ssn.nodes[n], task, k) for n, k in (("node-0", 0), ("node-1", 3))]
    assert rows.used.milli_cpu.tolist() == [n.used.milli_cpu for n in nodes] == [0, 5000]
    assert rows.idle["nvidia.com/gpu"].tolist() == [8000, 5000]
    assert rows.idle.memory.tolist() == [n.idle.memory for n in nodes]
    assert rows.pod_count.tolist() == [len(n.tasks) for n in nodes] == [0, 4]
    assert rows.requested(0).tolist() == [0, 5000]
    assert rows.allocatable.milli_cpu.tolist() == [n.allocatable.milli_cpu for n in nodes] == [32000, 32000]
    assert rows.future_idle(0).tolist() == [n.future_idle.milli_cpu for n in nodes] == [32000, 27000]
    assert rows.nonzero_requested(0).tolist() == [0, 5000]
    assert rows.extra is not None
    assert nodes[1].releasing.is_empty


def test_rows_of_a_table_with_a_gap() -> None:
    from pumice.model.events import Gone

    ssn = session(node("a", labels={"z": "1"}), node("b"), node("c", labels={"z": "2"}))
    ssn.state.apply(Gone("Node", "b"))
    rows = NodeRows(ssn.state.table, np.array([0, 2]))
    assert rows.names == ["a", "c"]
    assert rows.labels.equals("z", "2").tolist() == [False, True]
    assert rows.labels.equals("z", "9").tolist() == [False, False]
    assert rows.labels.get("z") == ["1", "2"]
    assert rows.max_pods.tolist() == [110, 110]
    assert rows.idle["never/seen-before"].tolist() == [0, 0]
    assert len(NodeRows(ssn.state.table)) == 3
