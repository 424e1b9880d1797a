"""The server over a real socket: every verb in every dialect, what is missing, what is refused."""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extender_questions import answered, ask
from extender_serving import Serving
from extender_world import cluster, group, node, pod, queue

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope, scope
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.policies import PolicyServer
from pumice.extender.asking.calls import QuestionWriter
from pumice.extender.dialects import DIALECTS
from pumice.extender.server import Options, app
from pumice.framework.plugin import Event, EventHandler, Plugin
from pumice.framework.registry import build, default_registry
from pumice.framework.session.session import Session
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Unfit, Verdict, reject
from pumice.model.status import TaskStatus
from pumice.model.task import Task

CAPTURES = Path(__file__).parents[1] / "golden" / "extender" / "volcano-captures"
OBJECT_DIALECTS = ["documented", "volcano"]
ALL = ["documented", "volcano", "kube"]


class Everything(Plugin):
    """Answers at every point that a verb carries, from what the call tells."""

    name = "everything"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_event_handler(EventHandler(allocate=self.placed))
        ssn.register_binder("everything", self)

    def predicate(self, task: Task, node: Node) -> None:
        if node.labels.get("rack") != "a":
            raise Unfit("wrong rack", unresolvable=True)

    def node_order(self, task: Task, node: Node) -> float:
        return float(node.allocatable["cpu"])

    def best_node(self, task: Task, scores: dict[str, float]) -> str:
        return min(scores)

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float:
        return float(gpu) * 2

    def preemptable(self, evictor: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.labels.get("keep") != "yes"]

    reclaimable = preemptable

    def victim_tasks(self, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.labels.get("keep") != "yes"]

    def job_enqueueable(self, job: Job) -> int:
        return -1 if job.annotations.get("wish") == "no" else 1

    job_pipelined = job_enqueueable

    def job_ready(self, job: Job) -> bool:
        return len(job.tasks) >= job.min_available

    def job_valid(self, job: Job) -> Verdict | bool:
        return reject("not today", "Closed") if job.annotations.get("wish") == "no" else True

    def overused(self, queue: Queue) -> bool:
        return queue.weight > 3

    def allocatable(self, queue: Queue, task: Task) -> bool:
        return queue.weight <= 3

    def job_order(self, left: Job, right: Job) -> int:
        return right.priority - left.priority

    def task_order(self, left: Task, right: Task) -> int:
        return right.priority - left.priority

    def queue_order(self, left: Queue, right: Queue) -> int:
        return right.weight - left.weight

    def placed(self, event: Event) -> None:
        if event.task.node_name == "n2":
            event.err = "n2 is taken"

    def wants(self, task: Task) -> bool:
        return True

    def bind(self, intent: Bind) -> None:
        if intent.node != "n1":
            raise RuntimeError("only n1")


STATE = cluster(
    [node("n1", gpu=3, labels={"rack": "a"}), node("n2", cpu=4, labels={"rack": "b"})],
    [
        pod("w-0", priority=5),
        pod("w-1", "old", on="n1"),
        pod("w-2", "old", on="n1", labels={"keep": "yes"}, priority=9),
    ],
    [group(members=1), group("old", notes={"wish": "no"})],
    [queue(weight=9), queue("small", weight=1)],
)
W0, W1, W2 = (STATE.tasks[f"uid-w-{n}"] for n in range(3))
NODES = [STATE.nodes[name] for name in ("n1", "n2")]
JOBS = {job.name: job for job in STATE.jobs.values()}
QUEUES = dict(STATE.queues)


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving(app([Everything])) as running:
        yield running


def _ask(serving: Serving, dialect: str, verb: p.Verb[Any], *things: Any, path: str = "") -> Any:
    status, answer = serving.post(path or verb.name, ask(dialect, verb, *things))
    assert status == 200, answer
    return answered(dialect, verb, answer)


