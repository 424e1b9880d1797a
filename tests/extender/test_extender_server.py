"""The server over a real socket: every verb in every dialect, what is missing, what is refused."""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from extender_serving import Serving
from extender_world import cluster, group, node, pod, queue

from pumice.engine.scope import Scope, scope
from pumice.extender import translate
from pumice.extender.server import Options, app
from pumice.extender.server.served import Served
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.objects import WireVictims
from pumice.framework.plugin import Event, EventHandler, Plugin
from pumice.framework.registry import build, default_registry
from pumice.framework.session.session import Session
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Unfit, Verdict, reject
from pumice.model.task import Task

CAPTURES = Path(__file__).parents[1] / "golden" / "extender" / "volcano-captures"
OBJECT_DIALECTS = ["both", "documented", "volcano"]
ALL = ["both", "documented", "volcano", "kube"]


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
TASKS = {task.name: translate.wire_task(task) for task in STATE.tasks.values()}
NODES = [translate.wire_node(STATE.nodes[name]) for name in ("n1", "n2")]
JOBS = {job.name: translate.wire_job(job) for job in STATE.jobs.values()}
QUEUES = {name: translate.wire_queue(one) for name, one in STATE.queues.items()}
W0, W1, W2 = TASKS["w-0"], TASKS["w-1"], TASKS["w-2"]
GPUS = [m.WireGpu(index=str(n)) for n in range(2)]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving(app([Everything])) as running:
        yield running


def _ask(serving: Serving, dialect: str, verb: v.Verb[Any, Any], request: Any, path: str = "") -> Any:
    talks = DIALECTS[dialect]
    status, answer = serving.post(path or verb.name, talks.encode_request(verb, request))
    assert status == 200, answer
    return talks.decode_response(verb, json.dumps(answer).encode())


QUESTIONS: list[tuple[v.Verb[Any, Any], Any, Any]] = [
    (v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[0]), ("", 0)),
    (v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[1]), ("wrong rack", 3)),
    (v.BATCH_PREDICATE, m.NodesRequest(task=W0, nodes=NODES), {"n2": (3, "wrong rack")}),
    (v.PRIORITIZE, m.NodesRequest(task=W0, nodes=NODES), {"n1": 8, "n2": 4}),
    (v.BEST_NODE, m.BestNodeRequest(task=W0, scores={"n2": 3, "n1": 1}), "n1"),
    (v.GPU_ORDER, m.GpuOrderRequest(task=W0, node=NODES[0], gpus=GPUS), {"0": 0, "1": 2}),
    (v.PREEMPTABLE, m.VictimsRequest(evictor=W0, evictees=[W1, W2]), (1, ["uid-w-1"])),
    (v.RECLAIMABLE, m.VictimsRequest(evictor=W0, evictees=[W2]), (1, [])),
    (v.VICTIM_TASKS, m.TasksRequest(tasks=[W1, W2]), (1, ["uid-w-1"])),
    (v.JOB_ENQUEUEABLE, m.JobRequest(job=JOBS["train"]), 1),
    (v.JOB_ENQUEUEABLE, m.JobRequest(job=JOBS["old"]), -1),
    (v.JOB_PIPELINED, m.JobRequest(job=JOBS["old"]), -1),
    (v.JOB_ENQUEUED, m.JobRequest(job=JOBS["old"]), None),
    (v.JOB_READY, m.JobRequest(job=JOBS["old"]), (True, "")),
    (v.JOB_VALID, m.JobRequest(job=JOBS["old"]), (False, "not today")),
    (v.QUEUE_OVERUSED, m.QueueRequest(queue=QUEUES["research"]), True),
    (v.QUEUE_OVERUSED, m.QueueRequest(queue=QUEUES["small"]), False),
    (v.ALLOCATABLE, m.AllocatableRequest(queue=QUEUES["research"], task=W0), (False, "")),
    (v.JOB_ORDER, m.JobsRequest(jobs=list(JOBS.values())), {"ml/train": 0, "ml/old": 0}),
    (v.TASK_ORDER, m.TasksRequest(tasks=[W0, W1, W2]), {"uid-w-2": 0, "uid-w-0": 1, "uid-w-1": 2}),
    (v.QUEUE_ORDER, m.QueuesRequest(queues=list(QUEUES.values())), {"research": 0, "small": 1}),
    (v.BIND, m.BindRequest(task=W0, node=NODES[0]), ""),
    (v.BIND, m.BindRequest(task=W0, node=NODES[1]), "RuntimeError: only n1"),
    (v.ON_SESSION_OPEN, m.SessionOpenRequest(snapshot=translate.wire_snapshot(STATE)), None),
    (v.ALLOCATE_FUNC, m.TaskRequest(task=W1), ""),
    (v.DEALLOCATE_FUNC, m.TaskRequest(task=W1), ""),
    (v.ON_SESSION_CLOSE, m.SessionCloseRequest(), None),
]


