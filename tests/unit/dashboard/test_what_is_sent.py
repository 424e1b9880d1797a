"""What the pages are made of: little script, all of it ours to serve."""

from __future__ import annotations

import gzip
import re
from importlib import resources

from dashboard_worlds import Word, desk_over, served
from test_pages_keep_secrets import Browser

from pumice.dashboard.history import RecentHistory
from pumice.testing import job, node

STATIC = resources.files("pumice.dashboard") / "static"
TEMPLATES = resources.files("pumice.dashboard") / "templates"
MOST_SCRIPT = 60_000
"""Bytes of all scripts together, as they are sent."""


def test_all_scripts_together_are_at_most_60_kb_as_they_are_sent() -> None:
    scripts = [file for file in STATIC.iterdir() if file.name.endswith(".js")]
    assert len(scripts) == 4
    sent = {file.name: len(gzip.compress(file.read_bytes(), mtime=0)) for file in scripts}
    assert sum(sent.values()) <= MOST_SCRIPT, sent


def test_pages_load_only_what_is_served_beside_them() -> None:
    for template in TEMPLATES.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"https?://", text), template.name
        for name in re.findall(r"/static/([\w.-]+)", text):
            assert (STATIC / name).is_file(), (template.name, name)


def test_scripts_are_packed_for_who_can_unpack_them() -> None:
    desk = desk_over(node("n1", cpu=1), job("a", cpu=1))
    with served(desk, RecentHistory(desk.state), Word({})) as address:
        browser = Browser(address)
        whole = browser.open("/static/htmx.min.js")[1]
        assert whole == (STATIC / "htmx.min.js").read_text(encoding="utf-8")
        packed = browser.raw("/static/htmx.min.js", **{"Accept-Encoding": "gzip, br"})
        assert gzip.decompress(packed).decode() == whole
        assert browser.open("/static/../server.py")[0] == 404
