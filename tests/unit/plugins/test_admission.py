"""overcommit, sla and resourcequota: who is let into a queue, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr
from queue_worlds import opened, queue

from pumice.framework.plugin import Arguments
from pumice.model import api
from pumice.plugins.overcommit import Overcommit
from pumice.plugins.resourcequota import ResourceQuotas
from pumice.plugins.sla import Sla
from pumice.testing import Scenario
from pumice.testing.builders import job, node, pod
from pumice.testing.scenario import Plugins


def _waiting(name: str, cpu: int, **options: Any) -> list[Any]:
    return job(name, cpu=cpu, min_resources={"cpu": cpu}, **options)


# -- overcommit -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "admitted"),
    [({}, 12), ({"overcommit-factor": "1.5"}, 15), ({"overcommit-factor": 1}, 10), ({"overcommit-factor": 0.5}, 12)],
)
def test_jobs_are_let_in_up_to_the_factor(arguments: dict[str, Any], admitted: int) -> None:
    scenario = Scenario(node("n", cpu=10), *(_waiting(f"j{n}", 1) for n in range(20)))
    cycle = scenario.run(actions=["enqueue"], plugins=["gang", ("overcommit", arguments)])
    refused = [n for n in range(20) if cycle.why(f"j{n}")]
    assert len(refused) == 20 - admitted
    assert cycle.why(f"j{refused[0]}").reason == "resource in cluster is overused: overused cpu"


def test_what_runs_takes_its_room() -> None:
    ssn = opened(Overcommit(Arguments({})), queue("default"), node("n", cpu=10), job("old", tasks=8, on="n"),
                 _waiting("fits", 4), _waiting("over", 5))  # fmt: skip
    assert ssn.job_enqueueable(ssn.jobs["default/fits"])
    assert not ssn.job_enqueueable(ssn.jobs["default/over"])


def test_a_job_that_names_no_minimum_is_let_in() -> None:
    ssn = opened(Overcommit(Arguments({})), queue("default"), node("n", cpu=1), job("huge", cpu=99))
    assert ssn.job_enqueueable(ssn.jobs["default/huge"])


@pytest.mark.parametrize(("volcano", "admitted"), [(False, True), (True, False)])
def test_pods_that_have_a_place_are_counted_twice_only_in_volcano(volcano: bool, admitted: bool) -> None:
    """A job let in for 6 cpus has 5 of them: 1 is still to come, and 12 - 5 - 1 are left for others."""
    started = job("old", tasks=6, on=["n"] * 5, phase="Inqueue", min_resources={"cpu": 6})
    plugin = Overcommit(Arguments({}))
    ssn = opened(plugin, queue("default"), node("n", cpu=10), started, _waiting("new", 6), volcano=volcano)
    assert bool(ssn.job_enqueueable(ssn.jobs["default/new"])) is admitted


# -- sla ------------------------------------------------------------------------------------------------------------
def _dated(name: str, created: int, waiting: str = "", key: str = "volcano.sh/sla-waiting-time") -> list[Any]:
    notes = {key: waiting} if waiting else {}
    objects = _waiting(name, 1, annotations=notes)
    group = next(o for o in objects if isinstance(o, api.PodGroup))
    stamp = {"name": name, "namespace": "default", "annotations": notes}
    dated = {**stamp, "creationTimestamp": f"1970-01-01T00:{created:02d}:00Z"}
    force_setattr(group, "metadata", api.decode("PodGroup", {"metadata": dated}).metadata)
    return objects


def test_jobs_with_a_deadline_go_first_and_the_earliest_deadline_ahead() -> None:
    ssn = opened(
        Sla(Arguments({})), queue("default"), node("n"), _dated("none", 0), _dated("late", 2, "1h"),
        _dated("soon", 3, "1m30s"), _dated("short", 4, "2m", "sla-waiting-time"), _dated("bad", 1, "soon"),
    )  # fmt: skip
    ordered = sorted(ssn.jobs.values(), key=ssn.orders.job_key())
    assert [j.name for j in ordered] == ["soon", "short", "late", "none", "bad"]


def test_a_job_that_waited_long_enough_is_let_in_over_a_later_tiers_reject() -> None:
    scenario = Scenario(node("n", cpu=1), _dated("x", 0), _waiting("big", 50, annotations={"sla-waiting-time": "10m"}))
    tiers: Plugins = [[("sla", {"sla-waiting-time": "1h"})], ["overcommit"]]
    scenario.advance(60).run(actions=["enqueue"], plugins=tiers)
    assert scenario.job_of("big").phase == "Pending"
    scenario.advance(600).run()
    assert scenario.job_of("big").phase == "Inqueue"


def test_a_job_that_waited_long_enough_may_wait_for_room() -> None:
    ssn = opened(Sla(Arguments({"sla-waiting-time": "1m"})), queue("default"), node("n"), _dated("x", 0))
    ssn.state.now = 120
    ssn.open()
    assert ssn.job_pipelined(ssn.jobs["default/x"])


@pytest.mark.parametrize("written", ["0s", "-1m", "tomorrow"])
def test_a_waiting_time_that_is_none_is_ignored_with_a_warning(written: str) -> None:
    ssn = opened(Sla(Arguments({"sla-waiting-time": written})), queue("default"), node("n"), _dated("x", 0))
    assert ssn.warnings == [
        f"sla: argument sla-waiting-time: must be a duration above 0, got {written!r}; it is ignored"
    ]
    assert ssn.job_order(ssn.jobs["default/x"], ssn.jobs["default/x"]) == 0


# -- resourcequota --------------------------------------------------------------------------------------------------
def _quota(name: str = "q", *, hard: dict[str, Any], used: dict[str, Any] | None = None) -> Any:
    meta = {"name": name, "namespace": "default"}
    return api.decode("ResourceQuota", {"metadata": meta, "status": {"hard": hard, "used": used or {}}})


def test_a_namespace_quota_holds_jobs_back_one_by_one() -> None:
    scenario = Scenario(node("n", cpu=10), _quota(hard={"cpu": 5}, used={"cpu": 1}))
    scenario.add(*(_waiting(f"j{n}", 2) for n in range(3)), _waiting("elsewhere", 9, namespace="other"))
    cycle = scenario.run(actions=["enqueue"], plugins=["resourcequota"])
    assert [scenario.job_of(f"j{n}").phase for n in range(3)] == ["Inqueue", "Inqueue", "Pending"]
    assert scenario.job_of("other/elsewhere").phase == "Inqueue"
    want = "resource quota insufficient, requested: cpu=2, used: cpu=1, limited: cpu=5 (quota q)"
    assert cycle.why("j2").reason == want


def test_only_names_that_quota_and_job_both_write_are_compared() -> None:
    ssn = opened(ResourceQuotas(Arguments({})), queue("default"), node("n"), _quota(hard={"requests.cpu": 1}),
                 _waiting("plain", 9), job("written", min_resources={"requests.cpu": 9}))  # fmt: skip
    assert ssn.job_enqueueable(ssn.jobs["default/plain"])
    assert not ssn.job_enqueueable(ssn.jobs["default/written"])


def test_every_quota_of_the_namespace_must_have_room() -> None:
    quotas = [_quota("a", hard={"cpu": 9}), _quota("b", hard={"cpu": 3})]
    ssn = opened(ResourceQuotas(Arguments({})), queue("default"), node("n"), *quotas, _waiting("x", 4))
    assert "(quota b)" in ssn.job_enqueueable(ssn.jobs["default/x"]).text


# -- what counts as taken -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shares", ["overcommit", "proportion", "capacity"])
def test_what_was_let_in_and_fits_nowhere_keeps_nobody_out_for_ever(shares: str) -> None:
    """Four tasks of 3 cpus would need four whole nodes; there are three, and six cpus idle beside what is promised."""
    scenario = Scenario(*(node(f"n{n}", cpu=4) for n in range(3)))
    scenario.job("wide", tasks=4, cpu=3, min_resources={"cpu": 12}).job("small", cpu=2, min_resources={"cpu": 3})
    conf = [["gang"], ["predicates", shares]]
    assert scenario.run(plugins=conf, actions=["enqueue", "allocate"]).binds == {}
    assert scenario.run(2).binds or scenario.cycles[-2].binds
    scenario.assert_bound("small")
    assert scenario.job_of("wide").phase == "Inqueue"


@pytest.mark.parametrize("shares", ["overcommit", "proportion", "capacity"])
def test_who_is_told_that_it_fits_nowhere_keeps_nobody_out_from_then_on(shares: str) -> None:
    """It was let in long ago, so nothing changes of it but what its PodGroup says."""
    scenario = Scenario(*(node(f"n{n}", cpu=4) for n in range(3)))
    scenario.job("wide", tasks=4, cpu=3, min_resources={"cpu": 12}, phase="Inqueue")
    scenario.run(plugins=[["gang"], ["predicates", shares]], actions=["enqueue", "allocate"])
    scenario.job("small", cpu=2, min_resources={"cpu": 3}).run()
    scenario.assert_bound("small")


def test_pods_that_are_still_to_be_made_keep_what_was_promised_to_them() -> None:
    """The job was let in, and nobody can say yet that it fits nowhere."""
    scenario = Scenario(
        node("n", cpu=10), job("coming", tasks=0, min_available=2, min_resources={"cpu": 9}, phase="Inqueue")
    )
    scenario.add(_waiting("late", 5))
    scenario.run(3, plugins=[["gang"], ["overcommit", "predicates"]], actions=["enqueue", "allocate"])
    scenario.assert_pending("late", "overused cpu")


@pytest.mark.parametrize("shares", ["overcommit", "proportion", "capacity"])
@pytest.mark.parametrize(("actions", "let_in"), [("enqueue, allocate, preempt", True), ("enqueue, allocate", False)])
def test_a_job_is_let_in_for_what_it_could_preempt(shares: str, actions: str, let_in: bool) -> None:
    """Its pods are not there yet: they are made once it is let in."""
    scenario = Scenario(
        node("n", cpu=4), job("low", tasks=4, min_available=1, on="n", priority=1, min_resources={"cpu": 4})
    )
    scenario.add(job("high", tasks=0, min_available=2, priority=9, min_resources={"cpu": 2}))
    scenario.add(job("equal", tasks=0, min_available=2, priority=1, min_resources={"cpu": 2}))
    scenario.run(plugins=[["priority", "gang"], ["predicates", shares]], actions=actions.split(", "))
    assert (scenario.job_of("high").phase == "Inqueue") is let_in
    assert scenario.job_of("equal").phase != "Inqueue"


def test_a_job_of_high_priority_preempts_on_a_full_cluster_under_the_conf_of_the_chart() -> None:
    conf = (Path(__file__).parents[3] / "deploy" / "helm" / "pumice" / "files" / "scheduler.conf").read_text()
    scenario = Scenario(node("n", cpu=4))
    for n in range(4):
        scenario.job(f"low{n}", cpu=1, on="n", priority=1, min_resources={"cpu": 1})
    scenario.add(job("high", tasks=0, min_available=2, priority=9, min_resources={"cpu": 2}))
    scenario.run(conf=conf)
    assert scenario.job_of("high").phase == "Inqueue"
    scenario.add(*(pod(f"high-{n}", group="high", cpu=1, priority=9) for n in range(2)))
    scenario.run(3)
    scenario.assert_bound("high")
    assert sum(len(c.evictions) for c in scenario.cycles) == 2
