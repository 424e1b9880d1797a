"""A plugin that prints spoils no data: what it prints is on stderr, whichever command lets it decide."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_runs import Pumice

from pumice.cli.options import stdout

CHATTY = """
print("chatter of the module")
from pumice import Plugin
import sys


class Chatty(Plugin):
    name = "chatty"

    def on_session_open(self, ssn):
        print("chatter of a session")

    def predicate(self, task, node):
        sys.stdout.write("chatter of a predicate")
"""
CONF = "actions: 'enqueue, allocate'\ntiers:\n- plugins: [{name: gang}, {name: chatty}, {name: predicates}]\n"
NODE = "{kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}\n---"
JOB = """
kind: PodGroup
apiVersion: scheduling.volcano.sh/v1beta1
metadata: {name: g, namespace: default}
spec: {minMember: 1}
---
kind: Pod
metadata: {name: p, namespace: default, annotations: {scheduling.k8s.io/group-name: g}}
spec: {schedulerName: volcano, containers: [{name: a, resources: {requests: {cpu: 8}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "chatty.py").write_text(CHATTY)
    (tmp_path / "conf.yaml").write_text(CONF)
    (tmp_path / "c.yaml").write_text(NODE + JOB)
    (tmp_path / "job.yaml").write_text(
        JOB.replace("name: g,", "name: h,").replace("name: p,", "name: q,").replace("group-name: g", "group-name: h")
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "cycle c.yaml --conf conf.yaml",
        "why default/g c.yaml --conf conf.yaml",
        "what-if -f job.yaml c.yaml --conf conf.yaml",
        "plugin list",
        "status --from c.yaml --conf conf.yaml",
        "conf check conf.yaml",
        "conf explain conf.yaml",
    ],
)
def test_what_a_plugin_prints_is_no_data(pumice: Pumice, folder: Path, command: str) -> None:
    ran = pumice(*command.split(), "--plugins-dir", "plugins", "-o", "json")
    assert isinstance(ran.data, list | dict)  # it is JSON, and nothing else
    assert "chatter of the module" in ran.err
    assert stdout() is sys.stdout  # the next command prints as ever