QUESTIONS: list[tuple[p.Verb[Any], tuple[Any, ...], Any]] = [
    (p.PREDICATE, (W0, NODES[0]), ("", 0)),
    (p.PREDICATE, (W0, NODES[1]), ("wrong rack", 3)),
    (p.BATCH_PREDICATE, (W0, NODES), {"n2": (3, "wrong rack")}),
    (p.PRIORITIZE, (W0, NODES), {"n1": 8, "n2": 4}),
    (p.BEST_NODE, (W0, {"n2": 3, "n1": 1}), "n1"),
    (p.GPU_ORDER, (W0, NODES[0], NODES[0]), {"0": 0, "1": 2, "2": 4}),
    (p.PREEMPTABLE, (W0, [W1, W2]), (1, ["uid-w-1"])),
    (p.RECLAIMABLE, (W0, [W2]), (1, [])),
    (p.VICTIM_TASKS, ([W1, W2],), (1, ["uid-w-1"])),
    (p.JOB_ENQUEUEABLE, (JOBS["train"],), 1),
    (p.JOB_ENQUEUEABLE, (JOBS["old"],), -1),
    (p.JOB_PIPELINED, (JOBS["old"],), -1),
    (p.JOB_ENQUEUED, (JOBS["old"],), None),
    (p.JOB_READY, (JOBS["old"],), (True, "")),
    (p.JOB_VALID, (JOBS["old"],), (False, "not today")),
    (p.QUEUE_OVERUSED, (QUEUES["research"],), True),
    (p.QUEUE_OVERUSED, (QUEUES["small"],), False),
    (p.ALLOCATABLE, (QUEUES["research"], W0), (False, "")),
    (p.JOB_ORDER, (list(JOBS.values()),), {"ml/train": 0, "ml/old": 0}),
    (p.TASK_ORDER, ([W0, W1, W2],), {"uid-w-2": 0, "uid-w-0": 1, "uid-w-1": 2}),
    (p.QUEUE_ORDER, (list(QUEUES.values()),), {"research": 0, "small": 1}),
    (p.BIND, (W0, NODES[0]), ""),
    (p.BIND, (W0, NODES[1]), "RuntimeError: only n1"),
    (p.ON_SESSION_OPEN, (STATE,), None),
    (p.ALLOCATE_FUNC, (W1,), ""),
    (p.DEALLOCATE_FUNC, (W1,), ""),
    (p.ON_SESSION_CLOSE, (), None),
]


def _meaning(things: tuple[Any, ...], answer: Any) -> Any:
    """The part of an answer that a test looks at."""
    match answer:
        case a.NodeRefusal():
            return answer.text, answer.code
        case a.NodeRefusals():
            return answer.refused([one.name for one in things[1]])
        case a.Scores() | a.GpuScores():
            return answer.scores
        case a.BestNode():
            return answer.node_name
        case a.Victims():
            return answer.status, answer.uids
        case a.Vote():
            return answer.status
        case a.VerdictAnswer():
            return answer.status, answer.message
        case a.Overused():
            return answer.overused
        case a.Ranks():
            return answer.ranks
        case a.Error():
            return answer.error
        case _:
            return None


def test_every_verb_but_kube_schedulers_own_is_asked() -> None:
    assert {verb.name for verb, *_ in QUESTIONS} == set(p.ASKED)


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
@pytest.mark.parametrize(
    ("verb", "things", "expected"), QUESTIONS, ids=[f"{n}-{verb}" for n, (verb, *_) in enumerate(QUESTIONS)]
)
def test_a_policy_answers_every_verb_in_the_dialect_of_the_question(
    serving: Serving, dialect: str, verb: p.Verb[Any], things: tuple[Any, ...], expected: Any
) -> None:
    assert _meaning(things, _ask(serving, dialect, verb, *things)) == expected


@pytest.mark.parametrize("names_only", [False, True])
def test_kube_scheduler_filters_scores_preempts_and_binds(serving: Serving, names_only: bool) -> None:
    _ask(serving, "documented", p.ON_SESSION_OPEN, STATE)
    writer = QuestionWriter("kube", names_only=names_only)
    rows = NodeRows(STATE.table, np.arange(2))

    def asks(verb: p.Verb[Any], body: bytes, path: str = "") -> Any:
        status, answer = serving.post(path or verb.name, body)
        assert status == 200, answer
        return answered("kube", verb, answer)

    for path in ("filter", "predicate", "batchPredicate"):
        body = b"".join(writer.nodes(p.BATCH_PREDICATE, W0, rows))
        assert asks(p.BATCH_PREDICATE, body, path).fitting == ["n1"]
        whole = serving.post(path, body)[1]["Nodes"]
        assert (whole is None) is names_only
        assert names_only or whole["items"] == [json.loads(body)["Nodes"]["items"][0]]
    assert asks(p.PRIORITIZE, b"".join(writer.nodes(p.PRIORITIZE, W0, rows))).scores == {"n1": 8, "n2": 4}
    for evictees, nodes in (([W1], ["n1"]), ([W1, W2], [])):
        assert list(asks(p.PREEMPT, writer.question(p.PREEMPT, W0, evictees)).candidates) == nodes
    assert asks(p.BIND, writer.bind(Bind(W0.key, W0.uid, "n1"), None)).error == ""


