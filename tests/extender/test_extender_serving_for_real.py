"""The server as users run it: the command, TLS both ways, several dialects at once, saved cycles."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from extender_service import free_port
from extender_serving import Serving
from extender_world import arguments, cluster, conf, cycle, group, node, pod, small
from starlette.applications import Starlette
from starlette.routing import Mount

from pumice import saved
from pumice.config import from_data
from pumice.engine.scope import Scope, scope
from pumice.extender.asking.calls import EXCHANGES
from pumice.extender.plugin import close_clients
from pumice.extender.server import app
from pumice.framework.plugin import Plugin
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, replay

CERTS = Path(__file__).parent / "certs"


class Racks(Plugin):
    """Looks at labels alone, so that every dialect carries what it reads."""

    name = "racks"

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        if (rack := task.labels.get("not")) and node.labels.get("rack") == rack:
            raise Unfit("not this rack")

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        return float(len(node.labels.get("rack", "")))


def _objects() -> dict[str, Any]:
    nodes = [node("n1", labels={"rack": "aaa"}), node("n2", labels={"rack": "bb"}), node("n3", labels={"rack": "c"})]
    return {"nodes": nodes, "pods": [pod("x-y-0", labels={"not": "aaa"})], "groups": [group()]}


def test_a_policy_decides_the_same_behind_every_dialect() -> None:
    registry = default_registry().copy()
    registry.register("racks", Racks)
    inside = cycle(cluster(**_objects()), conf([[{"name": "racks"}]]), registry=registry)
    assert inside.binds == {"ml/x-y-0": "n2"}
    with Serving(app([Racks])) as serving:
        for dialect in ("documented", "volcano", "kube"):
            for payload in ("full", "names") if dialect != "kube" else ("full",):
                verbs = ("predicate", "prioritize") + (("onSessionOpen",) if dialect != "kube" else ())
                given = arguments(serving.url, *verbs, dialect=dialect, payload=payload)
                report = cycle(cluster(**_objects()), conf([[{"name": "extender", "arguments": given}]]))
                assert report.binds == inside.binds, (dialect, payload)


def test_it_can_be_mounted_in_another_application() -> None:
    outer = Starlette(routes=[Mount("/policies", app=app([Racks]))])
    with Serving(outer) as serving:
        given = arguments(f"{serving.url}/policies", "predicate", "prioritize")
        report = cycle(cluster(**_objects()), conf([[{"name": "extender", "arguments": given}]]))
        assert serving.request("GET", "/policies/healthz")[0] == 200
    assert report.binds == {"ml/x-y-0": "n2"}


def test_both_sides_show_certificates() -> None:
    tls = {
        "ssl_certfile": str(CERTS / "server.pem"),
        "ssl_keyfile": str(CERTS / "server.key"),
        "ssl_ca_certs": str(CERTS / "ca.pem"),
        "ssl_cert_reqs": int(ssl.CERT_REQUIRED),
    }
    own = {"certFile": str(CERTS / "client.pem"), "keyFile": str(CERTS / "client.key")}
    with Serving(app([Racks]), **tls) as serving:
        url = f"https://localhost:{serving.port}"
        for more, placed in ((own, 1), ({}, 0)):
            given = arguments(url, "predicate", caFile=str(CERTS / "ca.pem"), **more)
            report = cycle(cluster(**_objects()), conf([[{"name": "extender", "arguments": given}]]))
            assert len(report.binds) == placed


def test_the_serve_command_answers_and_ends_when_told(tmp_path: Path) -> None:
    policy = tmp_path / "picky.py"
    policy.write_text(
        "from pumice.framework.plugin import Plugin\n"
        "from pumice.model.reason import Unfit\n\n\n"
        "class Picky(Plugin):\n"
        "    name = 'picky'\n\n"
        "    def predicate(self, task, node):\n"
        "        raise Unfit(self.arguments['why'])\n"
    )
    port = free_port()
    command = [sys.executable, "-c", "from pumice.cli.entry import main; main()", "extender", "serve", str(policy)]
    conf = tmp_path / "conf"
    conf.write_text("actions: allocate\ntiers: [{plugins: [{name: picky, arguments: {why: because}}]}]\n")
    options = ["--conf", str(conf), "--address", f"127.0.0.1:{port}", "--verb", "predicate=customFilter"]
    options += ["--max-body", "1"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    try:
        _wait(port)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        question = {"task": {"namespace": "a", "name": "t", "labels": {}}, "node": {"name": "n", "labels": {}}}
        connection.request("POST", "/customFilter", json.dumps(question))
        assert json.loads(connection.getresponse().read()) == {"code": 2, "errorMessage": "because"}
        connection.request("POST", "/customFilter", b" " * (2**20 + 2**19))
        assert connection.getresponse().status == 413
        connection.close()
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    assert "serving picky" in said


def _wait(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)
        finally:
            connection.close()


def test_a_saved_cycle_is_run_again_without_its_extender() -> None:
    runtime, state = Runtime(), small(2)
    with Serving(app([Racks])) as serving:
        given = arguments(serving.url, "onSessionOpen", "predicate", "prioritize", "jobReady")
        data = conf([[{"name": "extender", "arguments": given}]])
        assembly = assemble(from_data(data, catalogue_of(default_registry())).conf, default_registry())
        begun = record(state, assembly.conf, runtime)
        report = run_cycle(state, assembly, runtime, environment={EXCHANGES: begun.exchanges})
        begun.decisions = decisions_of(report.intents)
        close_clients(runtime.memory)
    assert len(report.binds) == 2
    again = replay(saved.parse(saved.dump(begun)), default_registry())
    assert again.decisions == begun.decisions
