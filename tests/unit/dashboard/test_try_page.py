"""The page on which a job is tried: its example can be sent as it stands, and the answer is that of the command."""

from __future__ import annotations

import html
import re

from dashboard_worlds import desk_over, served
from test_pages_keep_secrets import Browser

from pumice.testing import job, node, queue


def test_the_example_is_answered_as_it_stands_with_places_and_what_it_does_to_its_queue() -> None:
    desk = desk_over(
        queue("research", weight=2),
        node("n1", cpu=64, memory="512Gi", gpu=8),
        job("runs", namespace="research", queue="research", tasks=1, cpu=4, on="n1"),
    )
    with served(desk) as where:
        browser = Browser(where)
        _, page = browser.open("/try")
        (example,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
        status, page = browser.open("/try", {"job": html.unescape(example)})
    assert status == 200
    words = " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page)).split())
    assert "research/train: ✓ would start now" in words
    assert "research/train-worker-3 n1" in words
    assert "Queue research" in words
    assert "cpu 4 +32 36" in words, "what others hold, what it adds, and both"
    assert "nothing was written" in words