def _captured() -> list[Any]:
    paths = [path for path in sorted(CAPTURES.glob("*.json")) if not path.stem.startswith(("cluster-", "failures-"))]
    return [pytest.param(path, id=path.stem) for path in paths]


@pytest.mark.parametrize("path", _captured())
def test_every_recorded_request_of_volcano_is_answered(serving: Serving, path: Path) -> None:
    capture = json.loads(path.read_text())
    status, answer = serving.post(capture["verb"], capture["request"])
    assert status == 200, answer
    answered("volcano", p.VERBS[capture["verb"]], answer)
    if capture["verb"] in ("preemptable", "reclaimable"):
        echoed = {task["UID"]: task for task in capture["request"]["evictees"] or ()}
        assert all(victim == echoed[victim["UID"]] for victim in answer["victims"] or ())


def test_allocations_are_applied_to_the_snapshot_and_objected_to() -> None:
    class Counting(Plugin):
        name = "counting"

        def predicate(self, task: Task, node: Node) -> None:
            raise Unfit(f"{len(node.tasks)} tasks, {node.used['cpu']} cores")

    served = PolicyServer([Counting])
    talks = DIALECTS["documented"]

    def asks(verb: p.Verb[Any], *parts: Any) -> Any:
        body = b"".join(talks.question(verb, [json.dumps(part).encode() for part in parts]))
        return answered("documented", verb, served.answer(verb, body))

    served.answer(p.ON_SESSION_OPEN, ask("documented", p.ON_SESSION_OPEN, STATE))
    by_name = {"uid": "uid-w-0", "namespace": "ml", "name": "w-0"}, {"name": "n1"}
    assert asks(p.PREDICATE, *by_name).text == "2 tasks, 2 cores"
    placed = talks.named_task("uid-w-0", "ml", "w-0", node="n1", status=TaskStatus.ALLOCATED.bit)
    assert asks(p.ALLOCATE_FUNC, placed).error == ""
    assert asks(p.PREDICATE, *by_name).text == "3 tasks, 3 cores"
    asks(p.DEALLOCATE_FUNC, talks.named_task("uid-w-0", "ml", "w-0"))
    assert asks(p.PREDICATE, *by_name).text == "2 tasks, 2 cores"


READS: dict[str, Any] = {
    "nodes": lambda ssn, task, node: len(ssn.nodes),
    "jobs": lambda ssn, task, node: len(ssn.jobs),
    "queues": lambda ssn, task, node: len(ssn.queues),
    "total": lambda ssn, task, node: ssn.total,
    "state": lambda ssn, task, node: ssn.state.total,
    "the task's job": lambda ssn, task, node: task.job.min_available,
}


@pytest.mark.parametrize("what", list(READS))
def test_reading_what_was_not_told_is_a_conflict_until_a_snapshot_comes(what: str) -> None:
    class Reading(Plugin):
        name = "reading"

        def on_session_open(self, ssn: Session) -> None:
            def predicate(task: Task, node: Node) -> None:
                READS[what](ssn, task, node)

            ssn.add_predicate_fn(self.name, predicate)

    with Serving(app([Reading])) as serving:
        body = ask("volcano", p.PREDICATE, W0, NODES[0])
        status, answer = serving.post("predicate", body)
        assert status == 409
        assert "not told" in answer["errorMessage"]
        assert serving.post("prioritize", ask("volcano", p.PRIORITIZE, W0, []))[0] == 200
        serving.post("onSessionOpen", ask("volcano", p.ON_SESSION_OPEN, STATE))
        assert serving.post("predicate", body) == (200, {"status": "", "code": 0})


@pytest.mark.parametrize("kind", ["HyperNode", "PersistentVolumeClaim", "PodDisruptionBudget"])
def test_kinds_that_no_snapshot_brings_are_a_conflict(kind: str) -> None:
    class Reading(Plugin):
        name = "reading"

        def on_session_open(self, ssn: Session) -> None:
            def predicate(task: Task, node: Node) -> None:
                assert ssn.hyper_nodes if kind == "HyperNode" else ssn.state.kind(kind)

            ssn.add_predicate_fn(self.name, predicate)

    with Serving(app([Reading])) as serving:
        body = ask("volcano", p.PREDICATE, W0, NODES[0])
        assert serving.post("predicate", body)[0] == 409
        serving.post("onSessionOpen", ask("volcano", p.ON_SESSION_OPEN, STATE))
        status, answer = serving.post("predicate", body)
        assert (status, kind in answer["errorMessage"]) == (409, True)


