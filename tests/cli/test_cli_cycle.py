"""``cycle``, ``why`` and ``status`` on the demo cluster."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import DEMO, DEMO_CONF, ROOT, Pumice

from pumice import saved
from pumice.cli import cycle, status
from pumice.cli.options import load_conf
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.scheduler.recording import record
from pumice.state.cluster import ClusterState
from pumice.testing.scenario import Scenario


def test_the_demo_places_whole_gangs_and_explains_the_rest(pumice: Pumice) -> None:
    data = pumice("cycle", DEMO, "--conf", DEMO_CONF, "-o", "json").data
    jobs = {pod.rsplit("-", 2)[0] for pod in data["binds"]}
    assert jobs == {"research/bert", "vision/detector", "platform/etl", "platform/report"}
    assert {node for pod, node in data["binds"].items() if "detector" in pod} == {"h100-1", "h100-2"}
    assert {why["job"]: why["stage"] for why in data["waiting"]} == {
        "research/llama": "nodes",
        "research/probe": "valid",
        "vision/segmenter": "nodes",
        "vision/sweep": "queue",
        "platform/cleanup": "absent",
    }
    assert data["evictions"] == []
    assert data["errors"] == []


def test_the_demo_reads_well(pumice: Pumice) -> None:
    ran = pumice("cycle", DEMO, "--conf", DEMO_CONF)
    assert "Placed: 10 pods of 4 jobs" in ran.out
    assert "Waiting: 5 jobs" in ran.out
    assert "2 of 3 pods have a node" in ran.out
    assert "→ 1 more nvidia.com/gpu on a100-2, for the task that has no node yet" in ran.out
    assert "h100-1 and 1 other would fit but for this: node(s) had untolerated taint {dedicated: h100}" in ran.out
    assert "→ put it into queue 'platform', or create queue 'platfrom'" in ran.out
    assert ran.err == ""
    assert not any(line.endswith(" ") for line in ran.out.splitlines())


def test_a_terminal_explains_some_of_many_pending_jobs(pumice: Pumice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "EXPLAINED", 2)
    assert "more (-o json has all)" in pumice("cycle", DEMO, "--conf", DEMO_CONF).out


def test_explain_names_the_place_the_reasons_and_the_nearest_miss(pumice: Pumice, saved_demo: Path) -> None:
    why = pumice("why", "llama", saved_demo, "-o", "json").data["explanation"]
    assert (why["job"], why["stage"], why["position"], why["waiting"]) == ("research/llama", "nodes", 1, 2)
    assert sum(r["nodes"] for r in why["reasons"]) >= 8
    assert {r["text"]: r["nodes"] for r in why["reasons"]}["Insufficient nvidia.com/gpu"] == 8
    assert why["nearest"] == {"node": "a100-2", "lacks": {"nvidia.com/gpu": "1"}, "objection": ""}
    assert why["room_for"] == 2
    out = pumice("why", "research/llama", saved_demo, "--all").out
    assert "position 1 of 2 in queue research" in out
    assert "a100-2, short of 1 nvidia.com/gpu" in out


def test_explain_says_so_when_a_job_was_served(pumice: Pumice) -> None:
    why = pumice("why", "bert", DEMO, "--conf", DEMO_CONF, "-o", "json").data["explanation"]
    assert (why["stage"], why["unblock"]) == ("served", [])


def test_a_saved_cycle_is_replayed_to_the_same_decisions(pumice: Pumice, saved_demo: Path) -> None:
    assert pumice("cycle", saved_demo).out.endswith("\nSame as saved: 10 decisions\n")
    data = pumice("cycle", saved_demo, "-o", "json").data
    assert data["same"] is True
    assert data["saved"] == data["now"]


def test_a_replay_with_another_conf_shows_who_fares_differently(
    pumice: Pumice, saved_demo: Path, tmp_path: Path
) -> None:
    conf = tmp_path / "other.conf"
    conf.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    changes = {c["pod"]: c for c in pumice("cycle", saved_demo, "--conf", conf, "-o", "json").data["differences"]}
    assert changes["vision/segmenter-worker-0"]["then"] == "waits"
    assert changes["vision/segmenter-worker-0"]["now"].startswith("on ")
    assert "vision/segmenter-worker-0" in pumice("cycle", saved_demo, "--conf", conf).out


def test_a_redacted_cycle_tells_no_names_and_decides_the_same(pumice: Pumice, tmp_path: Path) -> None:
    plain, redacted = tmp_path / "plain.cycle", tmp_path / "redacted.cycle"
    pumice("cycle", DEMO, "--conf", DEMO_CONF, "--save", plain)
    pumice("cycle", DEMO, "--conf", DEMO_CONF, "--save", redacted, "--redact")
    assert pumice("cycle", redacted).out.endswith("\nSame as saved: 10 decisions\n")
    then = pumice("cycle", plain, "-o", "json").data["now"]
    now = pumice("cycle", redacted, "-o", "json").data["now"]
    assert [(d["do"], d["node"]) for d in then] == [(d["do"], d["node"]) for d in now]
    listed = pumice("status", "--from", redacted).out + pumice("status", "queue", "--from", redacted).out
    for name in ("research", "vision", "platform", "llama", "bert", "segmenter", "detector"):
        assert name not in listed


def test_that_a_redacted_cycle_decides_otherwise_is_said(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "vip.py").write_text(
        "from pumice import Plugin, Unfit\n\n\nclass Vip(Plugin):\n    name = 'vip'\n\n"
        "    def predicate(self, task, node):\n"
        "        if not task.name.startswith('report'):\n            raise Unfit('no')\n"
    )
    conf = tmp_path / "vip.conf"
    conf.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: gang}, {name: vip}]\n')
    given = ("cycle", DEMO, "--conf", conf, "--plugins-dir", tmp_path / "policies", "--save", tmp_path / "x.cycle")
    assert "decides otherwise" not in pumice(*given).err
    assert "without names, a replay decides otherwise" in pumice(*given, "--redact").err


def test_jobs_are_listed_with_age_place_and_reason(pumice: Pumice) -> None:
    rows = {row["job"]: row for row in pumice("status", "--from", DEMO, "--conf", DEMO_CONF, "-o", "json").data}
    serving, llama = rows["platform/serving"], rows["research/llama"]
    assert (serving["state"], serving["pods"], serving["needs"], serving["counts"]) == ("Running", 4, 3, {"Running": 4})
    assert (serving["created"], serving["nodes"]) == ("2026-01-05T08:05:00Z", {"a100-1": 3, "a100-2": 1})
    assert (llama["place"], llama["reason"], llama["asks"]["nvidia.com/gpu"]) == (1, "NoNodeFits", 24)
    out = pumice("status", "--from", DEMO, "--conf", DEMO_CONF).out
    assert out.split("\n")[0].split() == ["JOB", "QUEUE", "STATE", "AGE", "PODS", "ASKS", "PLACE", "WHY"]
    assert "a100-1 ×3, a100-2" in out
    assert "position 1" in out


def test_the_wide_list_of_jobs_has_the_columns_of_vcctl(pumice: Pumice) -> None:
    titles = pumice("status", "--from", DEMO, "-o", "wide").out.split("\n")[0].split()
    assert titles[8:] == [
        *("CREATED", "PRIORITY", "MIN", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN", "TYPE", "RETRIES"),
    ]


def test_a_list_is_sorted_named_and_written_as_yaml(pumice: Pumice) -> None:
    oldest = pumice("status", "--from", DEMO, "--sort", "-age", "-o", "name").out.splitlines()
    assert oldest[0] == "job/platform/serving"
    assert oldest == list(reversed(pumice("status", "--from", DEMO, "--sort", "age", "-o", "name").out.splitlines()))
    assert (
        "--sort 'size': must be one of job, queue, state"
        in pumice("status", "--from", DEMO, "--sort", "size", code=2).err
    )
    as_yaml, as_json = (pumice("status", "queue", "--from", DEMO, "-o", form).out for form in ("yaml", "json"))
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_nodes_are_listed_by_state_and_shown_with_their_jobs(pumice: Pumice) -> None:
    out = pumice("status", "node", "--from", DEMO, "--conf", DEMO_CONF).out
    assert out.startswith("8 nodes  8 Ready\n")
    assert "7/8 gpu" in out
    node = pumice("status", "node", "a100-1", "--from", DEMO, "--conf", DEMO_CONF, "-o", "json").data
    assert (node["state"], node["pods"]) == ("Ready", 9)
    assert node["jobs"] == {"platform/serving": 3, "platform/etl": 2, "research/bert": 4}
    assert "no node named 'a100-9'" in pumice("status", "node", "a100-9", "--from", DEMO, code=1).err


def test_a_watched_list_is_printed_again_and_again(monkeypatch: pytest.MonkeyPatch, pumice: Pumice) -> None:
    looks = iter([None, KeyboardInterrupt])

    def sleep(seconds: float) -> None:
        assert seconds == status.EVERY
        if (end := next(looks)) is not None:
            raise end

    monkeypatch.setattr(time, "sleep", sleep)
    with contextlib.suppress(KeyboardInterrupt):
        assert pumice("status", "--from", DEMO, "--watch", code=None).out.count("platform/serving") == 2


@pytest.mark.parametrize(("option", "value"), [("--queue", "vision"), ("--namespace", "vision")])
def test_jobs_are_listed_by_queue_and_namespace(pumice: Pumice, option: str, value: str) -> None:
    rows = pumice("status", "--from", DEMO, option, value, "-o", "json").data
    names = {row["job"].removeprefix("vision/") for row in rows}
    assert names == {"detector", "segmenter", "sweep"}


def test_a_job_is_shown_with_its_tasks(pumice: Pumice, saved_demo: Path) -> None:
    tasks = pumice("status", "job", "serving", "--from", saved_demo, "-o", "json").data["tasks"]
    assert [task["node"] for task in tasks] == ["a100-1", "a100-1", "a100-1", "a100-2"]
    assert "serving-replica-3" in pumice("status", "job", "serving", "--from", saved_demo).out


def test_queues_are_listed_with_what_they_hold_deserve_and_ask_for(pumice: Pumice) -> None:
    rows = {queue["queue"]: queue for queue in pumice("status", "queue", "--from", DEMO, "-o", "json").data}
    assert (rows["platform"]["weight"], rows["platform"]["state"], rows["vision"]["waiting"]) == (1, "Open", 2)
    out = pumice("status", "queue", "--from", DEMO, "--conf", DEMO_CONF, "-o", "wide").out
    assert out.split("\n")[0].split("  ")[0] == "QUEUE"
    assert "HOLDS   DESERVES   AT MOST   PENDING   JOBS WAIT   WEIGHT   STATE   PARENT   JOBS" in out


def test_a_queue_is_shown_with_what_it_holds_deserves_and_may_hold(pumice: Pumice) -> None:
    vision = pumice("status", "queue", "vision", "--from", DEMO, "--conf", DEMO_CONF, "-o", "json").data
    [gpus] = [share for share in vision["shares"] if share["resource"] == "nvidia.com/gpu"]
    assert (gpus["allocated"], gpus["asked"], gpus["capability"]) == (12, 14, 20)
    assert gpus["deserved"] == pytest.approx(14.667, abs=0.001)
    [limit] = pumice("why", "vision/sweep", DEMO, "--conf", DEMO_CONF, "-o", "json").data["explanation"]["limits"]
    assert (limit["holds"], limit["may_have"]) == (12, gpus["deserved"])
    out = pumice("status", "queue", "vision", "--from", DEMO, "--conf", DEMO_CONF).out
    assert "nvidia.com/gpu   12      14.667     20        14        -" in out


def test_a_queue_that_no_plugin_shares_out_deserves_what_it_says(pumice: Pumice, tmp_path: Path) -> None:
    conf = tmp_path / "plain.conf"
    conf.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    vision = pumice("status", "queue", "vision", "--from", DEMO, "--conf", conf, "-o", "json").data
    assert {share["deserved"] for share in vision["shares"]} == {None}


def test_a_job_name_that_two_namespaces_have_must_be_given_in_full(pumice: Pumice, tmp_path: Path) -> None:
    groups = [f"kind: PodGroup\nmetadata: {{name: train, namespace: {n}}}\n" for n in ("a", "b")]
    (tmp_path / "groups.yaml").write_text("---\n".join(groups))
    assert "must say which one, a/train or b/train" in pumice("status", "job", "train", "--from", tmp_path, code=1).err


def test_json_manifests_and_lists_are_read(pumice: Pumice, tmp_path: Path) -> None:
    text = '{"kind": "NodeList", "items": [{"metadata": {"name": "n1"}}]}'
    (tmp_path / "nodes.json").write_text(text)
    items = "- {kind: Queue, metadata: {name: q1}, spec: {weight: 3}}"
    (tmp_path / "queues.yaml").write_text(f"kind: List\nitems:\n{items}\n")
    default, row = pumice("status", "queue", "--from", tmp_path, "-o", "json").data
    assert (default["queue"], default["state"]) == ("default", "Open")  # there as in every cluster
    assert (row["queue"], row["weight"]) == ("q1", 3)


def test_a_pod_without_namespace_and_status_is_a_new_one_in_default(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        "{kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 10}}}\n---\n"
        "{kind: PodGroup, metadata: {name: g}, spec: {minMember: 1}}\n---\n"
        "kind: Pod\nmetadata: {name: p, annotations: {scheduling.k8s.io/group-name: g}}\n"
        "spec: {schedulerName: pumice, containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n"
    )
    assert pumice("cycle", tmp_path, "-o", "json").data["binds"] == {"default/p": "n1"}


GUIDE_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: resource-affinity, arguments: {prefer-weight: 10}}]
"""


