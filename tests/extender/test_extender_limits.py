"""Whoever calls, and however: memory and time are bounded, callers are apart, and what is not certain is a 409."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from extender_questions import ask
from extender_serving import Serving
from extender_world import Opened, arguments, cluster, group, node, pod, small

from pumice.clock import SystemClock
from pumice.extender import protocol as p
from pumice.extender.answering.policies import MOST_CALLERS, PolicyServer
from pumice.extender.answering.told_state import NotTold
from pumice.extender.server import Options, app
from pumice.framework.plugin import Plugin
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Unfit
from pumice.model.task import Task
from pumice.serving import HEADER_BYTES, BoundedProtocol


class Racks(Plugin):
    """A pod goes to the rack that it wants."""

    name = "racks"

    def predicate(self, task: Task, node: Node) -> None:
        if (rack := task.labels.get("rack")) and node.labels.get("rack") != rack:
            raise Unfit(f"wants rack {rack}")

    def preemptable(self, evictor: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.node_name == "n1"]


def world(rack: str) -> Any:
    nodes = [node("n1", labels={"rack": rack})]
    return cluster(nodes, [pod("w-0", labels={"rack": "1"}), pod("w-1", "old", on="n1")], [group(), group("old")])


def by_name(dialect: str) -> bytes:
    state = world("1")
    return ask(dialect, p.PREDICATE, state.tasks["uid-w-0"], state.nodes["n1"], names_only=True)


# -- what was not told -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dialect", ["documented", "volcano"])
@pytest.mark.parametrize("verb", [verb for verb in p.ASKED if verb not in ("onSessionOpen", "onSessionClose", "bind")])
def test_a_mere_name_is_a_conflict_on_every_verb_until_a_snapshot_tells_of_it(verb: str, dialect: str) -> None:
    state, asked = world("1"), p.VERBS[verb]
    things = {
        p.PartKind.TASK: state.tasks["uid-w-0"],
        p.PartKind.NODE: state.nodes["n1"],
        p.PartKind.JOB: state.jobs["ml/train"],
        p.PartKind.QUEUE: state.queues["research"],
        p.PartKind.GPU: state.nodes["n1"],
        p.PartKind.SCORES: {"n1": 1.0},
    }
    parts = [
        [things[part.kind]] if part.many and part.kind is not p.PartKind.GPU else things[part.kind]
        for part in asked.parts
    ]
    server, body = PolicyServer([Racks]), ask(dialect, asked, *parts, names_only=True)
    if {part.kind for part in asked.parts} == {p.PartKind.QUEUE}:  # a queue is always told whole
        server.answer(asked, body)
        return
    with pytest.raises(NotTold):
        server.answer(asked, body)
    server.answer(p.ON_SESSION_OPEN, ask(dialect, p.ON_SESSION_OPEN, state))
    server.answer(asked, body)


def test_what_an_earlier_call_told_does_not_stand_for_a_name() -> None:
    server, state = PolicyServer([Racks]), world("1")
    whole = ask("documented", p.PREDICATE, state.tasks["uid-w-0"], state.nodes["n1"])
    server.answer(p.PREDICATE, whole)
    with pytest.raises(NotTold):
        server.answer(p.PREDICATE, by_name("documented"))


def test_a_task_that_lost_its_labels_is_not_answered_from_the_old_ones() -> None:
    server, state = PolicyServer([Racks]), world("2")
    task = json.loads(ask("documented", p.ALLOCATE_FUNC, state.tasks["uid-w-0"]))["task"]
    told = json.loads(ask("documented", p.PREDICATE, state.tasks["uid-w-0"], state.nodes["n1"]))["node"]

    def answer(**more: Any) -> Any:
        body = {"task": {**task, "resources": {}, **more}, "node": told}
        return json.loads(server.answer(p.PREDICATE, json.dumps(body).encode()))

    assert answer()["errorMessage"] == "wants rack 1"
    assert answer(labels={})["code"] == 0


def test_the_place_of_a_victim_is_known_though_its_node_was_not_told() -> None:
    server, state = PolicyServer([Racks]), world("1")
    body = ask("volcano", p.PREEMPTABLE, state.tasks["uid-w-0"], [state.tasks["uid-w-1"]])
    assert [victim["UID"] for victim in json.loads(server.answer(p.PREEMPTABLE, body))["victims"]] == ["uid-w-1"]


class ReadsTheNode(Plugin):
    """Looks at the node of a victim."""

    name = "reads-the-node"

    def preemptable(self, evictor: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.node and task.node.labels.get("rack")]


def test_what_stands_on_a_node_that_was_not_told_cannot_be_read() -> None:
    state = world("1")
    body = ask("volcano", p.PREEMPTABLE, state.tasks["uid-w-0"], [state.tasks["uid-w-1"]])
    with pytest.raises(NotTold, match="n1"):
        PolicyServer([ReadsTheNode]).answer(p.PREEMPTABLE, body)


def test_a_best_node_is_answered_by_name_whatever_was_told() -> None:
    class Picks(Plugin):
        name = "picks"

        def best_node(self, task: Task, scores: dict[str, float]) -> str:
            return min(scores)

    body = ask("documented", p.BEST_NODE, world("1").tasks["uid-w-0"], {"b": 2.0, "a": 1.0})
    assert json.loads(PolicyServer([Picks]).answer(p.BEST_NODE, body))["nodeName"] == "a"


def test_the_time_of_a_session_is_that_of_the_server() -> None:
    class Late(Plugin):
        name = "late"

        def overused(self, queue: Queue) -> bool:
            return False

        def on_session_open(self, ssn: Any) -> None:
            seen.append(ssn.now)

    seen: list[float] = []
    PolicyServer([Late]).answer(p.QUEUE_OVERUSED, b'{"queue": {"name": "q"}}')
    assert abs(seen[-1] - SystemClock().now()) < 60


# -- callers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["header", "prefix"])
def test_sessions_of_two_callers_are_apart(how: str) -> None:
    with Serving(app([Racks])) as serving:

        def asks(caller: str, verb: str, body: bytes) -> tuple[int, Any]:
            if how == "header":
                return serving.post(verb, body, {"X-Pumice-Session": caller})
            return serving.post(f"{caller}/{verb}", body)

        question = by_name("documented")
        assert asks("a", "predicate", question)[0] == 409
        for caller, rack in (("a", "2"), ("b", "1")):
            opened = asks(caller, "onSessionOpen", ask("documented", p.ON_SESSION_OPEN, world(rack)))
            assert opened[0] == 200
        assert asks("a", "predicate", question)[1]["errorMessage"] == "wants rack 1"
        assert asks("b", "predicate", question)[1] == {"code": 0, "errorMessage": ""}
        assert serving.post("predicate", question)[0] == 409
        assert asks("a", "onSessionClose", b"{}")[0] == 200
        assert asks("b", "predicate", question)[0] == 200


def test_callers_are_forgotten_when_there_are_too_many() -> None:
    server, body = PolicyServer([Racks]), ask("documented", p.ON_SESSION_OPEN, world("1"))
    for caller in range(MOST_CALLERS + 1):
        server.answer(p.ON_SESSION_OPEN, body, str(caller))
    with pytest.raises(NotTold):
        server.answer(p.PREDICATE, by_name("documented"), "0")
    server.answer(p.PREDICATE, by_name("documented"), "2")


def test_why_a_question_was_refused_is_logged_once_for_each_verb_and_text(caplog: pytest.LogCaptureFixture) -> None:
    with Serving(app([Racks])) as serving, caplog.at_level(logging.WARNING, "pumice.extender.server"):
        for _ in range(3):
            serving.post("predicate", by_name("documented"))
            serving.post("jobReady", b"<<")
        until = time.monotonic() + 5
        while len(caplog.records) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "predicate was answered with 409",
        "jobReady was answered with 400",
    ]
    assert "not told" in caplog.records[0].getMessage()


# -- the server's limits ---------------------------------------------------------------------------------------------
class Impatient(BoundedProtocol):
    """Waits a moment for headers."""

    header_seconds: ClassVar[float] = 0.2


class Small(BoundedProtocol):
    """Takes three connections, and waits long for what they say."""

    header_seconds: ClassVar[float] = 60.0
    most_connections: ClassVar[int] = 3


HEAD = b"POST /predicate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def _ends(connection: socket.socket) -> bytes:
    """What comes until the other side closes, in five seconds at most."""
    connection.settimeout(5)
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def _answer(connection: socket.socket) -> bytes:
    """One whole answer, in however many pieces it comes."""
    got = b""
    while not (found := re.search(rb"(?i)content-length: (\d+).*?\r\n\r\n(.*)", got, re.DOTALL)) or len(found[2]) < int(
        found[1]
    ):
        piece = connection.recv(65536)
        assert piece, got
        got += piece
    return got


@contextmanager
def _connected(serving: Serving, sent: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", serving.port)) as connection:
        connection.sendall(sent)
        yield connection


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_headers_that_do_not_come_end_the_connection(sent: bytes) -> None:
    with Serving(app([Racks]), http=Impatient) as serving, _connected(serving, sent) as connection:
        assert _ends(connection) == b""


def test_the_headers_of_a_second_question_are_timed_too() -> None:
    body = by_name("documented")
    whole = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    with Serving(app([Racks]), http=Impatient) as serving, _connected(serving, whole) as connection:
        connection.settimeout(5)
        assert b" 409 " in _answer(connection)
        connection.sendall(HEAD)
        assert _ends(connection) == b""


def test_headers_without_end_end_the_connection() -> None:
    with Serving(app([Racks])) as serving, _connected(serving, HEAD) as connection, pytest.raises(OSError):  # noqa: PT011, PT012
        for _ in range(10 * HEADER_BYTES // 4096):
            connection.sendall(b"X-Long: " + b"x" * 4096 + b"\r\n")
            time.sleep(0.001)
        _ends(connection)
        raise OSError


def test_connections_beyond_the_limit_are_closed() -> None:
    with Serving(app([Racks]), http=Small) as serving:
        others = [socket.create_connection(("127.0.0.1", serving.port)) for _ in range(3)]
        try:
            time.sleep(0.05)
            with _connected(serving, b"") as connection:
                assert _ends(connection) == b""
        finally:
            for other in others:
                other.close()


def test_a_body_that_does_not_begin_ends_the_connection() -> None:
    begun = HEAD + b"Content-Length: 100\r\n\r\n"
    with Serving(app([Racks]), http=Impatient) as serving, _connected(serving, begun) as connection:
        assert _ends(connection) == b""


def test_a_body_that_does_not_come_is_a_time_out() -> None:
    with Serving(app([Racks], Options(body_timeout=0.2))) as serving:
        with _connected(serving, HEAD + b"Content-Length: 100\r\n\r\n{") as connection:
            said = _ends(connection)
        assert b" 408 " in said.partition(b"\r\n")[0]
        assert serving.request("GET", "/healthz")[0] == 200


def test_bytes_of_all_questions_together_are_limited() -> None:
    with Serving(app([Racks], Options(max_in_flight=10_000, body_timeout=5))) as serving:
        with _connected(serving, HEAD + b"Content-Length: 9000\r\n\r\n" + b" " * 8000):
            time.sleep(0.1)
            status, answer = serving.post("predicate", b" " * 5000)
            assert (status, "at one time" in answer["errorMessage"]) == (503, True)
        until = time.monotonic() + 5
        while serving.post("predicate", b" " * 5000)[0] == 503 and time.monotonic() < until:
            time.sleep(0.02)
        assert serving.post("predicate", b" " * 5000)[0] == 400


def test_what_unpacks_to_more_than_the_limit_is_refused_and_given_back() -> None:
    with Serving(app([Racks], Options(max_body=50_000, max_in_flight=60_000))) as serving:
        for _ in range(5):
            packed = gzip.compress(b" " * 100_000)
            assert serving.post("predicate", packed, {"Content-Encoding": "gzip"})[0] == 413
        assert serving.post("predicate", by_name("documented"))[0] == 409


# -- the client's limits ---------------------------------------------------------------------------------------------
@contextmanager
def _hostile(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A service that reads a little and then does as it likes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def serve(connection: socket.socket) -> None:
            with connection:
                connection.recv(65536)
                try:
                    while not stop.is_set():
                        answer(connection)
                except OSError:
                    return

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            listening.shutdown(socket.SHUT_RDWR)


def _on_and_on(piece: bytes, every: float = 0.0, after: bytes = b"") -> Callable[[socket.socket], None]:
    """Sends *after*, then the same again and again."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(after)
        while True:
            time.sleep(every)
            connection.sendall(piece)

    return answer


