"""The simulator from Python: scenarios and jobs in memory, policies as classes, results as tables."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pumice
from pumice import InvalidInput, Job, Plugin, Session
from pumice.errors import PumiceError
from pumice.sim.results import encode
from pumice.testing import Scenario

DATA: dict[str, Any] = {
    "name": "two teams",
    "cluster": {"nodes": [{"name": "n", "count": 3, "cpu": 8, "memory": "64Gi", "gpu": 4}]},
    "queues": [{"name": "red"}, {"name": "blue"}],
    "workload": {
        "generators": [
            {
                "name": "a",
                "queue": "red",
                "arrivals": {"every": "3m", "count": 14},
                "duration": {"lognormal": {"median": "15m", "p90": "40m"}},
                "gpu": {"choice": {1: 3, 4: 1}},
            }
        ]
    },
}
JOBS = {
    "job": ["x", "y", "z"],
    "submit_s": [0.0, 5.0, 10.0],
    "duration_s": [600, 60, 30],
    "gpu": [12, 4, 1],
    "declared_s": [np.nan, 60.0, 30.0],
}
RED: dict[str, Any] = DATA["workload"]["generators"][0]
CLUSTER = {"cluster": {"nodes": [{"name": "n", "cpu": 64, "memory": "512Gi", "gpu": 12}]}}


class Narrow(Plugin):
    """Jobs that ask for few GPUs go first."""

    name = "narrow"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, self.order)

    def order(self, job: Job) -> float:
        return float(job.total_request["nvidia.com/gpu"])


@pytest.fixture(scope="module")
def study() -> pumice.Study:
    return pumice.simulate(DATA, ["default", Narrow], seeds=range(1, 9))


def test_data_is_played_as_the_file_that_says_the_same(tmp_path: Path, study: pumice.Study) -> None:
    import yaml

    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump(DATA))
    found = pumice.simulate(path, "default", seeds="1..2")
    for record, same in zip(found.records(), study.records()[::2], strict=False):
        assert (record.jobs, record.pods) == (same.jobs, same.pods)


def test_a_policy_is_a_class_and_reaches_other_processes(study: pumice.Study) -> None:
    assert study.results.configurations == ("default", "narrow")
    apart = pumice.simulate(DATA, ["default", Narrow], seeds=2, processes=2)
    assert apart.lost == []
    assert [encode(record) for record in apart.records()] == [encode(record) for record in study.records()[:4]]
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": Narrow}]}]}
    named = pumice.simulate(DATA, {"one": data, "other": "helm"}, seeds=1, keep_records=False)
    assert named.results.configurations == ("one", "other")
    assert pumice.simulate(DATA, data, seeds=1, keep_records=False).results.configurations == ("policy 1",)


def tables() -> list[Any]:
    found: list[Any] = [JOBS, {name: np.array(column) for name, column in JOBS.items()}]
    for module, make in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")):
        library = pytest.importorskip(module) if module == "pandas" else _imported(module)
        if library is not None:
            found.append(getattr(library, make)(JOBS))
    return found


def _imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None


def test_jobs_are_a_frame_a_table_or_columns() -> None:
    for jobs in tables():
        found = pumice.simulate(CLUSTER, "default", jobs=jobs).jobs
        assert found["job"].tolist() == ["default/x", "default/y", "default/z"]
        assert found["start"].tolist() == [0.0, 600.0, 600.0]


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ({"job": ["a"], "submit_s": [0]}, "duration_s: the table has no such column; it has job, submit_s"),
        ({**JOBS, "gpus": [1, 1, 1]}, "gpus: no column of this format; the columns are job, submit_s"),
        ({**JOBS, "submit_s": [0, -1, 3]}, "jobs:2: submit_s: must be a number of seconds of at least 0, got '-1'"),
    ],
)
def test_a_table_that_breaks_a_rule_is_told_with_row_and_column(jobs: Any, said: str) -> None:
    with pytest.raises(PumiceError, match=said):
        pumice.simulate(CLUSTER, jobs=jobs)


def test_a_scenario_that_was_read_is_varied_without_a_file(study: pumice.Study) -> None:
    read = pumice.read_scenario(DATA)
    busy = pumice.simulate(read.with_load(2.0), "default", seeds=2)
    assert busy.jobs.rows == 2 * 28
    short = pumice.simulate(read, "default", seeds=1, horizon="10m")
    assert short.runs["span"].max() <= 600
    with pytest.raises(InvalidInput, match="was read already"):
        pumice.simulate(read, jobs=JOBS)
    for data, said in (
        ({**DATA, "queus": []}, "<scenario>: queus: unknown key 'queus'; did you mean 'queues'"),
        ({**DATA, "queues": object()}, "<scenario>: queues: object is no JSON value"),
    ):
        with pytest.raises(InvalidInput, match=said):
            pumice.read_scenario(data)
    for policies, said in ((["default", "default"], "every one needs a name"), ([], "at least one is needed")):
        with pytest.raises(InvalidInput, match=said):
            pumice.simulate(read, policies, seeds=1)


def test_the_figure_that_was_declared_is_the_one_that_is_judged(study: pumice.Study) -> None:
    found = pumice.simulate(DATA, ["default", Narrow], seeds=8, figure="utilisation.gpu", keep_records=False)
    assert found.comparison.primary == "utilisation.gpu"
    assert "GPU" in found.verdict
    sure = pumice.simulate(DATA, ["default", "helm"], until_sure="90%", figure="utilisation.gpu", keep_records=False)
    assert len(sure.comparison.seeds) in (20, 40, 80)


def test_arguments_are_swept_and_sizes_planned() -> None:
    base = {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": "binpack"}]}],
    }
    found = pumice.sweep(DATA, base, {"binpack.weight": [1, 5]}, seeds=2)
    assert found.results.configurations == ("as it is", "binpack.weight=1", "binpack.weight=5")
    with pytest.raises(InvalidInput, match="needs values by PLUGIN"):
        pumice.sweep(DATA, base, {"binpack": [1]})
    planned = pumice.plan(DATA, base, "wait.mean < 30m", between=(1, 6), seeds=6)
    assert planned.on_these_days is not None
    assert planned.answer is None or planned.answer >= planned.on_these_days
    assert set(planned.sizes["goal"]) <= {"met", "perhaps", "missed"}
    assert str(planned).startswith(f"wait.mean < 30m: {planned.on_these_days} node")


@pytest.mark.slow
def test_a_conf_is_tuned_and_looks_at_the_days_held_out_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    base = {
        "actions": "allocate",
        "tiers": [{"plugins": [*({"name": name} for name in ("gang", "predicates", "nodeorder")), Narrow]}],
    }
    study = tmp_path / "runs.jsonl"
    found = []
    for over in (["narrow=on,off"], ["narrow=on,off"], ["narrow=on,off", "nodeorder.mostrequested.weight=0..10"]):
        found.append(pumice.tune(DATA, base, over, runs=8, seeds=9, queue_loss=None, study=study))
    looks = [one.tuning.looks for one in found if one.tuning.comparison is not None]
    assert looks == sorted(looks)
    assert len(set(looks[:2])) <= 1, "the same question on the same days is one look"
    assert found[0].recommended == (found[0].conf is not None)
    assert "searched on" in found[0]._repr_html_()


# -- what is shown --------------------------------------------------------------------------------------------------
class _Cells(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_a_notebook_shows_studies_tables_plans_and_cycles(study: pumice.Study, scenario: Scenario) -> None:
    cells = _Cells(study._repr_html_()).cells
    assert {"default", "narrow", "95 % interval", "better on"} <= set(cells)
    assert any(cell.startswith("two teams: narrow against default") for cell in cells)
    assert "Wait, mean" in cells
    assert study.jobs._repr_html_().count("<tr>") == 21
    assert f"{study.jobs.rows:,} rows" in study.jobs._repr_html_()
    assert _Cells(pumice.simulate(DATA, "default", seeds=2)._repr_html_()).cells
    scenario.node("n1", cpu="2", memory="4Gi")
    scenario.job("small", cpu="1")
    scenario.job("large", cpu="8")
    cells = _Cells(scenario.run()._repr_html_()).cells
    assert cells[cells.index("default/small-0") :][:3] == ["default/small-0", "placed", "n1"]
    assert cells[cells.index("default/large") + 1] == "pending"


def test_tables_go_to_pandas_and_parquet(study: pumice.Study, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    parquet = pytest.importorskip("pyarrow.parquet")
    frame = study.jobs.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.groupby("configuration")["wait"].mean().to_dict().keys() == {"default", "narrow"}
    study.runs.to_parquet(tmp_path / "runs.parquet")
    assert parquet.read_table(tmp_path / "runs.parquet").num_rows == study.runs.rows


@pytest.mark.slow
def test_every_plot_has_a_title_and_can_be_saved(study: pumice.Study, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = study.plot
    for at, figure in enumerate(
        (plot.ecdf(), plot.waits(), plot.waits("size"), plot.over_time(), plot.pairs(), plot.jobs(), plot.nodes(seed=2))
    ):
        assert figure.axes[0].get_title()
        figure.savefig(tmp_path / f"{at}.svg")
        assert (tmp_path / f"{at}.svg").stat().st_size > 2000
    for wrong in (lambda: plot.waits("user"), lambda: plot.jobs("none"), lambda: plot.waits(figure_name="makespan")):
        with pytest.raises(InvalidInput):
            wrong()  # type: ignore[no-untyped-call]


class Blind(Plugin):
    """Means to let jobs of few GPUs go first, and reads what no job says."""

    name = "blind"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, lambda job: job.annotations.get("example.org/gpus", ""))


class BlindTo(Plugin):
    """As `Blind`, by comparison."""

    name = "blind-to"

    def job_order(self, left: Job, right: Job) -> int:
        return len(left.annotations.get("x", "")) - len(right.annotations.get("x", ""))


@pytest.mark.parametrize(("policy", "warned"), [(Blind, True), (BlindTo, True), (Narrow, False), ("default", False)])
def test_an_order_that_never_orders_is_warned_of(policy: Any, warned: bool) -> None:
    [record] = pumice.simulate(DATA, [policy], seeds=1).records()
    assert any("never told two of them apart" in text for text in record.warnings) is warned


def test_an_order_is_not_blamed_where_there_is_nothing_to_order() -> None:
    lone = {"job": ["x"], "submit_s": [0], "duration_s": [60]}
    [record] = pumice.simulate(CLUSTER, [Blind], jobs=lone).records()
    assert record.warnings == ()


@pytest.mark.parametrize("declared", [0, 1])
def test_sjf_without_declared_run_times_is_warned_of(declared: float) -> None:
    generator = {**RED, "declared": declared}
    sjf = {"actions": "allocate", "tiers": [{"plugins": [{"name": "sjf"}, {"name": "gang"}]}]}
    [record] = pumice.simulate({**DATA, "workload": {"generators": [generator]}}, {"short": sjf}, seeds=1).records()
    said = "no job declares a run time: sjf of short has nothing to order by"
    assert any(text.startswith(said) for text in record.warnings) is not bool(declared)


class Banned(Plugin):
    """Refuses every job of one queue."""

    name = "banned"

    def job_enqueueable(self, job: Job) -> bool:
        return job.queue != "blue"


def test_fairness_sees_a_queue_that_is_never_served() -> None:
    """The index counts the jobs that wait with the most that they can still reach; without them both would be equal."""
    both = {**DATA, "workload": {"generators": [RED, {**RED, "name": "b", "queue": "blue"}]}, "horizon": "6h"}
    study = pumice.simulate(both, ["default", Banned], seeds=6)
    as_it_is, banned = (study.runs.where(configuration=name)["fairness.service"] for name in ("default", "banned"))
    assert (banned < 0.7).all()
    assert (as_it_is > 0.9).all()
    [_, effect] = study.comparison.row("fairness.service").effects
    assert effect is not None
    assert effect.verdict == "not comparable"