def test_what_kube_scheduler_never_tells_is_a_conflict_too() -> None:
    class Usage(Plugin):
        name = "usage"

        def node_order(self, task: Task, node: Node) -> float:
            return float(node.used["cpu"])

    with Serving(app([Usage])) as serving:
        assert serving.post("prioritize", ask("kube", p.PRIORITIZE, W0, NODES))[0] == 409
        body = ask("documented", p.PRIORITIZE, W0, NODES)
        assert serving.post("prioritize", body) == (200, {"nodeScore": {"n1": 2, "n2": 0}, "errorMessage": ""})


def test_a_verb_that_the_policy_does_not_implement_gets_the_neutral_answer() -> None:
    class Silent(Plugin):
        name = "silent"

    neutral = {
        p.PREDICATE: ("", 0),
        p.BATCH_PREDICATE: {},
        p.PRIORITIZE: {"n1": 0, "n2": 0},
        p.BEST_NODE: "",
        p.GPU_ORDER: {},
        p.PREEMPTABLE: (0, []),
        p.RECLAIMABLE: (0, []),
        p.VICTIM_TASKS: (1, []),
        p.JOB_ENQUEUEABLE: 0,
        p.JOB_PIPELINED: 0,
        p.JOB_READY: (True, ""),
        p.JOB_VALID: (True, ""),
        p.QUEUE_OVERUSED: False,
        p.ALLOCATABLE: (True, ""),
        p.JOB_ORDER: {},
        p.TASK_ORDER: {},
        p.QUEUE_ORDER: {},
        p.BIND: "no policy that is served here binds pods",
    }
    served = PolicyServer([Silent])
    for verb, things, _ in QUESTIONS:
        answer = answered("documented", verb, served.answer(verb, ask("documented", verb, *things)))
        assert _meaning(things, answer) == neutral.get(verb, _meaning(things, answer)), verb


@pytest.mark.parametrize("plugin", ["binpack", "nodeorder", "predicates", "priority", "gang", "conformance"])
def test_built_in_policies_can_be_served(plugin: str) -> None:
    info = default_registry().get(plugin)
    assert info is not None
    served = PolicyServer([lambda: build(info, {})])
    served.answer(p.ON_SESSION_OPEN, ask("volcano", p.ON_SESSION_OPEN, STATE))
    for verb, things, _ in QUESTIONS:
        answered("volcano", verb, served.answer(verb, ask("volcano", verb, *things)))


def test_a_policy_that_raises_answers_as_it_would_in_process() -> None:
    class Broken(Plugin):
        name = "broken"

        def predicate(self, task: Task, node: Node) -> None:
            raise KeyError("oops")

        def node_order(self, task: Task, node: Node) -> float:
            raise KeyError("oops")

    served = PolicyServer([Broken])
    body = ask("documented", p.PREDICATE, W0, NODES[0])
    logging.getLogger("pumice.framework").setLevel(logging.CRITICAL)
    try:
        answer = answered("documented", p.PREDICATE, served.answer(p.PREDICATE, body))
        assert answer.text == "plugin broken failed"
        body = ask("documented", p.PRIORITIZE, W0, NODES)
        assert answered("documented", p.PRIORITIZE, served.answer(p.PRIORITIZE, body)).scores == {"n1": 0, "n2": 0}
    finally:
        logging.getLogger("pumice.framework").setLevel(logging.NOTSET)


# -- HTTP -----------------------------------------------------------------------------------------------------------
def test_bad_questions_are_refused_with_a_message(serving: Serving) -> None:
    deep = b'{"task":' + b"[" * 200 + b"]" * 200 + b"}"
    for status, verb, body in (
        (400, "predicate", b"<<not json>>"),
        (400, "predicate", b""),
        (400, "predicate", b"[]"),
        (400, "predicate", {"task": {"namespace": 3}, "node": {"name": "n1"}}),
        (400, "predicate", {"task": {}}),
        (400, "predicate", deep),
        (400, "prioritize", {"task": {"name": "a"}, "nodes": [{}]}),
        (404, "nothing", {}),
    ):
        found, answer = serving.post(verb, body)
        assert found == status, (verb, body)
        assert answer["errorMessage"]
    assert serving.request("GET", "/predicate")[0] == 405


