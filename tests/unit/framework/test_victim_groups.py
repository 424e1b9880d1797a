"""Bundles of victims: what a gang can spare, and the rest of it."""

from __future__ import annotations

from msgspec.structs import force_setattr

from pumice.framework.evicting.victims import allowed_only, groups_of, in_order, sum_of, value
from pumice.framework.session.nominations import end_nomination, nominate, places_held
from pumice.framework.session.session import Session
from pumice.model.api import AnyObject, PodGroup
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.testing.builders import job, node, pod, queue
from pumice.testing.world import session


def world(*objects: AnyObject | list[AnyObject]) -> Session:
    return session(queue("default"), node("n0"), *objects)


def tasks(ssn: Session) -> list[Task]:
    return list(ssn.nodes["n0"].tasks.values())


def split(ssn: Session) -> list[tuple[bool, list[str]]]:
    return [(b.safe, [t.name for t in b.tasks]) for b in groups_of(ssn, tasks(ssn))]


def test_what_is_above_the_minimum_is_safe_and_the_rest_goes_as_a_whole() -> None:
    ssn = world(job("loose", tasks=3, on="n0", min_available=1))
    assert split(ssn) == [(True, ["loose-0", "loose-1"]), (False, ["loose-2"])]


def test_a_tight_gang_has_nothing_to_spare() -> None:
    assert split(world(job("tight", tasks=2, on="n0"))) == [(False, ["tight-0", "tight-1"])]


def test_a_gang_that_is_broken_already_is_all_safe() -> None:
    assert split(world(job("broken", tasks=3, on=["n0", "n0"]))) == [(True, ["broken-0", "broken-1"])]


def test_a_gang_for_which_others_were_evicted_is_not_broken() -> None:
    ssn = world(job("mended", tasks=3, on=["n0", "n0"]))
    (waits,) = ssn.jobs["default/mended"].with_status(TaskStatus.PENDING).values()
    nominate(ssn, [(waits, ssn.nodes["n0"])], ["default/others"])
    assert split(ssn) == [(False, ["mended-0", "mended-1"])]
    mended = ssn.jobs["default/mended"]
    assert (places_held(ssn, mended), places_held(ssn, mended, now=True)) == (1, 1)
    end_nomination(ssn, waits)
    assert split(ssn) == [(True, ["mended-0", "mended-1"])]


def test_the_least_important_task_is_spared_first() -> None:
    group, *_ = job("mixed", tasks=0, min_available=1, phase="Running")
    pods = [pod(f"mixed-{n}", group="mixed", on="n0", priority=p) for n, p in enumerate((5, 1))]
    assert split(world(group, *pods)) == [(True, ["mixed-1"]), (False, ["mixed-0"])]


def test_a_role_keeps_its_minimum() -> None:
    group, *_ = job("roles", tasks=0, min_available=2, phase="Running")
    assert isinstance(group, PodGroup)
    force_setattr(group.spec, "min_task_member", {"main": 2})
    pods = [pod(f"roles-{n}", group="roles", on="n0", role=r) for n, r in enumerate(("main", "main", "side"))]
    assert split(world(group, *pods)) == [(True, ["roles-2"]), (False, ["roles-0", "roles-1"])]


def test_a_whole_bundle_is_kept_only_if_all_of_it_is_permitted() -> None:
    ssn = world(job("loose", tasks=3, on="n0", min_available=1), job("tight", tasks=2, on="n0"))
    bundles = groups_of(ssn, tasks(ssn))
    permitted = [t for t in tasks(ssn) if t.name not in ("loose-1", "tight-1")]
    kept = allowed_only(bundles, permitted, whole=True)
    assert [(b.safe, [t.name for t in b.tasks]) for b in kept] == [(True, ["loose-0"]), (False, ["loose-2"])]
    assert [b.safe for b in allowed_only(bundles, permitted, whole=False)] == [True]


def test_safe_bundles_come_first_then_the_worst_job() -> None:
    """In gangpreempt the job that orders last gives first; equal jobs are told apart by age, then by name."""
    ssn = world(
        job("big", tasks=4, on="n0"), job("small", tasks=2, on="n0"), job("loose", tasks=2, on="n0", min_available=1)
    )
    need = Resources({0: 2000})
    ordered = in_order(ssn, groups_of(ssn, tasks(ssn)), need, ssn.queues["default"], by_queue=False)
    assert [(b.job.name, b.safe) for b in ordered] == [
        ("loose", True),
        ("small", False),
        ("loose", False),
        ("big", False),
    ]


def test_within_a_queue_what_gives_most_for_what_it_costs_comes_first() -> None:
    """In gangreclaim the order of jobs does not count."""
    ssn = world(
        job("big", tasks=4, on="n0"), job("small", tasks=2, on="n0"), job("loose", tasks=2, on="n0", min_available=1)
    )
    need = Resources({0: 2000})
    ordered = in_order(ssn, groups_of(ssn, tasks(ssn)), need, ssn.queues["default"], by_queue=True)
    assert [(b.job.name, b.safe) for b in ordered] == [
        ("loose", True),
        ("small", False),
        ("big", False),
        ("loose", False),
    ]


def test_the_value_of_a_bundle_is_what_it_gives_for_what_its_job_loses() -> None:
    ssn = world(job("big", tasks=4, on="n0"))
    (whole,) = groups_of(ssn, tasks(ssn))
    assert value(whole, Resources({0: 2000})) == 0.5
    assert sum_of(whole.tasks)["cpu"] == 4
