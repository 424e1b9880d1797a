"""Whom somebody means: a PodGroup, the Job behind it, or one of its pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pumice.answers.jobs import NoSuchThing, find_job, find_queue
from pumice.model.api import OwnerReference, PodGroup
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState
from pumice.testing import job, queue
from pumice.testing.world import flat


def cluster() -> ClusterState:
    state = ClusterState()
    made = flat(
        [queue("default"), job("train", namespace="a"), job("train", namespace="b"), job("solo", namespace="b")]
    )
    owned = flat([job("sweep-7f3a", namespace="a")])
    group = next(o for o in owned if isinstance(o, PodGroup))
    owner = OwnerReference(kind="Job", name="sweep", uid="u")
    owned[owned.index(group)] = replace(group, metadata=replace(group.metadata, owner_references=(owner,)))
    labelled = flat([job("nightly-x1", namespace="b", tasks=1, task_labels={"volcano.sh/job-name": "nightly"})])
    state.apply_all(Seen(obj) for obj in (*made, *owned, *labelled))
    return state


@pytest.mark.parametrize(
    ("name", "namespace", "found"),
    [
        ("a/train", "", "a/train"),
        ("train", "b", "b/train"),
        ("b/train", "b", "b/train"),
        ("solo", "", "b/solo"),
        ("solo-0", "", "b/solo"),
        ("sweep", "", "a/sweep-7f3a"),
        ("a/sweep", "", "a/sweep-7f3a"),
        ("sweep-7f3a", "a", "a/sweep-7f3a"),
        ("nightly", "b", "b/nightly-x1"),
    ],
)
def test_a_job_is_found_by_the_name_that_its_owner_knows(name: str, namespace: str, found: str) -> None:
    assert find_job(cluster(), name, namespace).uid == found


@pytest.mark.parametrize(
    ("name", "namespace", "said"),
    [
        ("train", "", "job 'train': must say which one, a/train or b/train"),
        ("trian", "a", "no job named 'trian'; did you mean 'train'?"),
        ("solo", "a", "no job named 'solo'"),
        ("sweeep", "a", "no job named 'sweeep'; did you mean 'sweep'?"),
        ("b/solo", "a", "job 'b/solo': is not in namespace 'a'"),
        ("c/solo", "", "no job named 'c/solo'"),
    ],
)
def test_who_cannot_be_meant_is_told_so_and_nothing_of_other_namespaces(name: str, namespace: str, said: str) -> None:
    with pytest.raises(NoSuchThing) as no:
        find_job(cluster(), name, namespace)
    assert str(no.value) == said


def test_a_queue_is_found_by_its_name_alone() -> None:
    assert find_queue(cluster(), "default").name == "default"
    with pytest.raises(NoSuchThing, match="no queue named 'defualt'; did you mean 'default'"):
        find_queue(cluster(), "defualt")
