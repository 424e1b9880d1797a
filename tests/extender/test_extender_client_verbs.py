"""Every verb over a real socket: what is sent in each dialect, and what its answer means."""

from __future__ import annotations

from typing import Any

import pytest
from extender_questions import amounts, asked_for, told
from extender_service import Reply, Service
from extender_world import Opened, arguments, cluster, conf, cycle, group, node, pod, queue, small

from pumice.extender.plugin import BindRefused, ExtenderBinder
from pumice.extender.protocol import VERBS
from pumice.framework.session.session import Session
from pumice.model.intents import Bind
from pumice.model.reason import Code, Unfit
from pumice.model.status import TaskStatus

OBJECT_DIALECTS = ["documented", "volcano"]
ALL = ["documented", "volcano", "kube"]


def _two(session: Session) -> tuple[Any, Any]:
    tasks = sorted(session.state.tasks.values(), key=lambda task: task.name)
    return tasks[0], tasks[1]


def _request(service: Service, verb: str, dialect: str, at: int = -1) -> dict[str, Any]:
    """What a question tells, as the named dialect reads it."""
    return told(VERBS[verb], service.of(verb)[at], dialect)


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_a_predicate_is_asked_once_per_node_and_its_refusal_is_the_reason(dialect: str) -> None:
    def answer(verb: str, body: Any) -> Any:
        name = body["node"].get("name") or body["node"]["Name"]
        return {"code": 3, "errorMessage": "no licence"} if name == "n1" else {"code": 0}

    with (
        Service(answer) as service,
        Opened(small(), arguments(service.url, "predicate", dialect=dialect)) as session,
    ):
        task, _ = _two(session)
        with pytest.raises(Unfit, match="no licence") as refused:
            session.predicate(task, session.nodes["n1"])
        assert refused.value.code is Code.UNRESOLVABLE
        session.predicate(task, session.nodes["n2"])
        asked = _request(service, "predicate", dialect, 0)
    assert asked["task"].pod.metadata.name == "train-worker-0"
    assert asked_for(asked["task"].pod) == {"cpu": 1, "memory": 2**30}
    assert asked["node"].node.metadata.name == "n1"
    assert int(asked["node"].node.status.allocatable["nvidia.com/gpu"]) == 4
    assert amounts(asked["node"].ledgers.used)["cpu"] == 0
    assert service.calls == {"predicate": 2}


@pytest.mark.parametrize("dialect", ALL)
def test_one_batch_predicate_answers_for_all_nodes(dialect: str) -> None:
    def answer(verb: str, body: Any) -> Any:
        if dialect == "kube":
            return {"NodeNames": ["n2"], "FailedNodes": {"n1": "full"}, "Error": ""}
        return {"errors": {"n1": "full"}, "code": {"n1": 2}}

    verb = "predicate" if dialect == "kube" else "batchPredicate"
    with Service(answer) as service:
        given = arguments(service.url, verb, dialect=dialect)
        report = cycle(small(1), conf([[{"name": "extender", "arguments": given}]]))
    assert report.binds == {"ml/train-worker-0": "n2"}
    assert service.calls == {verb: 1}
    request = told(VERBS["batchPredicate"], service.of(verb)[0], dialect)
    assert [one.node.metadata.name for one in request["nodes"]] == ["n1", "n2"]


@pytest.mark.parametrize("dialect", ALL)
def test_prioritize_is_asked_about_all_candidates_and_its_scores_are_weighted(dialect: str) -> None:
    def answer(verb: str, body: Any) -> Any:
        if dialect == "kube":
            return [{"Host": "n1", "Score": 1}, {"Host": "n2", "Score": 9}]
        return {"nodeScore": {"n1": 1, "n2": 9.5, "nowhere": 100}, "errorMessage": ""}

    with Service(answer) as service:
        given = arguments(service.url, "prioritize", dialect=dialect, weight=2)
        with Opened(small(), given) as session:
            task, _ = _two(session)
            scores = session.batch_node_order(task, [session.nodes["n1"], session.nodes["n2"]])
    assert scores == {"n1": 2, "n2": 18 if dialect == "kube" else 19}
    assert any("nowhere" in warning for warning in session.warnings) == (dialect != "kube")


