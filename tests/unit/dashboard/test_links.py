"""No link of a page ends in an error, and the page of all jobs can be filtered and sorted."""

from __future__ import annotations

import html
import re
import urllib.request
from collections.abc import Iterator

import pytest
from dashboard_worlds import NOON, desk_over, served

from pumice.dashboard.history import RecentHistory
from pumice.history.recorder import HistoryRecorder
from pumice.model.events import Gone, Seen
from pumice.testing import job, node, queue
from pumice.testing.world import flat


@pytest.fixture
def address() -> Iterator[str]:
    desk = desk_over(
        queue("default"),
        queue("research"),
        node("n1", cpu=8),
        job("runs", tasks=2, cpu=1, on="n1"),
        job("waits", tasks=9, cpu=1, queue="research"),
        *(job(f"late-{n:03d}", tasks=1, cpu=99) for n in range(120)),
    )
    history = RecentHistory(desk.state, every=0.0)
    recorder = HistoryRecorder(desk.state, [history], strict=True)
    recorder.deciding("one", dict)
    history.look()
    for minute in (1, 2):
        desk.state.now = NOON + 60 * minute
        events = [Seen(obj) for obj in flat([job("ended", tasks=1, cpu=1, on="n1")])]
        for event in events if minute == 1 else [Gone("Pod", "default/ended-0"), Gone("PodGroup", "default/ended")]:
            desk.state.apply(event)
            recorder.saw(event)
        recorder.deciding("one", dict)
        history.look()
    with served(desk, history) as where:
        yield where


def page(address: str, path: str) -> str:
    with urllib.request.urlopen(address + path, timeout=60) as answer:
        found: str = answer.read().decode()
        return found


def links(text: str) -> set[str]:
    return {html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]*)"', text) if link.startswith("/")}


def jobs(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/job/default/([^"]+)"', text)


def test_every_link_of_every_page_leads_to_a_page(address: str) -> None:
    followed: set[str] = set()
    left = {"/", "/changes"}  # a page of one instant has no link to its changes
    while left:
        path = left.pop()
        followed.add(path)
        text = page(address, path)  # raises for a status of 400 and more
        if not path.startswith("/static"):
            left |= {link for link in links(text) if not link.startswith("/job/default/late-")} - followed
    assert {"/", "/jobs", "/nodes", "/try", "/what-if", "/conf", "/job/default/ended"} <= followed
    assert any(path.startswith("/jobs?") and "sort=-age" in path for path in followed)
    assert "no longer in the cluster" in page(address, "/job/default/ended")


def test_all_jobs_are_listed_filtered_and_sorted(address: str) -> None:
    assert "122 jobs" in page(address, "/jobs")
    assert jobs(page(address, "/jobs?state=running")) == ["runs"]
    assert "runs" not in jobs(page(address, "/jobs?state=waiting"))
    assert jobs(page(address, "/jobs?queue=research")) == ["waits"]
    assert jobs(page(address, "/jobs?sort=job"))[:2] == ["late-000", "late-001"]
    assert jobs(page(address, "/jobs?sort=-job"))[:2] == ["waits", "runs"]
    assert jobs(page(address, "/jobs?sort=pods"))[0] == "waits"
    assert jobs(page(address, "/jobs?sort=job&page=2"))[-2:] == ["runs", "waits"]
    assert 'aria-sort="descending"' in page(address, "/jobs?sort=-queue")
    assert page(address, "/jobs?sort=nothing&page=x"), "words that mean nothing are left aside"
