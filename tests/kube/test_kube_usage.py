"""usage with live measurements on a real API server: Prometheus over HTTP, and the metrics server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kube_bed import Bed, until
from kube_world import World, all_bound

CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: usage
    arguments:
      thresholds: {{cpu: 80, mem: 80}}
metrics:
  type: {kind}
  address: {address}
  interval: 1s
"""
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodes.metrics.k8s.io"
NODES = "/apis/metrics.k8s.io/v1beta1/nodes"


@pytest.fixture
def prometheus() -> Iterator[str]:
    """One that says of two nodes how busy they are; its address."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            percent = {"busy": "95", "calm": "5"} if "cpu" in query else {"busy": "50", "calm": "5"}
            result = [{"metric": {"instance": f"{n}:9100"}, "value": [0, v]} for n, v in percent.items()]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def metrics_server(bed: Bed) -> Iterator[str]:
    """What the metrics server says, served by the API server itself."""
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"kind": "NodeMetrics", "listKind": "NodeMetricsList", "plural": "nodes", "singular": "node"}
    bed.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "nodes.metrics.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {"group": "metrics.k8s.io", "scope": "Cluster", "names": names, "versions": [version]},
        }
    )
    try:
        until(lambda: _serves(bed), 30, "the kind is served")
        for name, cpu in (("busy", "7600m"), ("calm", "100m")):
            usage = {"cpu": cpu, "memory": "1Gi"}
            meta = {"name": name}
            body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": meta, "usage": usage}
            bed.call("POST", NODES, body)
        yield "http://unused"
    finally:
        bed.call("DELETE", CRD)


def _serves(bed: Bed) -> bool:
    try:
        bed.call("GET", NODES)
    except Exception:
        return False
    return True


@pytest.mark.smoke
@pytest.mark.parametrize("source", ["prometheus", "metrics_server"])
def test_pods_keep_off_a_node_that_is_measured_to_be_busy(
    world: World, source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = request.getfixturevalue(source)
    conf = tmp_path / "usage.conf"
    conf.write_text(CONF.format(kind=source.replace("_", "-"), address=address))
    world.node("busy", cpu="8")
    world.grant("scheduler-usage")
    run = world.scheduler("--scheduler-conf", str(conf), "--v", "3")
    until(lambda: "is measured by" in run.log, 30, "it measures")
    world.gang("waits", 1)
    until(lambda: "cpu usage is above the threshold" in str(world.group("waits").get("status")), 30, "it says why")
    assert world.bound() == {}
    world.node("calm", cpu="8")
    all_bound(world, "waits-0")
    assert world.bound() == {"waits-0": "calm"}