@pytest.mark.parametrize("verb", ["preemptable", "reclaimable"])
@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_victims_are_matched_by_uid_and_unknown_ones_are_reported(dialect: str, verb: str) -> None:
    reply = {"status": 1, "victims": [{"uid": "uid-run-1"}, {"uid": "stranger"}]}
    with Service(lambda verb, body: reply) as service:
        pods = [pod("run-0", "old", on="n1"), pod("run-1", "old", on="n1"), pod("train-worker-0")]
        state = cluster([node("n1")], pods, [group("old"), group()])
        with Opened(state, arguments(service.url, verb, dialect=dialect)) as session:
            by_name = {task.name: task for task in state.tasks.values()}
            evictor, evictees = by_name["train-worker-0"], [by_name["run-0"], by_name["run-1"]]
            victims = getattr(session, verb)(evictor, evictees)
    assert victims == [by_name["run-1"]]
    assert any("stranger" in warning for warning in session.warnings)
    request = _request(service, verb, dialect)
    assert request["evictor"].pod.metadata.uid == "uid-train-worker-0"
    assert [task.pod.metadata.uid for task in request["evictees"]] == ["uid-run-0", "uid-run-1"]
    assert request["evictees"][0].status is TaskStatus.RUNNING


def test_an_extender_of_kube_scheduler_may_drop_victims() -> None:
    reply = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-run-1"}], "NumPDBViolations": 0}}}
    with Service(lambda verb, body: reply) as service:
        pods = [pod("run-0", "old", on="n1"), pod("run-1", "old", on="n1"), pod("train-worker-0")]
        state = cluster([node("n1")], pods, [group("old"), group()])
        with Opened(state, arguments(service.url, "preemptable", dialect="kube")) as session:
            by_name = {task.name: task for task in state.tasks.values()}
            victims = session.preemptable(by_name["train-worker-0"], [by_name["run-0"], by_name["run-1"]])
    assert victims == [by_name["run-1"]]
    assert set(service.of("preemptable")[0]) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}


@pytest.mark.parametrize(("status", "passes"), [(-1, False), (0, True), (7, True)])
@pytest.mark.parametrize("point", ["job_enqueueable", "job_pipelined"])
@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_a_vote_rejects_only_when_it_is_negative(dialect: str, point: str, status: int, passes: bool) -> None:
    verb = {"job_enqueueable": "jobEnqueueable", "job_pipelined": "jobPipelined"}[point]
    with (
        Service(lambda verb, body: {"status": status}) as service,
        Opened(small(), arguments(service.url, verb, dialect=dialect)) as session,
    ):
        assert getattr(session, point)(session.jobs["ml/train"]).passed is passes
    job = _request(service, verb, dialect)["job"]
    assert (job.group.key, job.group.spec.queue, job.counts[1]) == ("ml/train", "research", 2)
    assert sorted(task.pod.metadata.name for task in job.tasks) == ["train-worker-0", "train-worker-1"]