def test_the_job_of_the_plugin_guide_is_expanded_and_goes_where_it_prefers(pumice: Pumice, tmp_path: Path) -> None:
    nodes = [
        f"{{kind: Node, metadata: {{name: {name}-{n}, labels: {{volcano.sh/node-group: {name}}}}}, "
        "status: {allocatable: {cpu: 16, memory: 64Gi, pods: 110}}}"
        for name in ("cpu", "gpu-a100")
        for n in range(2)
    ]
    (tmp_path / "nodes.yaml").write_text("\n---\n".join(nodes))
    (tmp_path / "guide.conf").write_text(GUIDE_CONF)
    job, plugins = ROOT / "examples" / "scenarios" / "guide-job.yaml", ROOT / "examples" / "plugins"
    ran = pumice(
        "cycle", tmp_path / "nodes.yaml", job, "--conf", tmp_path / "guide.conf", "--plugins-dir", plugins, "-o", "json"
    )
    assert list(ran.data["binds"]) == ["default/test-job-worker-0", "default/test-job-worker-1"]
    assert all(node.startswith("gpu-a100-") for node in ran.data["binds"].values())


@pytest.mark.parametrize("count", [2**31 - 1, -1])
@pytest.mark.parametrize(
    "job",
    [
        "apiVersion: batch/v1\nkind: Job\nspec: {parallelism: COUNT, template: {spec: {containers: []}}}\n",
        "apiVersion: batch/v1\nkind: Job\nspec: {completions: COUNT, template: {spec: {containers: []}}}\n",
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: [{replicas: COUNT, template: {}}]}\n",
    ],
)
def test_a_job_of_more_pods_than_any_cluster_runs_is_refused(
    pumice: Pumice, tmp_path: Path, job: str, count: int
) -> None:
    (tmp_path / "job.yaml").write_text(job.replace("COUNT", str(count)) + "metadata: {name: big, namespace: ns}\n")
    ran = pumice("cycle", tmp_path / "job.yaml", code=1)
    assert f"Job 'big': must have from 0 to 200000 pods, got {count}" in ran.err


