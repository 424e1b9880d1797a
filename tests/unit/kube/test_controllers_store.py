"""What controllers know of the cluster."""

from __future__ import annotations

import asyncio

import controller_objects as some
import msgspec
from msgspec.structs import force_setattr

from pumice.kube.controllers.objects import FOLLOWED
from pumice.kube.controllers.store import Store
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
    assert store.pods_of("uid-j") == []
    assert [p.metadata.uid for p in store.pods_of("other")] == ["two"]


def test_pods_are_found_by_their_job_and_groups_by_their_queue_as_long_as_they_are_there() -> None:
    store = made()
    told: list[str] = []
    store.listen(lambda obj: told.append(obj.key))
    store.put([Seen(some.pod("b")), Seen(some.pod("a")), Seen(some.loose_pod("x")), Seen(some.group(queue="q"))])
    assert [p.metadata.name for p in store.pods_of("uid-j")] == ["a", "b"]
    assert [g.key for g in store.groups_in("q")] == ["ns/j-uid-j"]
    store.put([Seen(some.group(queue="r")), Gone("OwnedPod", "ns/a")])
    assert [p.metadata.name for p in store.pods_of("uid-j")] == ["b"]
    assert store.groups_in("q") == []
    assert len(store.groups_in("r")) == 1
    assert told == ["ns/b", "ns/a", "ns/x", "ns/j-uid-j", "ns/j-uid-j", "ns/j-uid-j", "ns/a"]


def test_commands_are_found_by_what_they_are_about() -> None:
    store = made()
    store.put([Seen(some.command(n, "AbortJob", k, "j")) for n, k in (("b", "Job"), ("a", "Job"), ("c", "Queue"))])
    assert [c.metadata.name for c in store.commands_for("Job", "j", "ns")] == ["a", "b"]
    assert store.commands_for("Job", "j", "elsewhere") == []
    assert [c.metadata.name for c in store.commands_for("Queue", "j")] == ["c"]