@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize("point", ["job_ready", "job_valid"])
@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_a_verdict_carries_its_message(dialect: str, point: str, status: bool) -> None:
    verb = {"job_ready": "jobReady", "job_valid": "jobValid"}[point]
    with (
        Service(lambda verb, body: {"status": status, "errorMessage": "wait for data"}) as service,
        Opened(small(), arguments(service.url, verb, dialect=dialect)) as session,
    ):
        verdict = getattr(session, point)(session.jobs["ml/train"])
    assert verdict.passed is status
    assert verdict.text == ("" if status else "wait for data")


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_a_queue_is_overused_when_the_extender_says_so(dialect: str) -> None:
    with (
        Service(lambda verb, body: {"overused": True}) as service,
        Opened(small(), arguments(service.url, "queueOverused", dialect=dialect)) as session,
    ):
        assert session.overused(session.queues["research"]).plugin == "extender"
    assert _request(service, "queueOverused", dialect)["queue"].queue.metadata.name == "research"


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_allocatable_names_queue_and_task(dialect: str) -> None:
    with (
        Service(lambda verb, body: {"status": False, "errorMessage": "too much"}) as service,
        Opened(small(), arguments(service.url, "allocatable", dialect=dialect)) as session,
    ):
        verdict = session.allocatable(session.queues["research"], _two(session)[0])
    assert (verdict.passed, verdict.text) == (False, "too much")
    request = _request(service, "allocatable", dialect)
    assert request["queue"].queue.metadata.name == "research"
    assert request["task"].pod.metadata.name == "train-worker-0"


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_the_whole_life_of_a_session_is_told_in_order(dialect: str) -> None:
    verbs = ["onSessionOpen", "onSessionClose", "jobEnqueueable", "jobEnqueued", "allocateFunc", "deallocateFunc"]
    with Service(lambda verb, body: {"status": 1} if verb == "jobEnqueueable" else {}) as service:
        pods = [pod("train-worker-0"), pod("train-worker-1")]
        state = cluster([node("n1", gpu=2)], pods, [group(members=2, phase="Pending")])
        given = arguments(service.url, *verbs, dialect=dialect)
        report = cycle(state, conf([[{"name": "gang"}, {"name": "extender", "arguments": given}]]))
    assert len(report.binds) == 2
    order = [asked.verb for asked in service.asked]
    assert order == ["onSessionOpen", "jobEnqueueable", "jobEnqueued", "allocateFunc", "allocateFunc", "onSessionClose"]
    snapshot = _request(service, "onSessionOpen", dialect)["snapshot"]
    assert [one.node.metadata.name for one in snapshot.nodes] == ["n1"]
    assert [job.group.key for job in snapshot.jobs] == ["ml/train"]
    assert [one.queue.metadata.name for one in snapshot.queues] == ["research"]
    placed = _request(service, "allocateFunc", dialect)["task"]
    assert (placed.node, placed.status) == ("n1", TaskStatus.ALLOCATED)


def test_an_objection_to_an_allocation_undoes_it() -> None:
    def answer(verb: str, body: Any) -> Any:
        return {"errorMessage": "device busy"} if verb == "allocateFunc" else {"errorMessage": ""}

    with Service(answer) as service:
        given = arguments(service.url, "allocateFunc", "deallocateFunc", ignorable=True)
        report = cycle(small(1), conf([[{"name": "extender", "arguments": given}]]))
    assert report.binds == {}
    assert service.calls == {"allocateFunc": 1, "deallocateFunc": 1}


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_the_best_node_is_picked_among_the_scored_ones(dialect: str) -> None:
    with Service(lambda verb, body: {"nodeName": "n2"}) as service:
        given = arguments(service.url, "bestNode", dialect=dialect)
        report = cycle(small(1), conf([[{"name": "extender", "arguments": given}]]))
    assert report.binds == {"ml/train-worker-0": "n2"}
    assert _request(service, "bestNode", dialect)["nodeScore"] == {"n1": 0, "n2": 0}


