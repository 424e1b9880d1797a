"""What a scheduler measures: names, labels, and series that go with what they are about."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import force_setattr
from prometheus_client.parser import text_string_to_metric_families

from pumice.config import load
from pumice.framework.metrics import Metrics
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kube.metrics import PUBLISHED, CycleMetrics
from pumice.model.api import AnyObject
from pumice.model.events import Gone, Seen
from pumice.model.intents import Bind
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue

SOURCE = Path(__file__).resolve().parents[3] / "src" / "pumice"
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: drf
  - name: predicates
  - name: proportion
"""
BEGAN = 1_700_000_000.0


class At:
    """A clock that stands."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return self.seconds


class Measured:
    """A cluster whose cycles are measured."""

    def __init__(self) -> None:
        self.clock = At(BEGAN)
        self.metrics = CycleMetrics(self.clock)
        self.state = ClusterState()
        registry = default_registry()
        self.assembly = assemble(load(CONF, catalogue_of(registry), "conf").conf, registry)
        self.runtime = Runtime()

    def see(self, *objects: AnyObject) -> None:
        """Objects that were created when we began."""
        for obj in objects:
            force_setattr(obj.metadata, "creation_timestamp", datetime.fromtimestamp(BEGAN, UTC))
            force_setattr(obj.metadata, "uid", obj.metadata.uid or obj.key)
            self.state.apply(Seen(obj))

    def cycle(self, seconds: float) -> CycleReport:
        """A cycle, so many seconds after we began."""
        self.state.now = self.clock.seconds = BEGAN + seconds
        report = run_cycle(self.state, self.assembly, self.runtime, inspect=self.metrics.session)
        self.metrics.cycle(report, self.state)
        return report

    def series(self) -> dict[str, float]:
        """``name{label=value,...}`` -> value, as a scrape reads it."""
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(self.metrics.text().decode()):
            for sample in family.samples:
                labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
                key = f"{sample.name}{{{labels}}}" if labels else sample.name
                assert key not in found, f"{key} comes twice"
                found[key] = sample.value
        return found


@pytest.fixture
def measured() -> Measured:
    made = Measured()
    made.see(queue("default"), node("n1", cpu=4))
    return made


def test_a_gang_that_is_placed_says_how_long_it_took(measured: Measured) -> None:
    measured.see(*job("fits", tasks=2, cpu=1))
    report = measured.cycle(3.0)
    series = measured.series()
    labels = "{job_name=fits,job_namespace=default,queue=default}"
    assert series[f"volcano_e2e_job_scheduling_duration{labels}"] == 3000
    assert series[f"volcano_e2e_job_scheduling_start_time{labels}"] == BEGAN
    assert series[f"volcano_e2e_job_scheduling_last_time{labels}"] == BEGAN + 3
    assert series["volcano_e2e_job_scheduling_latency_milliseconds_sum"] == 3000
    assert series["volcano_task_scheduling_latency_milliseconds_count{stage=Assumed}"] == 2
    measured.clock.seconds += 1
    for intent, ok in zip((i for i in report.intents if hasattr(i, "node")), (True, False), strict=True):
        measured.metrics.bound(intent.uid, 0.004, ok)  # type: ignore[union-attr]
    series = measured.series()
    assert series["volcano_task_scheduling_latency_milliseconds_sum{stage=Bound}"] == 4000
    assert series["volcano_scheduling_stage_duration_milliseconds_sum{stage=Bind}"] == 4
    assert (series["pumice_writes_total{intent=bind,result=done}"], series["pumice_intents_total{intent=bind}"]) == (
        1,
        2,
    )
    assert series["pumice_writes_total{intent=bind,result=failed}"] == 1


def test_a_gang_that_lacks_tasks_says_how_many_and_for_how_many_cycles(measured: Measured) -> None:
    measured.see(*job("big", tasks=3, cpu=3))
    for at in range(4):
        measured.cycle(float(at))
    series = measured.series()
    assert series["volcano_unschedule_task_count{job_id=big,job_ns=default}"] == 3
    assert series["volcano_unschedule_job_count"] == 1
    assert series["volcano_job_retry_counts{job_id=big,job_ns=default}"] == 4
    measured.see(node("n2", cpu=32))
    measured.cycle(5.0)
    measured.cycle(6.0)
    series = measured.series()
    assert series["volcano_unschedule_task_count{job_id=big,job_ns=default}"] == 0
    assert series["volcano_unschedule_job_count"] == 0
    assert series["volcano_job_retry_counts{job_id=big,job_ns=default}"] == 5


def test_the_series_of_a_job_and_of_a_queue_go_with_them(measured: Measured) -> None:
    measured.see(queue("other"), *job("a", tasks=1, cpu=1), *job("b", tasks=1, cpu=9, queue="other"))
    measured.cycle(1.0)
    about = [key for key in measured.series() if re.search(r"job_id=|job_name=|queue_name=other", key)]
    names = {key.partition("{")[0] for key in about}
    assert {"volcano_job_share", "volcano_e2e_job_scheduling_duration", "volcano_unschedule_task_count"} <= names
    assert "volcano_queue_deserved_milli_cpu" in names
    for kind, key in (
        ("Pod", "default/a-0"),
        ("Pod", "default/b-0"),
        ("PodGroup", "default/a"),
        ("PodGroup", "default/b"),
    ):
        measured.state.apply(Gone(kind, key))
    measured.state.apply(Gone("Queue", "other"))
    measured.cycle(60.0)
    left = [key for key in measured.series() if re.search(r"job_id=|job_name=|queue_name=other", key)]
    assert left == []


def test_jobs_of_one_name_in_two_namespaces_are_told_apart(measured: Measured) -> None:
    measured.see(*job("same", tasks=1, cpu=9), *job("same", tasks=1, cpu=9, namespace="b"))
    measured.cycle(1.0)
    series = measured.series()
    assert series["volcano_unschedule_job_count"] == 2
    assert series["volcano_unschedule_task_count{job_id=same,job_ns=b}"] == 1


def test_histograms_of_plugins_are_histograms_and_add_up_over_cycles() -> None:
    metrics = CycleMetrics()
    for values in ([0.004, 0.02], [0.3]):
        published = Metrics()
        for value in values:
            published.histogram("pumice_extender_request_seconds", value, (0.01, 0.1), extender="e")
        report = CycleReport(0.0, "", [], {}, {}, {}, {}, {}, {}, histograms=published.histograms)
        metrics.cycle(report)
    families = {f.name: f for f in text_string_to_metric_families(metrics.text().decode())}
    found = families["pumice_extender_request_seconds"]
    assert found.type == "histogram"
    assert {s.labels["le"]: s.value for s in found.samples if s.name.endswith("_bucket")} == {
        "0.01": 1,
        "0.1": 2,
        "+Inf": 3,
    }
    assert [s.value for s in found.samples if s.name.endswith("_count")] == [3]


def test_a_counter_whose_name_ends_as_a_part_of_a_histogram_stays_a_counter() -> None:
    metrics = CycleMetrics()
    counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {("my_retry_count", ()): 2.0}
    metrics.cycle(CycleReport(0.0, "", [], {}, {}, {}, {}, {}, {}, counters=counters))
    families = {f.name: f for f in text_string_to_metric_families(metrics.text().decode())}
    assert families["my_retry_count"].type == "unknown"


def test_how_often_a_kind_was_listed_is_told() -> None:
    metrics = CycleMetrics()
    metrics.listed({"Pod": 1})
    metrics.listed({"Pod": 2})
    assert 'pumice_lists{kind="Pod"} 2.0' in metrics.text().decode()


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_published_name_that_we_describe_is_published_somewhere(name: str) -> None:
    bare = name.removeprefix("volcano_")
    amount = re.fullmatch(r"queue_(\w+?)_(milli_cpu|memory_bytes|scalar_resources)", bare)
    wanted = f'"{amount[1]}"' if amount else f'"{bare}"'
    assert any(
        wanted in path.read_text(encoding="utf-8") for path in SOURCE.glob("*/**/*.py") if path.name != "published.py"
    )


def test_a_bind_that_is_answered_before_its_cycle_was_counted_is_measured_too(measured: Measured) -> None:
    measured.see(*job("fits", tasks=2, cpu=1))
    measured.state.now = measured.clock.seconds = BEGAN + 3.0
    report = run_cycle(measured.state, measured.assembly, measured.runtime, inspect=measured.metrics.session)
    for uid in [i.uid for i in report.intents if isinstance(i, Bind)]:
        measured.metrics.bound(uid, 0.004, True)
    measured.metrics.cycle(report, measured.state)
    assert measured.series()["volcano_task_scheduling_latency_milliseconds_count{stage=Bound}"] == 2
