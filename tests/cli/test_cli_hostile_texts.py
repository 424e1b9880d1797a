"""Whatever texts a cluster holds, no command tells a terminal to do anything."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from cli_runs import Pumice

from pumice.cli import render
from pumice.words import OBEYED, visible

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2Jx\u202egnp.exe\r\x7f"
"""A title for the window, colours, an empty screen, the wrong direction, a line written again."""
COMMANDS = [
    ["cycle"],
    ["status"],
    ["status", "queue"],
    ["status", "queue", EVIL],
    ["status", "node"],
    ["status", "job", EVIL, "-o", "yaml"],
    ["why", EVIL + EVIL],
    ["why", f"default/{EVIL}", "--all"],
    ["why", f"default/{EVIL}"],
]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster in which every name, label and message is hostile, in a file."""
    meta = {"namespace": "default", "uid": "u", "labels": {"x": EVIL}, "annotations": {"x": EVIL}}
    asked = {"containers": [{"name": EVIL, "image": EVIL, "resources": {"requests": {"cpu": "1"}}}]}
    mine = {"scheduling.k8s.io/group-name": EVIL}
    room = {"allocatable": {"cpu": "4", "pods": "9"}, "conditions": [{"type": EVIL, "status": EVIL, "message": EVIL}]}
    items = [
        {"kind": "Node", "metadata": {"name": EVIL, "labels": {"x": EVIL}}, "status": room},
        {"kind": "Queue", "metadata": {"name": EVIL}, "spec": {"weight": 1, "capability": {EVIL: "1"}}},
        {"kind": "Queue", "metadata": {"name": "low"}, "spec": {"weight": EVIL.count("x"), "parent": EVIL}},
        {"kind": "PodGroup", "metadata": {**meta, "name": EVIL}, "spec": {"minMember": 2, "queue": EVIL + "none"}},
        {
            "kind": "Pod",
            "metadata": {**meta, "name": EVIL, "annotations": mine},
            "spec": {"schedulerName": "volcano", "nodeSelector": {EVIL: EVIL}, **asked},
            "status": {"phase": "Pending", "message": EVIL},
        },
        {"kind": EVIL, "metadata": {"name": EVIL}},
    ]
    path = tmp_path / "cluster.json"
    path.write_bytes(msgspec.json.encode({"kind": "List", "items": items}))
    return path


def obeyed(text: str) -> list[str]:
    return [hex(ord(sign)) for sign in text if ord(sign) in OBEYED]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: visible(" ".join(words))[:20])
def test_a_command_writes_no_sign_that_a_terminal_obeys(cluster: Path, words: list[str]) -> None:
    for more in ([], ["-o", "json"]):
        source = ["--from"] if words[0] == "status" else []
        ran = Pumice()(*words, *source, cluster, *more, code=None)
        assert obeyed(ran.out + ran.err) == []
        assert "owned" in ran.out + ran.err
        assert not more or ran.code != 0 or json.loads(ran.out)


def test_programs_are_told_the_texts_as_they_are(cluster: Path) -> None:
    (found,) = Pumice()("status", "--from", cluster, "-o", "json").data
    assert found["job"] == f"default/{EVIL}"


@pytest.mark.parametrize("printing", ["line", "paragraph", "heading", "note", "warning", "error", "data"])
def test_whatever_prints_a_text_writes_it_out(printing: str, capsys: pytest.CaptureFixture[str]) -> None:
    getattr(render, printing)(EVIL)
    told = capsys.readouterr()
    assert obeyed(told.out + told.err) == []
    assert "owned" in told.out + told.err


def test_a_log_line_writes_out_what_a_plugin_says(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "bad.py").write_text(
        "from pumice import Plugin\n\n\nclass Bad(Plugin):\n    name = 'bad'\n\n"
        f"    def job_valid(self, job):\n        raise RuntimeError({EVIL!r})\n"
    )
    conf = tmp_path / "c.conf"
    conf.write_text("actions: allocate\ntiers:\n- plugins: [{name: bad}, {name: gang}]\n")
    ran = Pumice()("cycle", cluster, "--conf", conf, "--plugins-dir", tmp_path / "plugins", code=None)
    assert obeyed(ran.out + ran.err) == []