def test_a_best_node_that_was_not_asked_about_is_ignored_and_reported() -> None:
    with Service(lambda verb, body: {"nodeName": "moon"}) as service:
        given = arguments(service.url, "bestNode")
        report = cycle(small(1), conf([[{"name": "extender", "arguments": given}]]))
    assert report.binds == {"ml/train-worker-0": "n1"}
    assert any("moon" in warning for warning in report.warnings)


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_victim_tasks_are_those_that_the_extender_names(dialect: str) -> None:
    with Service(lambda verb, body: {"victims": [{"uid": "uid-run-1"}]}) as service:
        state = cluster([node("n1")], [pod("run-0", on="n1"), pod("run-1", on="n1")], [group()])
        with Opened(state, arguments(service.url, "victimTasks", dialect=dialect)) as session:
            victims = session.victim_tasks(sorted(state.tasks.values(), key=lambda task: task.name))
    assert [task.name for task in victims] == ["run-1"]


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_devices_of_a_node_are_scored_in_one_call(dialect: str) -> None:
    with (
        Service(lambda verb, body: {"gpuScore": {"0": 1, "2": 5}}) as service,
        Opened(small(gpu=1), arguments(service.url, "gpuOrder", dialect=dialect)) as session,
    ):
        task, _ = _two(session)
        scores = [session.gpu_order(task, session.nodes["n1"], gpu) for gpu in ("0", "1", "2")]
    assert scores == [1, 0, 5]
    assert service.calls == {"gpuOrder": 1}
    assert [gpu.index for gpu in _request(service, "gpuOrder", dialect)["gpus"]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("dialect", OBJECT_DIALECTS)
def test_orders_are_asked_once_for_all_and_answered_with_ranks(dialect: str) -> None:
    def answer(verb: str, body: Any) -> Any:
        ranks = {"jobOrder": {"ml/a": 2, "ml/b": 1}, "queueOrder": {"q1": 5, "q2": 4}, "taskOrder": {"uid-a-0": 1}}
        return {"ranks": ranks[verb]}

    with Service(answer) as service:
        pods = [pod("a-0", "a"), pod("a-1", "a"), pod("b-0", "b"), pod("c-0", "c")]
        groups = [group(name, queue="q1") for name in "abc"]
        state = cluster([node("n1")], pods, groups, [queue("q1"), queue("q2")])
        verbs = ("jobOrder", "taskOrder", "queueOrder")
        with Opened(state, arguments(service.url, *verbs, dialect=dialect)) as session:
            jobs, queues = session.jobs, session.queues
            assert session.job_order(jobs["ml/a"], jobs["ml/b"]) == 1
            assert session.job_order(jobs["ml/a"], jobs["ml/c"]) == 0
            assert session.queue_order(queues["q2"], queues["q1"]) == -1
            tasks = jobs["ml/a"].tasks
            assert session.task_order(tasks["uid-a-0"], tasks["uid-a-1"]) == 0
    assert service.calls == {"jobOrder": 1, "queueOrder": 1, "taskOrder": 1}


@pytest.mark.parametrize("dialect", ALL)
def test_a_bind_is_delegated(dialect: str) -> None:
    with Service(lambda verb, body: {"errorMessage": ""}) as service:
        given = arguments(service.url, "bind", dialect=dialect)
        opened = Opened(small(), given)
        with opened as session:
            task, _ = _two(session)
            assert session.binds.binder_of(task) == "extender"
            binder: ExtenderBinder = session.binds.binders["extender"]
            binder.bind(Bind(task.key, task.uid, "n1"))
    request = _request(service, "bind", dialect)
    assert (request["task"].pod.key, request["task"].pod.metadata.uid) == ("ml/train-worker-0", "uid-train-worker-0")
    assert request["node"].node.metadata.name == "n1"


def test_a_refused_bind_is_an_error_that_is_not_tried_again() -> None:
    with (
        Service(lambda verb, body: {"errorMessage": "taken"}) as service,
        Opened(small(), arguments(service.url, "bind")) as session,
    ):
        task, _ = _two(session)
        with pytest.raises(BindRefused, match="taken") as refused:
            session.binds.binders["extender"].bind(Bind(task.key, task.uid, "n1"))
    assert refused.value.retryable is False
    assert service.calls == {"bind": 1}


def test_a_bind_whose_answer_was_lost_is_read_back_and_else_sent_again() -> None:
    with Service(lambda verb, body: Reply(delay=0.3)) as service:
        given = arguments(service.url, "bind", httpTimeout="50ms")
        with Opened(small(), given) as session:
            task, other = _two(session)
            binder: ExtenderBinder = session.binds.binders["extender"]
            binder.read_back = lambda intent: "n1" if intent.uid == task.uid else ""
            binder.bind(Bind(task.key, task.uid, "n1"))
            assert service.calls == {"bind": 1}
            with pytest.raises(BindRefused) as lost:
                binder.bind(Bind(other.key, other.uid, "n1"))
    assert lost.value.retryable is True
    assert service.calls == {"bind": 3}


def test_a_verb_that_is_empty_is_not_called_and_without_a_url_nothing_is() -> None:
    with Service(lambda verb, body: {}) as service:
        with Opened(small(), {**arguments(service.url, "predicate"), "extender.predicateVerb": ""}) as session:
            session.predicate(_two(session)[0], session.nodes["n1"])
        with Opened(small(), {**arguments(service.url, "predicate"), "extender.urlPrefix": ""}) as session:
            session.predicate(_two(session)[0], session.nodes["n1"])
    assert service.calls == {}


def test_a_verb_may_be_a_path_of_its_own_under_the_prefix() -> None:
    with Service(lambda verb, body: {"code": 0}) as service:
        given = {**arguments(f"{service.url}/scheduler/", "predicate"), "extender.predicateVerb": "customFilter"}
        with Opened(small(), given) as session:
            session.predicate(_two(session)[0], session.nodes["n1"])
    assert service.calls == {"customFilter": 1}


def test_only_tasks_that_name_a_managed_resource_are_asked_about() -> None:
    with Service(lambda verb, body: {"code": 2, "errorMessage": "no"}) as service:
        pods = [pod("gpu-0", "a", gpu=1), pod("cpu-0", "b")]
        limited = pod("init-0", "c")
        limited["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": {"nvidia.com/gpumem": "0"}}}]
        state = cluster([node("n1", gpu=2)], [*pods, limited], [group(name) for name in "abc"])
        given = arguments(service.url, "predicate", managedResources="nvidia.com/gpu, nvidia.com/gpumem")
        report = cycle(state, conf([[{"name": "extender", "arguments": given}]]))
    assert report.binds == {"ml/cpu-0": "n1"}
    assert service.calls == {"predicate": 2}