def _meaning(verb: v.Verb[Any, Any], request: Any, answer: Any) -> Any:
    """The part of an answer that a test looks at."""
    match answer:
        case m.PredicateResponse():
            return answer.text, answer.code
        case m.BatchPredicateResponse():
            return answer.refusals([one.name for one in request.nodes])
        case m.PrioritizeResponse() | m.GpuOrderResponse():
            return answer.scores
        case m.BestNodeResponse():
            return answer.node_name
        case m.VictimsResponse():
            return answer.status, answer.uids
        case m.VoteResponse():
            return answer.status
        case m.VerdictResponse():
            return answer.status, answer.message
        case m.OverusedResponse():
            return answer.overused
        case m.OrderResponse():
            return answer.ranks
        case m.ErrorResponse():
            return answer.error
        case _:
            return None


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
@pytest.mark.parametrize(
    ("verb", "request_", "expected"), QUESTIONS, ids=[f"{n}-{verb}" for n, (verb, *_) in enumerate(QUESTIONS)]
)
def test_a_policy_answers_every_verb_in_the_dialect_of_the_question(
    serving: Serving, dialect: str, verb: v.Verb[Any, Any], request_: Any, expected: Any
) -> None:
    answer = _ask(serving, dialect, verb, request_)
    assert _meaning(verb, request_, answer) == expected


@pytest.mark.parametrize("names_only", [False, True])
def test_kube_scheduler_filters_scores_preempts_and_binds(serving: Serving, names_only: bool) -> None:
    _ask(serving, "documented", v.ON_SESSION_OPEN, m.SessionOpenRequest(snapshot=translate.wire_snapshot(STATE)))
    request = m.NodesRequest(task=W0, nodes=NODES, names_only=names_only)
    for path in ("filter", "predicate", "batchPredicate"):
        filtered = _ask(serving, "kube", v.BATCH_PREDICATE, request, path)
        assert [one.name for one in filtered.fitting] == ["n1"]
        assert filtered.names_only is names_only
    scored = _ask(serving, "kube", v.PRIORITIZE, request)
    assert scored.scores == {"n1": 8, "n2": 4}
    candidates = {"n1": WireVictims(tasks=[W1]), "n2": WireVictims(tasks=[W1, W2])}
    asked = m.PreemptRequest(task=W0, candidates=candidates, names_only=names_only)
    assert list(_ask(serving, "kube", v.PREEMPT, asked).candidates) == ["n1"]
    bound = _ask(serving, "kube", v.BIND, m.BindRequest(task=W0, node=NODES[0]))
    assert bound.error == ""


def _captured() -> list[Any]:
    paths = [path for path in sorted(CAPTURES.glob("*.json")) if not path.stem.startswith(("cluster-", "failures-"))]
    return [pytest.param(path, id=path.stem) for path in paths]


@pytest.mark.parametrize("path", _captured())
def test_every_recorded_request_of_volcano_is_answered(serving: Serving, path: Path) -> None:
    capture = json.loads(path.read_text())
    status, answer = serving.post(capture["verb"], capture["request"])
    assert status == 200, answer
    verb = v.VERBS[capture["verb"]]
    DIALECTS["volcano"].decode_response(verb, json.dumps(answer).encode())
    if capture["verb"] in ("preemptable", "reclaimable"):
        echoed = {task["UID"]: task for task in capture["request"]["evictees"] or ()}
        assert all(victim == echoed[victim["UID"]] for victim in answer["victims"] or ())


