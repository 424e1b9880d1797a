"""The page tells what the record says, needs nothing from outside, and stays small."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest
from simulated_runs import fifo, play, shortest_first, workload

from pumice.errors import InvalidInput
from pumice.sim.report import html
from pumice.sim.results import JobRecord, NodeRecord, PodRecord, RecordedReason, RunRecord, compare
from pumice.sim.results.comparison import Comparison

_VOID = {"meta", "br", "hr", "img", "path", "line"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects their text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def parse(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids), "every anchor is there once"
    return reader


def text(page: str) -> str:
    return re.sub(r"\s+", " ", "".join(parse(page).words))


@pytest.fixture(scope="module")
def runs() -> list[RunRecord]:
    """A run that evicts and leaves jobs pending, and one that does neither."""
    return [
        play(workload(400, seed=2, days=0.8), 8, fifo, strict=False, preempt=True, horizon=90_000, name="preempt"),
        play(workload(400, seed=2, days=0.8), 8, shortest_first, strict=False, name="shortest first"),
    ]


def test_the_page_of_a_run_has_every_part(runs: list[RunRecord]) -> None:
    page = html(runs[:1])
    reader = parse(page)
    assert reader.ids[:-1] == [
        "theme", "utilisation", "waits", "queues", "jobs", "nodes", "pending", "evictions",
    ]  # fmt: skip
    assert set(reader.links) == {f"#{anchor}" for anchor in reader.ids[1:-1]}
    words = text(page)
    for part in (
        "GPU utilisation over time, by queue",
        "Wait from submission to first start",
        "Jobs over time",
        "Nodes over time",
    ):
        assert part in words
    assert "0 of 4 required tasks have a place" in words
    assert "reclaim" in words
    assert "not drawn" in words


def test_the_page_needs_nothing_from_outside(runs: list[RunRecord]) -> None:
    page = html(runs)
    for reference in ("http:", "https:", "//cdn", "@import", "url(", "src=", "<link"):
        assert reference not in page
    assert all(link.startswith("#") for link in parse(page).links)


def test_the_page_of_several_runs_compares_them_and_holds_each(runs: list[RunRecord]) -> None:
    page = html(runs, compare(runs))
    reader = parse(page)
    assert {"compare", "run0", "run1"} <= set(reader.ids)
    words = text(page)
    assert "2 runs compared" in words
    assert "Jobs that moved: shortest first" in words
    assert words.count("Nodes over time") == 2


def test_the_page_begins_with_the_verdict_and_the_two_charts_over_time(runs: list[RunRecord]) -> None:
    page = html(runs)
    main = page[page.index("<main>") :]
    [verdict] = re.findall(r'<p class="verdict">([^<]*)</p>', main)
    assert verdict.startswith("Wait, mean: preempt ")
    assert "One run of each cannot tell a change from chance" in verdict
    order = ("verdict", "GPUs in use", "Jobs waiting for their first start", 'class="tiles"', "Side by side")
    places = [main.index(part) for part in order]
    assert places == sorted(places)
    assert re.findall(r"<details[^>]*><summary>(By \w+)", main) == ["By queue", "By size"]


def test_the_same_records_give_the_same_page(runs: list[RunRecord]) -> None:
    assert html(runs) == html(runs, compare(runs))


def test_names_are_shown_and_never_run() -> None:
    evil = '<script>alert("x")</script>&"\''
    job = JobRecord(
        name=evil,
        queue=evil,
        user=evil,
        submit=0,
        gpus=1,
        outcome="pending",
        reasons=(RecordedReason(text=evil, plugin=evil),),
    )
    ran = JobRecord(name="ran", queue=evil, submit=0, start=1, end=2, gpus=1, outcome="completed")
    pod = PodRecord(job=ran.key, name=evil, node=evil, start=1, end=2, gpu_milli=1000)
    run = RunRecord(
        name=evil,
        horizon=9,
        nodes=(NodeRecord(name=evil, gpus=1),),
        jobs=(job, ran),
        pods=(pod,),
        notes=(evil,),
        trace=evil,
    )
    other = msgspec.structs.replace(run, name=f"{evil} 2")
    for page in (html([run]), html([run, other])):
        assert "<script>alert" not in page
        assert evil in text(page)
        scripts = re.findall(r"<script[^>]*>", page)
        assert scripts.count("<script>") == 1, "only our own is run"


def test_a_run_of_nothing_has_a_page() -> None:
    page = html([RunRecord(name="empty", horizon=0)])
    assert "Nothing was submitted" in text(page)
    assert re.search(r"\b(nan|inf|None)\b", text(page)) is None


@pytest.mark.parametrize(
    "run",
    [
        RunRecord(name="no nodes", horizon=9, jobs=(JobRecord(name="a", submit=0, outcome="pending"),)),
        RunRecord(
            name="one instant",
            horizon=0,
            nodes=(NodeRecord(name="n", cpu_milli=1000),),
            jobs=(JobRecord(name="a", submit=0, start=0, end=0, outcome="completed"),),
        ),
        RunRecord(
            name="no pods",
            horizon=9,
            nodes=(NodeRecord(name="n", gpus=1),),
            jobs=(JobRecord(name="a", submit=0, start=3, outcome="running"),),
        ),
        RunRecord(
            name="cpu only",
            horizon=9,
            nodes=(NodeRecord(name="n", cpu_milli=1000, until=4.0), NodeRecord(name="m", cpu_milli=1000, since=5.0)),
            jobs=(JobRecord(name="a", submit=0, start=0, end=4, cpus=1, outcome="completed"),),
            pods=(PodRecord(job="default/a", name="a", node="n", start=0, end=4, cpu_milli=1000),),
        ),
    ],
    ids=lambda run: run.name,
)
def test_odd_runs_have_pages_too(run: RunRecord) -> None:
    page = html([run, msgspec.structs.replace(run, name="again")])
    assert run.name in text(page)
    for path in re.findall(r' d="([^"]*)"', page):
        assert re.fullmatch(r"[MLHVhvzZ0-9 .-]*", path), "every coordinate is a number"


def test_a_run_without_gpus_is_told_in_cpus() -> None:
    run = RunRecord(
        name="cpu only",
        horizon=9,
        nodes=(NodeRecord(name="n", cpu_milli=2000),),
        jobs=(JobRecord(name="a", submit=0, start=0, end=4, cpus=1, outcome="completed"),),
        pods=(PodRecord(job="default/a", name="a", node="n", start=0, end=4, cpu_milli=1000),),
    )
    words = text(html([run]))
    assert "CPU utilisation over time" in words
    assert "CPU-hours" in words
    assert "GPU-hours" not in words.split("What the figures mean")[0]


@pytest.mark.slow
def test_a_report_of_five_thousand_jobs_stays_small() -> None:
    run = play(workload(5000, seed=1), 60, fifo, strict=False)
    page = html([run])
    assert len(run.jobs) == 5000
    assert len(page.encode()) < 1_000_000
    assert "4,952 jobs are not drawn" in text(page)


def test_a_comparison_of_other_runs_is_refused(runs: list[RunRecord]) -> None:
    other: Comparison = compare(runs[:1])
    with pytest.raises(InvalidInput, match="comparison: must be of the same runs, got one of preempt"):
        html(runs, other)
    with pytest.raises(InvalidInput, match="at least one is needed"):
        html([])
