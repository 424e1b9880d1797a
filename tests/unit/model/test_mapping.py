"""The mappings that plugins are given: read as a dict, never written, and the thing itself stands for its key."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest

from pumice.model import mapping
from pumice.model.job import Job, JobMap
from pumice.model.mapping import NOTHING, ReadOnlyMap, labels_of
from pumice.testing import job, node, queue, session

MUTATORS: dict[str, tuple[Any, ...]] = {
    "__setitem__": ("a", "2"),
    "__delitem__": ("a",),
    "__ior__": ({"a": "2"},),
    "clear": (),
    "pop": ("a",),
    "popitem": (),
    "setdefault": ("b", "2"),
    "update": ({"a": "2"},),
}


def test_the_mutators_that_are_tried_are_all_that_a_dict_has() -> None:
    readers = {"get", "items", "keys", "values", "copy", "fromkeys"}
    assert {name for name in dir(dict) if not name.startswith("_")} == readers | {
        name for name in MUTATORS if not name.startswith("_")
    }


@pytest.mark.parametrize("name", MUTATORS)
def test_nothing_changes_it(name: str) -> None:
    labels = ReadOnlyMap({"a": "1"})
    with pytest.raises(TypeError, match=r"read-only: it cannot be changed; \.copy\(\) gives a dict of your own"):
        getattr(labels, name)(*MUTATORS[name])
    assert labels == {"a": "1"}


def test_it_reads_as_a_dict() -> None:
    labels = ReadOnlyMap({"a": "1"})
    assert (labels["a"], labels.get("a"), labels.get("b"), labels.get("b", "x")) == ("1", "1", None, "x")
    assert "a" in labels
    assert "b" not in labels
    assert (json.dumps(labels), msgspec.json.encode(labels)) == ('{"a": "1"}', b'{"a":"1"}')
    with pytest.raises(KeyError, match="b"):
        labels["b"]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, dict.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_your_own(how: Any) -> None:
    mine = how(ReadOnlyMap({"a": "1"}))
    mine["a"] = "2"
    assert mine == {"a": "2"}


def test_the_thing_itself_stands_for_its_key() -> None:
    ssn = session(node("n1"), queue("q"), job("train", queue="q", on="n1"))
    task = next(iter(ssn.jobs["default/train"].tasks.values()))
    things: list[tuple[Any, Any]] = [
        (ssn.jobs, task.job),
        (ssn.nodes, task.node),
        (ssn.queues, ssn.queues["q"]),
        (task.job.tasks, task),
        (ssn.queues["q"].jobs, task.job),
        (ssn.nodes["n1"].tasks, task),
    ]
    for held, thing in things:
        assert held[thing] is thing
        assert held.get(thing) is thing
        assert thing in held
    gone = Job("default", "gone")
    assert gone not in ssn.jobs
    assert ssn.jobs.get(gone) is None
    with pytest.raises(KeyError, match="default/gone"):
        ssn.jobs[gone]


@pytest.mark.parametrize("key", [1, None, b"default/train", ("default", "train")])
def test_a_key_of_another_kind_is_an_error_however_it_is_asked(key: Any) -> None:
    jobs = JobMap({"default/train": Job("default", "train")})
    for ask in (jobs.__getitem__, jobs.get, jobs.__contains__):
        with pytest.raises(TypeError, match="a key must be text or a Job, got"):
            ask(key)
        with pytest.raises(TypeError, match="a key must be text, got"):
            getattr(NOTHING, ask.__name__)(key)


def test_a_thing_of_another_kind_is_no_key() -> None:
    ssn = session(node("n1"), job("train", on="n1"))
    with pytest.raises(TypeError, match="a key must be text or a Job, got <Node n1>"):
        ssn.jobs.get(ssn.nodes["n1"])  # type: ignore[call-overload]


def test_equal_labels_share_one_object() -> None:
    ssn = session(node("n1"), job("train", tasks=2, labels={"a": "b"}))
    first, second = ssn.jobs["default/train"].tasks.values()
    assert first.labels is second.labels
    assert first.annotations == second.annotations
    assert labels_of(None) is labels_of({}) is NOTHING


def test_labels_that_nobody_has_any_more_are_forgotten() -> None:
    kept = [labels_of({"forgotten": str(n)}) for n in range(10)]
    for n in range(10, 20):
        labels_of({"forgotten": str(n)})
    assert sorted(known["forgotten"] for known in mapping._shared.values() if "forgotten" in known) == [*"0123456789"]
    assert labels_of({"forgotten": "3"}) is kept[3]