def test_allocations_are_applied_to_the_snapshot_and_objected_to() -> None:
    class Counting(Plugin):
        name = "counting"

        def predicate(self, task: Task, node: Node) -> None:
            raise Unfit(f"{len(node.tasks)} tasks, {node.used['cpu']} cores")

    served = Served([Counting])
    documented = DIALECTS["documented"]

    def ask(verb: v.Verb[Any, Any], request: Any) -> Any:
        return documented.decode_response(verb, served.answer(verb, documented.encode_request(verb, request)))

    ask(v.ON_SESSION_OPEN, m.SessionOpenRequest(snapshot=translate.wire_snapshot(STATE)))
    name = m.WireNode(name="n1")
    by_name = m.PredicateRequest(task=m.WireTask(uid="uid-w-0", namespace="ml", name="w-0"), node=name)
    assert ask(v.PREDICATE, by_name).text == "2 tasks, 2 cores"
    placed = m.WireTask(uid="uid-w-0", namespace="ml", name="w-0", node_name="n1", status="Allocated")
    assert ask(v.ALLOCATE_FUNC, m.TaskRequest(task=placed)).error == ""
    assert ask(v.PREDICATE, by_name).text == "3 tasks, 3 cores"
    freed = m.WireTask(uid="uid-w-0", namespace="ml", name="w-0")
    ask(v.DEALLOCATE_FUNC, m.TaskRequest(task=freed))
    assert ask(v.PREDICATE, by_name).text == "2 tasks, 2 cores"


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
        talks = DIALECTS["volcano"]
        body = talks.encode_request(v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[0]))
        status, answer = serving.post("predicate", body)
        assert status == 409
        assert "not told" in answer["errorMessage"]
        assert serving.post("prioritize", talks.encode_request(v.PRIORITIZE, m.NodesRequest(task=W0)))[0] == 200
        opening = m.SessionOpenRequest(snapshot=translate.wire_snapshot(STATE))
        serving.post("onSessionOpen", talks.encode_request(v.ON_SESSION_OPEN, opening))
        assert serving.post("predicate", body) == (200, {"status": "", "code": 0})


def test_what_kube_scheduler_never_tells_is_a_conflict_too() -> None:
    class Usage(Plugin):
        name = "usage"

        def node_order(self, task: Task, node: Node) -> float:
            return float(node.used["cpu"])

    with Serving(app([Usage])) as serving:
        body = DIALECTS["kube"].encode_request(v.PRIORITIZE, m.NodesRequest(task=W0, nodes=NODES))
        assert serving.post("prioritize", body)[0] == 409
        body = DIALECTS["documented"].encode_request(v.PRIORITIZE, m.NodesRequest(task=W0, nodes=NODES))
        assert serving.post("prioritize", body) == (200, {"nodeScore": {"n1": 2, "n2": 0}, "errorMessage": ""})


def test_a_verb_that_the_policy_does_not_implement_gets_the_neutral_answer() -> None:
    class Silent(Plugin):
        name = "silent"

    neutral = {
        v.PREDICATE: ("", 0),
        v.BATCH_PREDICATE: {},
        v.PRIORITIZE: {"n1": 0, "n2": 0},
        v.BEST_NODE: "",
        v.GPU_ORDER: {},
        v.PREEMPTABLE: (0, []),
        v.RECLAIMABLE: (0, []),
        v.VICTIM_TASKS: (1, []),
        v.JOB_ENQUEUEABLE: 0,
        v.JOB_PIPELINED: 0,
        v.JOB_READY: (True, ""),
        v.JOB_VALID: (True, ""),
        v.QUEUE_OVERUSED: False,
        v.ALLOCATABLE: (True, ""),
        v.JOB_ORDER: {},
        v.TASK_ORDER: {},
        v.QUEUE_ORDER: {},
        v.BIND: "no policy that is served here binds pods",
    }
    served = Served([Silent])
    talks = DIALECTS["documented"]
    for verb, request, _ in QUESTIONS:
        answer = talks.decode_response(verb, served.answer(verb, talks.encode_request(verb, request)))
        assert _meaning(verb, request, answer) == neutral.get(verb, _meaning(verb, request, answer)), verb


