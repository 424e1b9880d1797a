"""Saved cycles: what goes in comes out, and a file that is none is refused by name."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice import saved
from pumice.errors import InvalidInput
from pumice.model.status import TaskStatus
from pumice.saved import cycle as parts
from pumice.saved import files
from pumice.saved.cycle import (
    AssumedTask,
    SavedCycle,
    SavedHealth,
    SavedNomination,
    SavedShard,
    pack,
    pack_memory,
    unpack,
)
from pumice.state.invariants import violations
from pumice.testing import Scenario

FULL = SavedCycle(
    now=12.5,
    objects={"Node": [{"metadata": {"name": "n1"}}]},
    conf={"actions": "allocate", "tiers": []},
    conf_source="a.conf",
    assumed=[AssumedTask(uid="u1", status="Binding", node="n1", since=3.0)],
    phases={"ns/j": "Inqueue"},
    default_queue="main",
    scheduler_names=["pumice"],
    seed=7,
    random_ties=True,
    cycle=3,
    nominations={"u1": SavedNomination(node="n1", until=9.0)},
    health={"gang": SavedHealth(failures=2, failing_cycles=1, quarantined=True, last="why")},
    memory={"p": {"k": 1}},
    left_out=["p: x"],
    shard=SavedShard(hard=True, nodes=["n1"]),
    environment={"node_usage": {"n1": {"cpu": 10.0}}},
    exchanges=[{"verb": "predicate"}],
    decisions=[{"do": "bind", "pod": "ns/p", "node": "n1"}],
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text(), st.integers()), inner)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.integers() | st.tuples(st.text()))
    ),
    max_leaves=20,
)


def header(**fields: Any) -> bytes:
    return gzip.compress(msgspec.json.encode(fields) + b"\n{}\n", mtime=0)


def test_a_file_holds_everything_that_was_put_into_it(tmp_path: Path) -> None:
    file = tmp_path / "a.cycle"
    saved.write(file, FULL, "pumice 0")
    assert saved.read(file) == FULL


def test_equal_cycles_give_equal_bytes() -> None:
    assert saved.dump(FULL) == saved.dump(saved.parse(saved.dump(FULL)))


@given(PLAIN)
def test_packed_values_come_back_equal_and_of_the_same_types(value: Any) -> None:
    packed = msgspec.json.decode(msgspec.json.encode(pack(value)))
    assert repr_sorted(unpack(packed)) == repr_sorted(value)
    assert unpack(packed) == value


def repr_sorted(value: Any) -> Any:
    """A value with the type of every part; sets in a fixed order."""
    if isinstance(value, dict):
        return ("dict", [(repr_sorted(k), repr_sorted(v)) for k, v in value.items()])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(map(repr, value)))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [repr_sorted(v) for v in value])
    return (type(value).__name__, repr(value))


def test_a_number_that_is_none_comes_back_as_such() -> None:
    assert math.isnan(unpack(pack(math.nan)))


def test_memory_that_no_file_can_hold_is_left_out_and_the_rest_is_saved() -> None:
    round_about: list[object] = []
    round_about.append(round_about)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    odd: dict[object, object] = {
        "a": round_about,
        "b": deep,
        "c": "\ud800",
        "\ud800": 1,
        "d": 10**5000,
        "e": {"\ud800"},
    }
    packed, left_out = pack_memory({"p": cast("Any", {**odd, "fine": 1})})
    assert packed == {"p": {"fine": 1}}
    assert left_out == ["p: a", "p: b", "p: c", "p: ?", "p: d", "p: e"]


def test_memory_that_is_not_plain_data_is_left_out_and_named_and_caches_are_left_out_silently() -> None:
    memory: dict[str, dict[str, Any]] = {"p": {"count": 3, "handle": object(), "_cache": object()}, "q": {"_only": 1}}
    packed, left_out = pack_memory(memory)
    assert packed == {"p": {"count": 3}}
    assert left_out == ["p: handle"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a saved cycle"),
        (b"kind: Node\n", "not a saved cycle (no gzip data)"),
        (gzip.compress(b"hello\n", mtime=0), "its first line does not say 'pumice-cycle'"),
        (gzip.compress(b"[1, 2]\n", mtime=0), "its first line does not say 'pumice-cycle'"),
        (header(format="other", version=1), "its first line does not say 'pumice-cycle'"),
        (header(format="pumice-cycle", version=99, program="pumice 9"), "saved in format 99 by pumice 9"),
        (header(format="pumice-cycle", version=1), "a broken saved cycle: now: is missing"),
        (saved.dump(FULL)[:-40], "cut off"),
    ],
)
def test_a_file_that_is_no_saved_cycle_is_refused_by_name(content: bytes, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        saved.parse(content, "x.cycle")
    assert str(caught.value).startswith("x.cycle: ")
    assert message in str(caught.value)


def test_a_damaged_file_is_refused() -> None:
    content = bytearray(saved.dump(FULL))
    content[len(content) // 2] ^= 0xFF
    with pytest.raises(InvalidInput, match=r"x\.cycle: "):
        saved.parse(bytes(content), "x.cycle")


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        saved.read(tmp_path / "none")
    with pytest.raises(InvalidInput, match="Is a directory"):
        saved.write(tmp_path, FULL)


def test_an_assumed_task_without_a_pod_is_refused() -> None:
    with pytest.raises(InvalidInput, match="task 'u1' is assumed but is not among the pods"):
        saved.restore(FULL)


def test_a_restored_cluster_holds_what_was_assumed(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("a", tasks=2, cpu=1)
    task = min(scenario.state.tasks.values(), key=lambda t: t.name)
    cycle = SavedCycle(
        now=5.0,
        objects=parts.objects_of(scenario.state),
        conf={},
        assumed=[AssumedTask(uid=task.uid, status="Binding", node="n1", since=4.0)],
        phases={"default/a": "Inqueue"},
    )
    state = saved.restore(cycle)
    again = state.tasks[task.uid]
    assert (again.status, again.node_name) == (TaskStatus.BINDING, "n1")
    assert state.nodes["n1"].idle.milli_cpu == 3000
    assert state.jobs["default/a"].phase == "Inqueue"
    assert (parts.assumed_of(state), parts.phases_of(state)) == (cycle.assumed, cycle.phases)
    assert parts.objects_of(state) == cycle.objects
    assert violations(state) == []


def test_a_status_that_does_not_exist_is_refused(scenario: Scenario) -> None:
    scenario.job("a", tasks=1, cpu=1)
    [uid] = scenario.state.tasks
    cycle = SavedCycle(
        now=0.0,
        objects=parts.objects_of(scenario.state),
        conf={},
        assumed=[AssumedTask(uid=uid, status="Dreaming", node="", since=0.0)],
    )
    with pytest.raises(InvalidInput, match="no status 'Dreaming'"):
        saved.restore(cycle)


def test_tasks_hold_the_devices_that_they_held(scenario: Scenario) -> None:
    """The first task, on device 0, is gone; the second stays on device 1 although device 0 is free."""
    scenario.node("n1", cpu=8, gpu=2)
    scenario.job("a", tasks=2, min_available=1, cpu=1, task_annotations={"gpu-fraction": "0.6"})
    scenario.run(actions=["enqueue", "allocate"], plugins=["gang", "predicates"])
    first, second = sorted(scenario.state.tasks.values(), key=lambda t: t.devices)
    assert (first.devices, second.devices) == ((0,), (1,))
    scenario.remove(first.name)
    state = scenario.state
    cycle = SavedCycle(
        now=0.0,
        objects=parts.objects_of(state),
        conf={},
        assumed=parts.assumed_of(state),
        devices=parts.devices_of(state),
    )
    again = saved.restore(cycle)
    assert again.tasks[second.uid].devices == (1,)
    assert violations(again) == []


@pytest.mark.parametrize("left", [0, 1])
def test_tasks_hold_devices_that_their_node_does_not_offer_any_more(scenario: Scenario, left: int) -> None:
    """So it is while a device plugin starts anew: nodes then offer no device, and whoever runs on one goes on."""
    scenario.node("n1", cpu=8, gpu=16).job("a", tasks=2, gpu=8, on="n1")
    scenario.node("n1", cpu=8, gpu=left)
    state = scenario.state
    held = {uid: task.devices for uid, task in state.tasks.items()}
    cycle = SavedCycle(now=0.0, objects=parts.objects_of(state), conf={}, devices=parts.devices_of(state))
    again = saved.restore(cycle)
    assert {uid: task.devices for uid, task in again.tasks.items()} == held
    assert [len(devices) for devices in held.values()] == [8, 8]
    assert again.devices.held_on(again.nodes["n1"].row) == state.devices.held_on(state.nodes["n1"].row)


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    bomb = gzip.compress(b"x" * (64 << 20))
    assert len(bomb) < 100_000
    with pytest.raises(InvalidInput, match="unpacks to more than 1 MiB"):
        saved.parse(bomb)


def test_deep_json_is_a_broken_cycle() -> None:
    head = b'{"format":"pumice-cycle","version":1}'
    with pytest.raises(InvalidInput, match="a broken saved cycle"):
        saved.parse(gzip.compress(head + b"\n" + b'{"memory":' + b"[" * 200_000))