def test_questions_may_be_compressed_and_must_not_be_too_large() -> None:
    body = ask("documented", p.PREDICATE, W0, NODES[0])
    with Serving(app([Everything], Options(max_body=10_000))) as serving:
        packed = {"Content-Encoding": "gzip"}
        assert serving.post("predicate", gzip.compress(body), packed)[0] == 200
        assert serving.post("predicate", b"no gzip", packed)[0] == 400
        assert serving.post("predicate", gzip.compress(b" " * 20_000), packed)[0] == 413
        assert serving.post("predicate", b" " * 20_000)[0] == 413
        assert serving.post("predicate", body, {"Content-Encoding": "br"})[0] == 415


def test_the_token_is_asked_for_and_read_again_when_its_file_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    body = ask("documented", p.PREDICATE, W0, NODES[0])
    with Serving(app([Everything], Options(token_file=token))) as serving:
        assert serving.post("predicate", body)[0] == 401
        assert serving.post("predicate", body, {"Authorization": "Bearer guess"})[0] == 401
        assert serving.post("predicate", body, {"Authorization": "Bearer secret"})[0] == 200
        token.write_text("changed")
        assert serving.post("predicate", body, {"Authorization": "Bearer secret"})[0] == 401
        assert serving.post("predicate", body, {"Authorization": "Bearer changed"})[0] == 200
        assert serving.request("GET", "/healthz")[0] == 200


def test_verbs_may_have_other_paths() -> None:
    body = ask("documented", p.PREDICATE, W0, NODES[0])
    with Serving(app([Everything], Options(paths={"predicate": "customFilter"}))) as serving:
        assert serving.post("customFilter", body)[0] == 200
        assert serving.post("predicate", body)[0] == 404


def test_only_one_dialect_is_understood_when_told_so() -> None:
    with Serving(app([Everything], Options(dialect="documented"))) as serving:
        good = ask("documented", p.PREDICATE, W0, NODES[1])
        assert serving.post("predicate", good) == (200, {"code": 3, "errorMessage": "wrong rack"})
        assert serving.post("predicate", ask("volcano", p.PREDICATE, W0, NODES[1]))[0] == 400


def test_health_metrics_and_the_openapi_document_are_there(serving: Serving) -> None:
    assert serving.request("GET", "/healthz")[0] == 200
    assert serving.request("GET", "/readyz")[0] == 200
    _, text = serving.request("GET", "/metrics")
    assert b"pumice_extender_server_requests_total" in text
    _, document = serving.request("GET", "/openapi.json")
    assert document["openapi"].startswith("3.")
    described = {path.strip("/") for path in document["paths"]}
    assert described == set(p.VERBS) - {"preempt"}


def test_each_exchange_is_logged_as_one_line_of_json(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "pumice.extender.access"]

    with caplog.at_level(logging.INFO, "pumice.extender.access"):
        serving.post("queueOverused", {"queue": {"name": "q"}})
        until = time.monotonic() + 5
        while not lines() and time.monotonic() < until:  # it is written when the answer is on its way
            time.sleep(0.01)
    (line,) = lines()
    logged = json.loads(line)
    assert (logged["verb"], logged["status"]) == ("queueOverused", 200)
    assert logged["milliseconds"] > 0


def test_several_workers_need_points_that_depend_on_the_node_alone() -> None:
    class Careful(Plugin):
        name = "careful"

        @scope(Scope.NODE)
        def predicate(self, task: Task, node: Node) -> None:
            return None

    assert PolicyServer([Careful]).needs_one_worker() == []
    assert "job_ready" in PolicyServer([Everything]).needs_one_worker()
    assert "event handlers" in PolicyServer([Everything]).needs_one_worker()


def test_what_a_dialect_does_not_carry_is_named() -> None:
    class Gangs(Plugin):
        name = "gangs"

        def job_starving(self, job: Job) -> bool:
            return False

        def job_ready(self, job: Job) -> bool:
            return True

    assert PolicyServer([Gangs]).not_carried("volcano") == ["job_starving"]
    assert PolicyServer([Gangs]).not_carried("kube") == ["job_ready", "job_starving"]