@pytest.mark.parametrize("plugin", ["binpack", "nodeorder", "predicates", "priority", "gang", "conformance"])
def test_built_in_policies_can_be_served(plugin: str) -> None:
    info = default_registry().get(plugin)
    assert info is not None
    served = Served([lambda: build(info, {})])
    talks = DIALECTS["volcano"]
    opening = m.SessionOpenRequest(snapshot=translate.wire_snapshot(STATE))
    served.answer(v.ON_SESSION_OPEN, talks.encode_request(v.ON_SESSION_OPEN, opening))
    for verb, request, _ in QUESTIONS:
        talks.decode_response(verb, served.answer(verb, talks.encode_request(verb, request)))


def test_a_policy_that_raises_answers_as_it_would_in_process() -> None:
    class Broken(Plugin):
        name = "broken"

        def predicate(self, task: Task, node: Node) -> None:
            raise KeyError("oops")

        def node_order(self, task: Task, node: Node) -> float:
            raise KeyError("oops")

    served = Served([Broken])
    talks = DIALECTS["documented"]
    body = talks.encode_request(v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[0]))
    logging.getLogger("pumice.framework").setLevel(logging.CRITICAL)
    try:
        assert talks.decode_response(v.PREDICATE, served.answer(v.PREDICATE, body)).text == "plugin broken failed"
        body = talks.encode_request(v.PRIORITIZE, m.NodesRequest(task=W0, nodes=NODES))
        assert talks.decode_response(v.PRIORITIZE, served.answer(v.PRIORITIZE, body)).scores == {"n1": 0, "n2": 0}
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
    body = DIALECTS["documented"].encode_request(v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[0]))
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
    body = DIALECTS["documented"].encode_request(v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[0]))
    with Serving(app([Everything], Options(token_file=token))) as serving:
        assert serving.post("predicate", body)[0] == 401
        assert serving.post("predicate", body, {"Authorization": "Bearer guess"})[0] == 401
        assert serving.post("predicate", body, {"Authorization": "Bearer secret"})[0] == 200
        token.write_text("changed")
        assert serving.post("predicate", body, {"Authorization": "Bearer secret"})[0] == 401
        assert serving.post("predicate", body, {"Authorization": "Bearer changed"})[0] == 200
        assert serving.request("GET", "/healthz")[0] == 200


def test_verbs_may_have_other_paths() -> None:
    body = DIALECTS["documented"].encode_request(v.PREDICATE, m.PredicateRequest(task=W0, node=NODES[0]))
    with Serving(app([Everything], Options(paths={"predicate": "customFilter"}))) as serving:
        assert serving.post("customFilter", body)[0] == 200
        assert serving.post("predicate", body)[0] == 404


def test_only_one_dialect_is_understood_when_told_so() -> None:
    request = m.PredicateRequest(task=W0, node=NODES[1])
    with Serving(app([Everything], Options(dialect="documented"))) as serving:
        good = DIALECTS["documented"].encode_request(v.PREDICATE, request)
        assert serving.post("predicate", good) == (200, {"code": 3, "errorMessage": "wrong rack"})
        assert serving.post("predicate", DIALECTS["volcano"].encode_request(v.PREDICATE, request))[0] == 400


def test_health_metrics_and_the_openapi_document_are_there(serving: Serving) -> None:
    assert serving.request("GET", "/healthz")[0] == 200
    assert serving.request("GET", "/readyz")[0] == 200
    _, text = serving.request("GET", "/metrics")
    assert b"pumice_extender_server_requests_total" in text
    _, document = serving.request("GET", "/openapi.json")
    assert document["openapi"].startswith("3.")
    described = {path.strip("/") for path in document["paths"]}
    assert described == set(v.VERBS) - {"preempt"}


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

    assert Served([Careful]).needs_one_worker() == []
    assert "job_ready" in Served([Everything]).needs_one_worker()
    assert "event handlers" in Served([Everything]).needs_one_worker()


def test_what_a_dialect_does_not_carry_is_named() -> None:
    class Gangs(Plugin):
        name = "gangs"

        def job_starving(self, job: Job) -> bool:
            return False

        def job_ready(self, job: Job) -> bool:
            return True

    assert Served([Gangs]).not_carried("volcano") == ["job_starving"]
    assert Served([Gangs]).not_carried("kube") == ["job_ready", "job_starving"]
