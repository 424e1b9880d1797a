"""The figures of a run are what their definitions say."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from simulated_runs import Job, Order, fifo, play, shortest_first, workload

from pumice.sim.results import (
    EvictionRecord,
    JobRecord,
    NodeRecord,
    PodRecord,
    QueueRecord,
    RecordedReason,
    RunRecord,
    Sample,
    jain,
    percentile,
    summarise,
)
from pumice.sim.results.statistics import Distribution, bounded_slowdown


def done(name: str, submit: float, start: float, end: float, **more: object) -> JobRecord:
    return JobRecord(name=name, submit=submit, start=start, end=end, outcome="completed", **more)  # type: ignore[arg-type]


def test_figures_of_a_run_done_by_hand() -> None:
    """Two nodes of one GPU; the second job waits 30 s, a third is evicted after 10 s and runs again."""
    run = RunRecord(
        name="hand",
        horizon=200,
        nodes=(NodeRecord(name="n1", gpus=1, cpu_milli=4000), NodeRecord(name="n2", gpus=1, cpu_milli=4000)),
        jobs=(
            done("a", 0, 0, 40, queue="x", gpus=2, duration=40),
            done("b", 10, 40, 45, queue="x", gpus=1, duration=5),
            done("c", 20, 40, 100, queue="y", gpus=1, duration=50),
        ),
        pods=(
            PodRecord(job="default/a", name="a-0", node="n1", start=0, end=40, gpu_milli=1000, cpu_milli=1000),
            PodRecord(job="default/a", name="a-1", node="n2", start=0, end=40, gpu_milli=1000, cpu_milli=1000),
            PodRecord(job="default/b", name="b-0", node="n1", start=40, end=45, gpu_milli=500, cpu_milli=1000),
            PodRecord(
                job="default/c", name="c-0", node="n2", start=40, end=50, gpu_milli=1000, outcome="evicted", lost_s=10
            ),
            PodRecord(job="default/c", name="c-0", node="n2", start=50, end=100, gpu_milli=1000),
        ),
        evictions=(EvictionRecord(time=50, pod="c-0", job="default/c", queue="y", action="preempt"),),
    )
    summary = summarise(run)
    assert summary.makespan_s == summary.span_s == 100
    assert summary.total.wait == Distribution(3, 50 / 3, 20, 30, 30, 30)
    assert summary.total.jct == Distribution(3, (40 + 35 + 80) / 3, 40, 80, 80, 80)
    assert summary.total.slowdown is not None
    assert summary.total.slowdown.mean == pytest.approx((1 + 35 / 10 + 80 / 50) / 3)
    assert summary.total.gpu_hours == pytest.approx((80 + 2.5 + 60) / 3600)
    assert summary.total.lost_gpu_hours == pytest.approx(10 / 3600)
    assert summary.utilisation.gpu == pytest.approx((80 + 2.5 + 60) / 200)
    assert summary.utilisation.cpu == pytest.approx(85_000 / 800_000)
    assert summary.utilisation.memory is None, "no node says how much it has"
    assert [(figures.name, figures.jobs, figures.evictions) for figures in summary.by_queue] == [
        ("x", 2, 0),
        ("y", 1, 1),
    ]
    assert [(figures.name, figures.jobs) for figures in summary.by_size] == [("1 GPU", 2), ("2 to 4 GPUs", 1)]


def test_jobs_that_are_not_done_count_until_the_end_of_the_run() -> None:
    why = (RecordedReason(text="no room", plugin="predicates"), RecordedReason(text="no room", plugin="predicates"))
    run = RunRecord(
        name="r",
        horizon=50,
        jobs=(
            done("a", 0, 4, 10),
            JobRecord(name="b", submit=1, outcome="pending", reasons=why),
            JobRecord(name="c", submit=2, start=9, duration=90, outcome="running"),
            JobRecord(name="d", submit=2, end=9, outcome="failed", reasons=why),
            JobRecord(name="e", submit=2, start=9, outcome="running"),
            JobRecord(name="f", submit=0, start=0, outcome="running", stood=True),
        ),
    )
    summary = summarise(run)
    total = summary.total
    assert (total.jobs, total.completed, total.pending, total.running, total.failed) == (6, 1, 1, 3, 1)
    assert (total.unfinished, total.unstarted) == (3, 2), "e and f run without an end of their own"
    assert [job.job for job in summary.left] == ["default/b", "default/c", "default/d"]
    assert total.wait == Distribution(5, (4 + 49 + 7 + 7 + 7) / 5, 7, 49, 49, 49, 2, ("mean", "p95", "p99", "max"))
    assert total.jct == Distribution(3, (10 + 49 + 48) / 3, 48, 49, 49, 49, 2, ("mean", "p50", "p95", "p99", "max"))
    assert (summary.makespan_s, summary.makespan_at_least) == (50, True)
    assert [(reason.text, reason.jobs) for reason in summarise(run).reasons] == [("no room", 1)]


def test_a_run_of_nothing_has_figures_without_values() -> None:
    summary = summarise(RunRecord(name="empty", horizon=0))
    assert summary.total.jobs == 0
    assert summary.total.wait is None
    assert summary.makespan_s is summary.utilisation.gpu is summary.fairness_share is summary.fragmentation is None
    assert b"NaN" not in msgspec.json.encode(summary)


def test_work_left_at_the_end_stretches_the_span_to_the_horizon() -> None:
    jobs = (done("a", 10, 10, 20), JobRecord(name="b", submit=12, start=12, outcome="running"))
    pods = (PodRecord(job="default/b", name="b", node="n", start=12, gpu_milli=1000, outcome="running"),)
    run = RunRecord(name="r", horizon=110, nodes=(NodeRecord(name="n", gpus=1),), jobs=jobs, pods=pods)
    summary = summarise(run)
    assert (summary.span_s, summary.makespan_s) == (100, 10), "b has no end to wait for"
    assert summary.utilisation.gpu == pytest.approx(0.98)


def test_a_node_that_came_and_left_offers_only_what_it_was_there_for() -> None:
    pods = (PodRecord(job="default/a", name="a", node="n", start=0, end=50, gpu_milli=1000),)
    nodes = (NodeRecord(name="n", gpus=1, until=50), NodeRecord(name="m", gpus=1, since=50))
    run = RunRecord(name="r", horizon=100, nodes=nodes, jobs=(done("a", 0, 0, 100),), pods=pods)
    assert summarise(run).utilisation.gpu == pytest.approx(0.5)


def test_a_node_that_failed_and_came_back_is_one_node() -> None:
    stays = (NodeRecord(name="n", gpus=8, until=10), NodeRecord(name="n", gpus=8, since=20), NodeRecord(name="m"))
    summary = summarise(RunRecord(name="r", horizon=30, nodes=stays))
    assert (summary.nodes, summary.gpus) == (2, 8)


def test_fragmentation_is_a_mean_over_time_of_the_samples_that_have_it() -> None:
    samples = (Sample(time=0, fragmentation=0.5), Sample(time=10), Sample(time=90, fragmentation=0.2))
    assert summarise(RunRecord(name="r", horizon=100, samples=samples)).fragmentation == pytest.approx(0.35)
    assert summarise(RunRecord(name="r", horizon=0, samples=samples[:1])).fragmentation == 0.5


def test_a_run_without_gpus_is_classed_by_cpus() -> None:
    jobs = tuple(done(f"j{cpus}", 0, 0, 1, cpus=cpus) for cpus in (1, 2, 8, 9, 64, 65))
    names = [(figures.name, figures.jobs) for figures in summarise(RunRecord(name="r", horizon=1, jobs=jobs)).by_size]
    assert names == [("1 CPU", 1), ("2 to 8 CPUs", 2), ("9 to 64 CPUs", 2), ("over 64 CPUs", 1)]


def test_sizes_by_gpus_go_from_none_to_many() -> None:
    jobs = tuple(done(f"j{gpus}", 0, 0, 1, gpus=gpus) for gpus in (0, 0.5, 1, 2, 4, 8, 32, 33))
    names = [(figures.name, figures.jobs) for figures in summarise(RunRecord(name="r", horizon=1, jobs=jobs)).by_size]
    assert names == [
        ("no GPU", 1), ("part of a GPU", 1), ("1 GPU", 1), ("2 to 4 GPUs", 2), ("5 to 8 GPUs", 1), ("9 to 32 GPUs", 1),
        ("over 32 GPUs", 1),
    ]  # fmt: skip


def test_fairness_of_shares_looks_only_at_queues_that_compete() -> None:
    """x and y wait all the time, and y has a third of what x has; z has all it wants."""
    jobs = [done("z", 0, 0, 100, queue="z", gpus=6)]
    pods = [PodRecord(job="default/z", name="z", node="n", start=0, end=100, gpu_milli=6000)]
    for queue, gpus in (("x", 3), ("y", 1)):
        jobs += [
            done(f"{queue}-1", 0, 0, 100, queue=queue),
            JobRecord(name=queue, queue=queue, submit=0, outcome="pending"),
        ]
        pods.append(PodRecord(job=f"default/{queue}-1", name=queue, node="n", start=0, end=100, gpu_milli=gpus * 1000))
    run = RunRecord(name="r", horizon=100, nodes=(NodeRecord(name="n", gpus=10),), jobs=tuple(jobs), pods=tuple(pods))
    assert summarise(run).fairness_share == pytest.approx(16 / 20)
    weighed = msgspec.structs.replace(run, queues=(QueueRecord(name="x", weight=3),))
    assert summarise(weighed).fairness_share == pytest.approx(1.0)


def test_fairness_of_service_is_one_when_all_queues_are_slowed_alike() -> None:
    alike = (done("a", 0, 50, 100, queue="x"), done("b", 0, 100, 200, queue="y"))
    apart = (done("a", 0, 0, 100, queue="x"), done("b", 0, 300, 400, queue="y"))
    assert summarise(RunRecord(name="r", horizon=1, jobs=alike)).fairness_service == pytest.approx(1.0)
    assert summarise(RunRecord(name="r", horizon=1, jobs=apart)).fairness_service == pytest.approx(
        1.25**2 / (2 * 1.0625)
    )
    assert summarise(RunRecord(name="r", horizon=1, jobs=alike[:1])).fairness_service is None


def test_fairness_of_service_counts_a_job_that_is_not_done_with_its_bound() -> None:
    """y waits for 400 s and would run for 100: at most a quarter of its time, while x ran all the time."""
    served = done("a", 0, 0, 100, queue="x")
    waits = JobRecord(name="b", queue="y", submit=0, duration=100, outcome="pending")
    runs = JobRecord(name="b", queue="y", submit=0, start=350, duration=100, outcome="running")
    for job in (waits, runs):
        found = summarise(RunRecord(name="r", horizon=400, jobs=(served, job))).fairness_service
        assert found == pytest.approx(1.25**2 / (2 * 1.0625))
    failed = JobRecord(name="b", queue="y", submit=0, start=0, end=9, duration=100, outcome="failed")
    assert summarise(RunRecord(name="r", horizon=400, jobs=(served, failed))).fairness_service is None


@pytest.mark.parametrize("order", [fifo, shortest_first])
@pytest.mark.parametrize("strict", [True, False])
def test_figures_agree_with_plain_arithmetic_on_a_simulated_cluster(order: Order, strict: bool) -> None:
    jobs: list[Job] = workload(250, seed=7, days=0.4)
    run = play(jobs, 8, order, strict=strict)
    summary = summarise(run)
    waits = sorted(job.start - job.submit for job in jobs if job.start is not None)
    jcts = [job.end - job.submit for job in jobs if job.end is not None]
    assert len(waits) == len(jcts) == 250
    assert summary.total.wait is not None
    assert summary.total.wait.mean == pytest.approx(np.mean(waits))
    assert summary.total.wait.p50 == np.percentile(waits, 50, method="inverted_cdf")
    assert summary.total.wait.p99 == np.percentile(waits, 99, method="inverted_cdf")
    assert summary.total.jct is not None
    assert summary.total.jct.mean == pytest.approx(np.mean(jcts))
    assert summary.total.slowdown is not None
    slowdowns = [max(1, jct / max(job.duration, 10)) for job, jct in zip(jobs, jcts, strict=True)]
    assert summary.total.slowdown.mean == pytest.approx(np.mean(slowdowns))
    assert summary.makespan_s == max(job.end for job in jobs if job.end) - min(job.submit for job in jobs)
    work = sum(job.gpus * job.duration for job in jobs)
    assert summary.utilisation.gpu == pytest.approx(work / (64 * summary.makespan_s))
    assert sum(figures.gpu_hours for figures in summary.by_queue) == pytest.approx(work / 3600)
    assert sum(figures.jobs for figures in summary.by_size) == 250


def test_lost_gpu_hours_are_what_was_held_beyond_the_work_done() -> None:
    jobs = workload(250, seed=11, days=0.3)
    run = play(jobs, 8, fifo, strict=False, preempt=True)
    summary = summarise(run)
    work = sum(job.gpus * job.duration for job in jobs) / 3600
    assert summary.total.evictions > 10
    assert summary.total.lost_gpu_hours == pytest.approx(summary.total.gpu_hours - work)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_the_first_value_that_so_many_do_not_exceed(values: list[int], part: int) -> None:
    ranked = sorted(values)
    found = percentile(ranked, part)
    assert sum(value <= found for value in ranked) * 100 >= part * len(ranked)
    assert sum(value < found for value in ranked) * 100 < part * len(ranked)


def test_a_run_in_which_nobody_got_anything_is_not_called_fair() -> None:
    jobs = tuple(JobRecord(name=name, queue=name, submit=0, gpus=1, outcome="pending") for name in "xy")
    run = RunRecord(name="r", horizon=100, nodes=(NodeRecord(name="n", gpus=1),), jobs=jobs)
    assert summarise(run).fairness_share is None


@given(st.lists(st.floats(0, 1e5)), st.lists(st.floats(0, 1e5)), st.lists(st.floats(0, 1e5), min_size=30, max_size=30))
def test_figures_with_lower_bounds_never_exceed_the_truth_and_those_not_marked_are_exact(
    exact: list[float], bounds: list[float], more: list[float]
) -> None:
    """Whatever the jobs that are not done would have waited in the end."""
    known = Distribution.of(exact, bounds)
    truth = Distribution.of([*exact, *(bound + rest for bound, rest in zip(bounds, more, strict=False))])
    assume(known is not None and len(bounds) <= len(more))
    assert known is not None
    assert truth is not None
    for name in ("mean", "p50", "p95", "p99", "max"):
        assert getattr(known, name) <= getattr(truth, name) * (1 + 1e-12)
        if name not in known.at_least:
            assert getattr(known, name) == getattr(truth, name)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_jains_index_lies_between_one_over_n_and_one(values: list[float]) -> None:
    index = jain(values)
    assert (index is None) == (not any(values))
    assert index is None or 1 / len(values) - 1e-9 <= index <= 1 + 1e-9


def test_jains_index_of_known_cases() -> None:
    assert jain([]) is None
    assert jain([0, 0]) is None, "nothing was shared, so nothing was shared fairly"
    assert jain([5, 5, 5]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)


def test_the_slowdown_of_tiny_jobs_is_bounded() -> None:
    assert bounded_slowdown(completion=5, run=1) == 1
    assert bounded_slowdown(completion=100, run=1) == 10
    assert bounded_slowdown(completion=100, run=50) == 2
    assert math.isfinite(bounded_slowdown(completion=100, run=0))