def test_a_job_whose_pods_are_there_is_not_expanded_once_more(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: ns}\n"
        "spec: {parallelism: 3, template: {spec: {containers: [{name: c}]}}}\n---\n"
        "kind: Pod\nmetadata: {name: j-x7k2p, namespace: ns, labels: {batch.kubernetes.io/job-name: j}}\n"
        "spec: {containers: [{name: c}]}\n---\n"
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: k, namespace: ns}\n"
        "spec: {parallelism: 2, completions: 9, template: {spec: {containers: [{name: c}]}}}\n"
    )
    rows = pumice("status", "--from", tmp_path, "-o", "json").data
    assert {row["job"]: row["counts"]["Pending"] for row in rows if row["job"] != "ns/j"} == {"ns/k": 2}


@pytest.mark.parametrize("command", [("cycle",), ("why", "default/j"), ("status", "--from")])
@pytest.mark.part(9)
def test_a_saved_cycle_opens_no_connection_and_reads_no_token(
    pumice: Pumice, tmp_path: Path, command: tuple[str, ...]
) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        token = tmp_path / "token"
        token.write_text("a secret of whoever runs the replay")
        conf = tmp_path / "conf.yaml"
        conf.write_text(
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: extender\n    arguments:\n"
            f"      extender.urlPrefix: {url}\n      extender.predicateVerb: predicate\n"
            f"      extender.tokenFile: {token}\n      extender.httpTimeout: 200ms\n"
        )
        scenario = Scenario()
        scenario.node("n0", cpu=8).job("j", cpu=1)
        registry = Registry()
        cycle = record(scenario.state, load_conf(conf, registry), Runtime())
        saved.write(tmp_path / "strange.cycle", cycle, "test")

        def accept() -> None:
            with contextlib.suppress(OSError):
                peer, _ = server.accept()
                asked.append(peer.recv(100))

        server.settimeout(1.0)
        waiting = threading.Thread(target=accept)
        waiting.start()
        pumice(*command, tmp_path / "strange.cycle")
        waiting.join()
    assert asked == []


@pytest.mark.parametrize(
    "words",
    [
        ("cycle",),
        ("why", "llama"),
        ("status", "queue", "research", "--from"),
        ("status", "queue", "--from"),
        ("status", "--from"),
        ("status", "job", "llama", "--from"),
    ],
    ids=" ".join,
)
def test_a_question_reads_the_cluster_once(
    pumice: Pumice, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    states: list[ClusterState] = []
    make = ClusterState.__init__

    def made(self: ClusterState, *args: Any, **kwargs: Any) -> None:
        states.append(self)
        make(self, *args, **kwargs)

    monkeypatch.setattr(ClusterState, "__init__", made)
    pumice(*words, DEMO, "--conf", DEMO_CONF)
    assert sum("h100-1" in state.nodes for state in states) == 1