def test_the_extenders_own_pods_are_bypassed() -> None:
    with Service(lambda verb, body: {"code": 2, "errorMessage": "no"}) as service:
        state = cluster(
            [node("n1")], [pod("ext-0", "a", labels={"app": "licences"}), pod("x-0", "b")], [group("a"), group("b")]
        )
        given = arguments(service.url, "predicate", bypassSelector="app=licences")
        report = cycle(state, conf([[{"name": "extender", "arguments": given}]]))
    assert report.binds == {"ml/ext-0": "n1"}


def test_several_extenders_stand_in_one_configuration_each_with_its_name() -> None:
    with (
        Service(lambda verb, body: {"code": 2, "errorMessage": "no"} if _name(body) == "n1" else {"code": 0}) as one,
        Service(lambda verb, body: {"nodeScore": {"n3": 5}}) as two,
    ):
        state = cluster([node("n1"), node("n2"), node("n3")], [pod("x-0")], [group()])
        plugins = [
            {"name": "extender", "arguments": arguments(one.url, "predicate", name="licences")},
            {"name": "extender", "arguments": arguments(two.url, "prioritize", name="scores")},
        ]
        report = cycle(state, conf([plugins]))
    assert report.binds == {"ml/x-0": "n3"}
    assert one.calls == {"predicate": 3}
    assert two.calls == {"prioritize": 1}


def _name(body: Any) -> str:
    return str(body["node"]["name"])


def test_compat_volcano_sends_gos_fields_alone() -> None:
    with Service(lambda verb, body: {}) as service:
        given = arguments(service.url, "predicate")
        cycle(small(1), conf([[{"name": "extender", "arguments": given}]]), compat="volcano")
    assert all(field[0].isupper() for field in service.of("predicate")[0]["task"])


def test_answers_of_scope_node_are_asked_again_only_for_nodes_that_changed() -> None:
    def answer(verb: str, body: Any) -> Any:
        return {"errors": {}} if verb == "batchPredicate" else {"nodeScore": {"n3": 1.0}}

    with Service(answer) as service:
        nodes = [node(f"n{n}", cpu=100) for n in range(1, 9)]
        state = cluster(nodes, [pod(f"w-x-{n}") for n in range(6)], [group(members=6)])
        given = arguments(service.url, "batchPredicate", "prioritize", scope="node")
        report = cycle(state, conf([[{"name": "gang"}, {"name": "extender", "arguments": given}]]))
    assert set(report.binds.values()) == {"n3"}
    assert service.calls["batchPredicate"] <= 3
    assert service.calls["prioritize"] <= 3


def test_payload_names_sends_names_after_the_snapshot() -> None:
    with Service(lambda verb, body: {}) as service:
        given = arguments(service.url, "onSessionOpen", "batchPredicate", payload="names", dialect="documented")
        cycle(small(1), conf([[{"name": "extender", "arguments": given}]]))
    asked = _request(service, "batchPredicate", "documented")
    assert [(one.node.metadata.name, one.bare) for one in asked["nodes"]] == [("n1", True), ("n2", True)]
    assert (asked["task"].pod.metadata.uid, asked["task"].bare) == ("uid-train-worker-0", True)
    snapshot = _request(service, "onSessionOpen", "documented")["snapshot"]
    assert snapshot.nodes[0].node.status.allocatable["cpu"] == 8
