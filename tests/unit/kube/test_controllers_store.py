"""What controllers know of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import controller_objects as some
import msgspec
import pytest
from msgspec.structs import force_setattr

from pumice.kube.controllers.store import FOLLOWED, Store
from pumice.model.api import AnyObject
from pumice.model.events import Gone, Seen


def made() -> Store:
    async def run() -> Store:
        return Store()

    return asyncio.run(run())


def test_everything_was_listed_when_every_kind_was() -> None:
    store = made()
    for resource in FOLLOWED[:-1]:
        store.first(resource.kind, [])
    assert store.missing == [FOLLOWED[-1].kind]
    assert not store.synced.is_set()
    store.first(FOLLOWED[-1].kind, [])
    assert store.synced.is_set()


def test_a_late_watch_does_not_take_back_what_we_wrote_ourselves() -> None:
    store = made()
    old = some.job()
    new = msgspec.structs.replace(old, status={"version": 1})
    force_setattr(new, "metadata", msgspec.structs.replace(old.metadata, resource_version="1000000"))
    store.take(new)
    store.put([Seen(old)])
    assert store.job("ns/j") is new


def test_another_object_of_the_same_name_replaces_the_one_that_was() -> None:
    store = made()
    store.take(some.pod("p", uid="one"))
    store.put([Seen(some.pod("p", uid="two", ownerReferences=[{**some.owner(), "uid": "other"}]))])
    assert store.pods_of("ns", "uid-j") == []
    assert [p.metadata.uid for p in store.pods_of("ns", "other")] == ["two"]


def test_pods_are_found_by_their_job_and_groups_by_their_queue_as_long_as_they_are_there() -> None:
    store = made()
    told: list[str] = []
    store.listen(lambda obj: told.append(obj.key))
    store.put([Seen(some.pod("b")), Seen(some.pod("a")), Seen(some.loose_pod("x")), Seen(some.group(queue="q"))])
    assert [p.metadata.name for p in store.pods_of("ns", "uid-j")] == ["a", "b"]
    assert [g.key for g in store.groups_in("q")] == ["ns/j-uid-j"]
    store.put([Seen(some.group(queue="r")), Gone("OwnedPod", "ns/a")])
    assert [p.metadata.name for p in store.pods_of("ns", "uid-j")] == ["b"]
    assert store.groups_in("q") == []
    assert len(store.groups_in("r")) == 1
    assert told == ["ns/b", "ns/a", "ns/x", "ns/j-uid-j", "ns/j-uid-j", "ns/j-uid-j", "ns/a"]


def test_commands_are_found_by_what_they_are_about() -> None:
    store = made()
    store.put([Seen(some.command(n, "AbortJob", k, "j")) for n, k in (("b", "Job"), ("a", "Job"), ("c", "Queue"))])
    assert [c.metadata.name for c in store.commands_for("Job", "j", "ns")] == ["a", "b"]
    assert store.commands_for("Job", "j", "elsewhere") == []
    assert [c.metadata.name for c in store.commands_for("Queue", "j", "ns")] == ["c"]


def in_namespace(obj: AnyObject, namespace: str) -> AnyObject:
    data = msgspec.to_builtins(obj)
    data["metadata"]["namespace"] = namespace
    return msgspec.convert(data, type(obj))


ASKED: dict[str, tuple[AnyObject, Callable[[Store], object]]] = {
    "job": (some.job(), lambda s: s.job("ns/j")),
    "pod": (some.pod("p"), lambda s: s.pod("ns/p")),
    "group": (some.group(), lambda s: s.group("ns/j-uid-j")),
    "pods_of": (some.pod("p"), lambda s: s.pods_of("ns", "uid-j")),
    "pods_in": (some.loose_pod("x"), lambda s: s.pods_in(f"ns/{some.loose_pod('x').own_group}")),
    "commands_for": (some.command("c", "AbortJob", "Job", "j"), lambda s: s.commands_for("Job", "j", "ns")),
    "has": (some.pod("p"), lambda s: s.has(some.pod("p"))),
}
CLUSTER_WIDE = {"queue", "queues", "groups_in", "priority", "namespace_notes"}


def test_every_way_to_find_an_object_is_tried_with_a_foreign_namespace() -> None:
    public = {name for name, value in vars(Store).items() if callable(value) and not name.startswith("_")}
    told = {"listen", "first", "put", "take", "drop"}
    assert public - told == {*ASKED, *CLUSTER_WIDE}


@pytest.mark.parametrize("way", ASKED)
def test_an_object_of_another_namespace_is_not_found_whatever_it_says_of_itself(way: str) -> None:
    obj, ask = ASKED[way]
    store = made()
    store.take(obj)
    assert ask(store)
    store = made()
    store.take(in_namespace(obj, "evil"))
    assert not ask(store)
