"""Everything that can go wrong on the way, with both settings of ignorable."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extender_service import Reply, Service, free_port
from extender_world import Opened, arguments, cluster, conf, cycle, group, node, pod, small

from pumice.framework.points.table import BEST_NODE
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.intents import Note
from pumice.model.reason import Unfit
from pumice.scheduler.report import CycleReport

CERTS = Path(__file__).parent / "certs"
ELEVEN_MEGABYTES = b'{"status": "' + b"x" * (11 * 2**20) + b'"}'
REPLIES: dict[str, Reply] = {
    "reset": Reply(reset=True),
    "slow": Reply(delay=0.4),
    "redirected": Reply(b"{}", 307, (("Location", "http://127.0.0.1:9/predicate"),)),
    "500": Reply(b'{"errorMessage": "out of order"}', 500),
    "202": Reply(b"{}", 202),
    "garbage": Reply(b"<<not json>>"),
    "empty": Reply(b""),
    "11 MB": Reply(ELEVEN_MEGABYTES),
    "wrong type": Reply(
        b'{"status": [], "code": {}, "nodeScore": 3, "victims": 3, "overused": "no", "errorMessage": 3, "errors": 3,'
        b' "ranks": 3, "gpuScore": 3, "nodeName": 3}'
    ),
    "half an answer": Reply(b'{"status": "", "code": 0, "nodeScore": {}, "errorMessage": ""}', cut=True),
}
WAYS = [*REPLIES, "refused"]


def _with(way: str, verbs: list[str], ask: Callable[[Session], Any], *, ignorable: bool, state: Any = None) -> Any:
    """What *ask* gives when every call of *verbs* fails in that way."""
    given = {"ignorable": ignorable, "httpTimeout": "150ms" if way == "slow" else "10s", "breakerFailures": 0}
    if way == "refused":
        with Opened(state or small(), arguments(f"http://127.0.0.1:{free_port()}", *verbs, **given)) as session:
            return ask(session)
    with (
        Service(lambda verb, body: REPLIES[way]) as service,
        Opened(state or small(), arguments(service.url, *verbs, **given)) as session,
    ):
        return ask(session)


def _task(session: Session) -> Any:
    return session.state.tasks["uid-train-worker-0"]


def _fits(session: Session) -> bool:
    try:
        session.predicate(_task(session), session.nodes["n1"])
    except Unfit:
        return False
    return True


def _scored(session: Session) -> bool:
    try:
        scores = session.batch_node_order(_task(session), [session.nodes["n1"], session.nodes["n2"]])
    except Unfit:
        return False
    return scores == {"n1": 0.0, "n2": 0.0}


def _devices(session: Session) -> list[float | None]:
    node = session.nodes["n1"]
    return [session.gpu_order(_task(session), node, str(gpu)) for gpu in range(4)]


def _job(session: Session) -> Any:
    return session.jobs["ml/train"]


DECISIONS: dict[str, tuple[list[str], Callable[[Session], Any], Any, Any]] = {
    # name: verbs, question, the answer of a failure, the answer of an ignored one
    "predicate": (["predicate"], _fits, False, True),
    "batchPredicate": (["batchPredicate"], _fits, False, True),
    "prioritize": (["prioritize"], _scored, False, True),
    "preemptable": (["preemptable"], lambda s: s.preemptable(_task(s), [_task(s)]), [], None),
    "reclaimable": (["reclaimable"], lambda s: s.reclaimable(_task(s), [_task(s)]), [], None),
    "jobEnqueueable": (["jobEnqueueable"], lambda s: s.job_enqueueable(_job(s)).passed, False, True),
    "jobPipelined": (["jobPipelined"], lambda s: s.job_pipelined(_job(s)).passed, False, True),
    "jobReady": (["jobReady"], lambda s: s.job_ready(_job(s)).passed, False, True),
    "jobValid": (["jobValid"], lambda s: s.job_valid(_job(s)).passed, False, True),
    "queueOverused": (["queueOverused"], lambda s: bool(s.overused(s.queues["research"])), True, False),
    "allocatable": (["allocatable"], lambda s: s.allocatable(s.queues["research"], _task(s)).passed, False, True),
    "allocateFunc": (["allocateFunc"], lambda s: not s.statement().allocate(_task(s), s.nodes["n1"]), False, True),
    "bestNode": (["bestNode"], lambda s: s.ask(BEST_NODE, _task(s), {"n1": 1.0}), None, None),
    "gpuOrder": (["gpuOrder"], lambda s: _devices(s), [None] * 4, [0.0] * 4),
    "jobEnqueued": (["jobEnqueued"], lambda s: s.job_enqueued(_job(s)), None, None),
    "onSessionOpen": (["onSessionOpen"], lambda s: s.job_valid(_job(s)).passed, False, True),
}
UNREAD = {"onSessionOpen": {"garbage", "empty", "11 MB", "wrong type", "half an answer"}}
"""Answers that nobody reads cannot be bad."""


@pytest.mark.parametrize("ignorable", [False, True], ids=["fails", "ignored"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb", list(DECISIONS))
@pytest.mark.part(4)
def test_a_failed_call_fails_the_decision_or_is_neutral(verb: str, way: str, ignorable: bool) -> None:
    verbs, ask, failed, ignored = DECISIONS[verb]
    found, errors = _with(way, verbs, lambda ssn: (ask(ssn), ssn.errors), ignorable=ignorable)
    assert errors == []
    harmless = way in UNREAD.get(verb, set())
    assert found == (ignored if ignorable or harmless else failed)


@pytest.mark.parametrize(("ignorable", "scores"), [(False, [None] * 4), (True, [0.0] * 4)])
def test_devices_whose_scores_are_an_error_are_dropped(ignorable: bool, scores: list[float | None]) -> None:
    with (
        Service(lambda verb, body: {"gpuScore": {"0": 1}, "errorMessage": "driver is gone"}) as service,
        Opened(small(gpu=1), arguments(service.url, "gpuOrder", ignorable=ignorable)) as session,
    ):
        assert _devices(session) == scores
    assert service.calls == {"gpuOrder": 1}


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_call_leaves_orders_and_victims_to_others(way: str) -> None:
    def ask(session: Session) -> tuple[Any, ...]:
        job, task = _job(session), _task(session)
        other = session.state.tasks["uid-train-worker-1"]
        return session.job_order(job, job), session.task_order(task, other), session.victim_tasks([task])

    assert _with(way, ["jobOrder", "taskOrder", "victimTasks"], ask, ignorable=False) == (0, 0, [])


def test_null_victims_are_no_victims() -> None:
    with (
        Service(lambda verb, body: {"status": 1, "victims": None}) as service,
        Opened(small(), arguments(service.url, "preemptable")) as session,
    ):
        assert session.preemptable(_task(session), [_task(session)]) == []


def _cycle(way: str, *verbs: str, state: Any = None, **more: Any) -> CycleReport:
    with Service(lambda verb, body: REPLIES[way]) as service:
        given = arguments(service.url, *verbs, **({"httpTimeout": "150ms"} | more))
        return cycle(state or small(1), conf([[{"name": "extender", "arguments": given}]]))


@pytest.mark.parametrize("scope", ["session", "node", "static"])
@pytest.mark.parametrize(("ignorable", "placed"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("verb", ["prioritize", "batchPredicate", "predicate"])
def test_whether_a_task_is_placed_depends_on_ignorable_alone(
    verb: str, ignorable: bool, placed: int, scope: str
) -> None:
    report = _cycle("500", verb, ignorable=ignorable, scope=scope)
    assert len(report.binds) == placed
    assert report.errors == []


def test_a_failure_is_not_kept_as_an_answer() -> None:
    replies = [Reply(b"", 500)]
    state, runtime = small(1), Runtime()
    with Service(lambda verb, body: replies[0]) as service:
        given = arguments(service.url, "batchPredicate", "prioritize", scope="static", breakerFailures=0)
        data = conf([[{"name": "extender", "arguments": given}]])
        assert cycle(state, data, runtime=runtime).binds == {}
        replies[0] = Reply(b'{"nodeScore": {}}')
        assert cycle(state, data, runtime=runtime).binds == {"ml/train-worker-0": "n1"}


def test_the_message_of_an_error_response_is_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    report = _cycle("500", "predicate")
    (error,) = report.fit_errors["ml/train"].values()
    assert "out of order" in str(error)
    assert "out of order" in caplog.text
    plain = Reply(b"gateway " + b"y" * 600, 502)
    with (
        Service(lambda verb, body: plain) as service,
        Opened(small(), arguments(service.url, "predicate")) as session,
        pytest.raises(Unfit) as refused,
    ):
        session.predicate(_task(session), session.nodes["n1"])
    assert "gateway yyy" in refused.value.text
    assert len(refused.value.text) <= 500


def test_the_failure_policy_of_a_verb_stands_above_ignorable() -> None:
    policy = {"predicate": "ignore", "prioritize": "fail"}
    report = _cycle("500", "predicate", failurePolicy=policy)
    assert len(report.binds) == 1
    report = _cycle("500", "predicate", "prioritize", failurePolicy=policy, ignorable=True)
    assert report.binds == {}


def test_after_a_failed_open_no_managed_job_is_scheduled() -> None:
    state = cluster([node("n1", gpu=2)], [pod("g-0", "a", gpu=1), pod("c-0", "b")], [group("a"), group("b")])
    report = _cycle("500", "onSessionOpen", "predicate", state=state, managedResources=["nvidia.com/gpu"])
    assert report.binds == {"ml/c-0": "n1"}
    assert report.refusals["ml/a"].plugin == "extender"


def test_under_compat_volcano_a_failed_open_switches_the_extender_off() -> None:
    with Service(lambda verb, body: Reply(b"", 500)) as service:
        given = arguments(service.url, "onSessionOpen", "predicate")
        report = cycle(small(1), conf([[{"name": "extender", "arguments": given}]]), compat="volcano")
    assert len(report.binds) == 1
    assert service.calls == {"onSessionOpen": 1}


def test_errors_and_latencies_are_counted_per_extender_and_verb() -> None:
    report = _cycle("500", "predicate", breakerFailures=0)
    labels = (("extender", "extender"), ("kind", "status"), ("verb", "predicate"))
    assert report.counters["pumice_extender_errors_total", labels] == 2
    (measured,) = report.histograms.values()
    assert dict(measured.buckets())["10.0"] == 2
    assert dict(measured.buckets())["+Inf"] == 2
    assert list(report.histograms) == [
        ("pumice_extender_request_seconds", (("extender", "extender"), ("verb", "predicate")))
    ]


def test_the_circuit_opens_after_failures_and_one_probe_closes_it() -> None:
    replies = [Reply(b"", 500)]
    runtime = Runtime()
    with Service(lambda verb, body: replies[0]) as service:
        given = arguments(service.url, "jobValid", breakerFailures=3, breakerReset="200ms")
        data = conf([[{"name": "extender", "arguments": given}]])
        groups = [group(name) for name in "abcdef"]
        objects = [node("n1")], [pod(f"{name}-0", name) for name in "abcdef"], groups
        first = cycle(cluster(*objects), data, runtime=runtime, keep=True)
        assert service.calls == {"jobValid": 3}
        assert any("not asked for a while" in warning for warning in first.warnings)
        assert any(isinstance(note, Note) and note.reason == "CircuitOpen" for note in first.intents)
        assert first.gauges["pumice_extender_circuit_open", (("extender", "extender"),)] == 1
        cycle(cluster(*objects), data, runtime=runtime, keep=True)
        assert service.calls == {"jobValid": 3}
        replies[0] = Reply(b'{"status": true}')
        time.sleep(0.25)
        last = cycle(cluster(*objects), data, runtime=runtime)
    assert len(last.binds) == 6
    assert last.gauges["pumice_extender_circuit_open", (("extender", "extender"),)] == 0


def test_the_session_budget_ends_the_asking() -> None:
    with Service(lambda verb, body: Reply(b'{"status": true}', delay=0.06)) as service:
        given = arguments(service.url, "jobValid", sessionBudget="150ms", ignorable=True)
        objects = [node("n1", cpu=20)], [pod(f"j{n}-0", f"j{n}") for n in range(9)], [group(f"j{n}") for n in range(9)]
        report = cycle(cluster(*objects), conf([[{"name": "extender", "arguments": given}]]))
    assert len(report.binds) == 9
    assert service.calls["jobValid"] <= 3
    assert any("budget" in warning for warning in report.warnings)
    assert any(isinstance(note, Note) and note.reason == "BudgetSpent" for note in report.intents)


def test_calls_of_one_task_are_on_their_way_at_the_same_time() -> None:
    with Service(lambda verb, body: Reply(b'{"code": 0}', delay=0.1)) as service:
        state = cluster([node(f"n{n}") for n in range(16)], [pod("x-0")], [group()])
        given = arguments(service.url, "predicate")
        started = time.perf_counter()
        report = cycle(state, conf([[{"name": "extender", "arguments": given}]]))
        seconds = time.perf_counter() - started
    assert len(report.binds) == 1
    assert service.calls == {"predicate": 16}
    assert seconds < 0.8


# -- TLS and tokens -------------------------------------------------------------------------------------------------
def _tls(*, client_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    if client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTS / "ca.pem")
    return context


def _asked(service: Service, **more: Any) -> bool:
    with Opened(small(), arguments(service.url, "predicate", **more)) as session:
        return _fits(session)


def test_tls_needs_the_ca_that_signed_the_server() -> None:
    with Service(lambda verb, body: {"code": 0}, tls=_tls()) as service:
        assert _asked(service, caFile=str(CERTS / "ca.pem"))
        assert not _asked(service, caFile=str(CERTS / "other-ca.pem"))
        assert _asked(service, caFile=str(CERTS / "other-ca.pem"), ignorable=True)
        assert not _asked(service, caFile=str(CERTS / "nothing.pem"))
    assert service.calls == {"predicate": 1}


def test_a_client_certificate_is_shown_where_the_server_asks_for_one() -> None:
    own = {"certFile": str(CERTS / "client.pem"), "keyFile": str(CERTS / "client.key")}
    with Service(lambda verb, body: {"code": 0}, tls=_tls(client_certificate=True)) as service:
        assert _asked(service, caFile=str(CERTS / "ca.pem"), **own)
        assert not _asked(service, caFile=str(CERTS / "ca.pem"))


def test_the_bearer_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with (
        Service(lambda verb, body: {"code": 0}) as service,
        Opened(small(), arguments(service.url, "predicate", tokenFile=str(token))) as session,
    ):
        session.predicate(_task(session), session.nodes["n1"])
        token.write_text("second")
        session.predicate(_task(session), session.nodes["n2"])
    assert [asked.headers["Authorization"] for asked in service.asked] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("ignorable", [False, True])
def test_a_bad_or_missing_token_is_an_error(tmp_path: Path, ignorable: bool) -> None:
    with Service(lambda verb, body: Reply(b'{"errorMessage": "who are you?"}', 401)) as service:
        (tmp_path / "token").write_text("bad")
        for name in ("token", "missing"):
            assert _asked(service, tokenFile=str(tmp_path / name), ignorable=ignorable) is ignorable


def test_plain_http_to_another_machine_is_warned_about_once() -> None:
    given = arguments("http://extender.example:1", "jobOrder", httpTimeout="10ms")
    runtime = Runtime()
    data = conf([[{"name": "extender", "arguments": given}]])
    first = cycle(cluster([node("n1")]), data, runtime=runtime)
    second = cycle(cluster([node("n1")]), data, runtime=runtime)
    assert any("plain HTTP" in warning for warning in first.warnings)
    assert not any("plain HTTP" in warning for warning in second.warnings)


def test_large_questions_are_compressed_when_asked_for() -> None:
    with Service(lambda verb, body: {"code": 0}) as service:
        assert _asked(service, compression=True, dialect="volcano")
    assert service.asked[0].headers["Content-Encoding"] == "gzip"
    assert service.of("predicate")[0]["task"]["Name"] == "train-worker-0"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_the_question_nowhere_else(status: int) -> None:
    with Service(lambda verb, body: {"code": 0}) as elsewhere:
        there = (("Location", f"{elsewhere.url}/predicate"),)
        with (
            Service(lambda verb, body: Reply(b"", status, there)) as service,
            Opened(small(), arguments(service.url, "predicate")) as session,
        ):
            assert not _fits(session)
        assert elsewhere.asked == []
