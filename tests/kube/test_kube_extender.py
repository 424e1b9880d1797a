"""Extenders on a real cluster: ours under a real kube-scheduler, and two at once under our own scheduler."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ROOT, Bed, Refusal, until
from kube_extenders import PUMICE, kube_scheduler, served
from kube_world import World, all_bound

TEAMS = '''\
"""Looks at what stands on a node, which no question of kube-scheduler tells."""
from pumice.engine.scope import Scope, scope
from pumice.framework.plugin import Arguments, Plugin
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task


class Teams(Plugin):
    name = "teams"

    def __init__(self, arguments: Arguments) -> None:
        self.most = arguments.int("most", 1)

    @scope(Scope.NODE)
    def predicate(self, task: Task, node: Node) -> None:
        team = task.labels.get("team")
        if sum(other.labels.get("team") == team for other in node.tasks.values()) >= self.most:
            raise Unfit(f"team {team} has enough here")

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        return float(node.labels.get("rank", "0"))
'''
PRICES = """\
from pumice.engine.scope import Scope, scope
from pumice.framework.plugin import Plugin


class Prices(Plugin):
    name = "prices"

    @scope(Scope.STATIC)
    def node_order(self, task, node):
        return 100.0 - float(node.labels.get("price", "100"))
"""
CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: teams
    arguments: {most: 2}
"""
BOTH = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: extender
    arguments:
      extender.name: teams
      extender.urlPrefix: %s
      extender.dialect: kube
      extender.payload: names
      extender.predicateVerb: filter
      extender.bindVerb: bind
  - name: extender
    arguments:
      extender.name: prices
      extender.urlPrefix: %s
      extender.dialect: volcano
      extender.onSessionOpenVerb: onSessionOpen
      extender.prioritizeVerb: prioritize
"""
BINDS = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: extender
    arguments:
      extender.urlPrefix: %s
      extender.httpTimeout: 2s
      extender.bindVerb: bind
"""


@pytest.fixture(scope="module", autouse=True)
def rights(bed: Bed) -> None:
    bed.apply(ROOT / "deploy" / "manifests" / "extender-rbac.yaml")