STATUS = b"HTTP/1.1 200 OK\r\n"
WAYS = {
    "silence": _on_and_on(b"", 0.05),
    "100 continue": _on_and_on(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
    "100 continue, slowly": _on_and_on(b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    "status that drips": _on_and_on(b"K", 0.05, b"HTTP/1.1 200 O"),
    "header that drips": _on_and_on(b"a", 0.05, STATUS + b"X: "),
    "headers that drip": _on_and_on(b"X: a\r\n", 0.05, STATUS),
    "body that drips": _on_and_on(b" ", 0.05, STATUS + b"\r\n"),
    "chunks that drip": _on_and_on(b"1\r\n \r\n", 0.05, STATUS + b"Transfer-Encoding: chunked\r\n\r\n"),
    "endless headers": _on_and_on(b"X: a\r\n" * 2000, 0.0, STATUS),
    "endless body": _on_and_on(b" " * 2**20, 0.0, STATUS + b"\r\n"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.part(3)
def test_the_budget_of_a_session_holds_whatever_comes(way: str) -> None:
    """Every question is another one: without a budget they would take six seconds."""
    nodes = [node(f"n{n}") for n in range(20)]
    with _hostile(WAYS[way]) as url:
        given = arguments(url, "predicate", sessionBudget="400ms", httpTimeout="300ms", breakerFailures=0)
        with Opened(cluster(nodes, [pod("w-0")], [group()]), given) as session:
            started = time.monotonic()
            for one in session.nodes.values():
                with pytest.raises(Unfit):
                    session.predicate(session.state.tasks["uid-w-0"], one)
            assert time.monotonic() - started < 4


def test_an_answer_without_end_is_too_large_long_before_the_time_is_over() -> None:
    with _hostile(WAYS["endless body"]) as url:
        given = arguments(url, "predicate", httpTimeout="30s", breakerFailures=0)
        with Opened(small(), given) as session, pytest.raises(Unfit):
            session.predicate(session.state.tasks["uid-train-worker-0"], session.nodes["n1"])