@pytest.fixture
def teams(tmp_path: Path) -> tuple[str, ...]:
    """The policy and its conf, as arguments of the command that serves it."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "teams.py").write_text(TEAMS)
    (tmp_path / "teams.conf").write_text(CONF)
    return (str(tmp_path / "plugins" / "teams.py"), f"--conf={tmp_path / 'teams.conf'}")


def group(world: World, name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": world.namespace}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": 1, "queue": "default"},
    }


def pod(world: World, name: str, scheduler: str, team: str = "red") -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    meta = {
        "name": name,
        "namespace": world.namespace,
        "labels": {"team": team},
        "annotations": {"scheduling.k8s.io/group-name": name},
    }
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def in_a_cycle(world: World, folder: Path, documents: list[dict[str, Any]]) -> dict[str, str]:
    """Where one cycle over the cluster's nodes and these objects puts the pods."""
    nodes = world.bed.call("GET", "/api/v1/nodes")["items"]
    mine = [{"apiVersion": "v1", "kind": "Node", **n} for n in nodes if n["metadata"]["name"] in world.nodes]
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "default"},
        "spec": {"weight": 1},
    }
    (folder / "objects.yaml").write_text(yaml.safe_dump_all([*mine, queue, *documents]))
    flags = [f"--conf={folder / 'teams.conf'}", f"--plugins-dir={folder / 'plugins'}", "-o", "json"]
    command = [str(PUMICE), "cycle", str(folder / "objects.yaml"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {name.rpartition("/")[2]: node for name, node in json.loads(done.stdout)["binds"].items()}


def extender(url: str, **more: Any) -> dict[str, Any]:
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
    return {"urlPrefix": url, **verbs, "weight": 1, "nodeCacheCapable": True, "httpTimeout": "5s", **more}


def told_why(world: World, name: str) -> str:
    conditions = world.pods()[name]["status"].get("conditions", [])
    return " ".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False")


def test_kube_scheduler_places_pods_as_the_policy_does_in_a_cycle(
    world: World, tmp_path: Path, teams: tuple[str, ...]
) -> None:
    for i, rank in enumerate(("3", "7", "5")):
        world.node(f"n{i}", rank=rank)
    names = [f"p-{i}" for i in range(7)]
    documents = [made for name in names for made in (group(world, name), pod(world, name, "asks"))]
    decided = in_a_cycle(world, tmp_path, documents)
    assert list(decided.values()) == ["n1", "n1", "n2", "n2", "n0", "n0"]
    follow = f"--kubeconfig={world.bed.extender}"
    with (
        served(tmp_path, *teams, follow) as policy,
        kube_scheduler(world.bed, tmp_path, "asks", extender(policy.url, bindVerb="bind")),
    ):
        for name in sorted(decided):
            world.bed.create(pod(world, name, "asks"))
            all_bound(world, name)
        world.bed.create(pod(world, "p-6", "asks"))
        until(lambda: "team red has enough here" in told_why(world, "p-6"), 40, "the last pod is told why")
        assert world.bound() == decided
        assert policy.answered("bind") == len(decided)
        assert policy.answered("batchPredicate") >= len(names)
        world.delete("p-2")
        all_bound(world, "p-6")
        assert world.bound()["p-6"] == "n2"
        assert "forbidden" not in policy.log.lower()


def test_kube_scheduler_goes_on_without_an_ignorable_extender_that_is_gone(
    world: World, tmp_path: Path, teams: tuple[str, ...]
) -> None:
    world.node("n1", rank="1")
    with served(tmp_path, *teams, "--follow", f"--kubeconfig={world.bed.extender}") as policy:
        page = (ROOT / "docs" / "extender.md").read_text()
        (block,) = re.findall(r"```yaml\n(apiVersion: kubescheduler.*?)```", page, re.DOTALL)
        (asked,) = yaml.safe_load(block.replace("http://127.0.0.1:8888", policy.url))["extenders"]
        with kube_scheduler(world.bed, tmp_path, "ignores", asked):
            for i in range(2):
                world.bed.create(pod(world, f"p-{i}", "ignores"))
            all_bound(world, "p-0", "p-1")
            policy.kill()
            world.bed.create(pod(world, "p-2", "ignores"))
            all_bound(world, "p-2")
    assert set(world.bound().values()) == {"n1"}


def test_without_ignorable_pods_wait_until_the_extender_is_there(
    world: World, tmp_path: Path, teams: tuple[str, ...]
) -> None:
    world.node("n1", rank="1")
    follow = f"--kubeconfig={world.bed.extender}"
    with served(tmp_path, *teams, follow) as first:
        port = first.port
    with kube_scheduler(world.bed, tmp_path, "waits", extender(f"http://127.0.0.1:{port}")) as log:
        world.bed.create(pod(world, "p-0", "waits"))
        until(lambda: "connection refused" in log.read_text(), 40, "kube-scheduler misses its extender")
        assert world.bound() == {}
        with served(tmp_path, *teams, follow, port=port):
            all_bound(world, "p-0")


def test_names_without_a_cluster_to_look_them_up_in_are_an_error(
    world: World, tmp_path: Path, teams: tuple[str, ...]
) -> None:
    world.node("n1", rank="1")
    with served(tmp_path, *teams) as policy:
        with kube_scheduler(world.bed, tmp_path, "names", extender(policy.url)) as log:
            world.bed.create(pod(world, "p-0", "names"))
            until(lambda: "409" in log.read_text(), 40, "the question is refused")
        assert world.bound() == {}


def test_our_scheduler_follows_a_kube_style_and_a_volcano_style_extender_at_once(
    world: World, tmp_path: Path, teams: tuple[str, ...]
) -> None:
    for name, price in (("n0", "5"), ("n1", "1"), ("n2", "9")):
        world.node(name, price=price)
    (tmp_path / "prices.py").write_text(PRICES)
    with (
        served(tmp_path, *teams, "--dialect=kube", f"--kubeconfig={world.bed.extender}") as kube_style,
        served(tmp_path, str(tmp_path / "prices.py"), "--dialect=volcano") as volcano_style,
    ):
        conf = tmp_path / "both.conf"
        conf.write_text(BOTH % (kube_style.url, volcano_style.url))
        scheduler = world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
        for name, where in [(f"p-{i}", n) for i, n in enumerate(("n1", "n1", "n0", "n0", "n2", "n2"))]:
            world.bed.create(group(world, name))
            world.bed.create(pod(world, name, "pumice"))
            all_bound(world, name)
            assert world.bound()[name] == where
        assert kube_style.answered("bind") == 6
        assert volcano_style.answered("prioritize") >= 6
        assert "was not bound" not in scheduler.log


class Binding:
    """A service in Volcano's form that binds: it refuses, then lies, then binds and hangs up, then behaves."""

    def __init__(self, bed: Bed) -> None:
        self.calls: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                task, node = asked["task"], asked["node"]["name"]
                outer.calls.append(task["name"])
                n = len(outer.calls)
                answer: dict[str, str] = {"errorMessage": "come back later"} if n == 1 else {}
                if n > 2:
                    path = f"/api/v1/namespaces/{task['namespace']}/pods/{task['name']}/binding"
                    body = {"metadata": {"name": task["name"]}, "target": {"kind": "Node", "name": node}}
                    try:
                        bed.call("POST", path, body)
                    except Refusal as no:
                        answer = {"errorMessage": str(no)}
                if n == 3:
                    self.close_connection = True
                    return
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def binding(bed: Bed) -> Iterator[Binding]:
    made = Binding(bed)
    yield made
    made.close()


def test_a_bind_that_an_extender_refuses_or_only_claims_is_tried_again_and_a_lost_answer_is_looked_up(
    world: World, tmp_path: Path, binding: Binding
) -> None:
    world.node("n1", cpu="2")
    conf = tmp_path / "binds.conf"
    conf.write_text(BINDS % binding.url)
    scheduler = world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    world.gang("a", 1)
    all_bound(world, "a-0")
    until(lambda: len(binding.calls) == 3, 10, "the third bind was asked")
    world.gang("b", 1)
    all_bound(world, "b-0")
    assert binding.calls == ["a-0", "a-0", "a-0", "b-0"]
    assert "come back later" in scheduler.log
    assert "the pod has no node" in scheduler.log
    assert scheduler.log.count("was not bound") == 2
