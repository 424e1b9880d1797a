"""What the extender costs, beside what a bare client and a bare server cost in the same run.

    python benchmarks/extender.py
    python benchmarks/extender.py memory

1. A gang of 100 equal tasks on 5,000 nodes, predicate and prioritize in batch form, scope ``node``: calls, and the time
   of the cycle less the service's own; then a second gang, when the nodes have been written before. Beside it what a
   bare client waits that only sends the same bytes: the service's own time begins when it has read its question.
2. Predicates of Volcano's protocol, one call per node: calls per second, beside a bare aiohttp client that posts the
   same bodies to the same service.
3. Predicate answers of the server SDK per second of its processor, beside a bare echo under the same protocol and load;
   prioritize per node.
4. ``memory``: that of the server, beside 1,000 slow connections and after 100,000 questions.

Services run in processes of their own on loopback. Prints, never fails: the machine may be noisy.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from pumice.cli.policies import run_until_told
from pumice.config import from_data
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope, scope
from pumice.extender.asking.calls import QuestionWriter
from pumice.extender.plugin import close_clients
from pumice.extender.protocol import PREDICATE, PRIORITIZE
from pumice.extender.server import app as served
from pumice.framework.plugin import Plugin
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.serving import bounded
from pumice.state.cluster import ClusterState

NODES, GANG, PER_NODE, ROUNDS = 5_000, 100, 2_000, 2
SLOW, MANY = 1_000, 100_000
STAMP = "2024-01-01T00:00:00Z"
PROCESSES: dict[str, int] = {}
"""URL -> process of the service there."""


# -- services -------------------------------------------------------------------------------------------------------
async def batch_service(scope: Any, receive: Any, send: Any) -> None:
    """Lets every node pass, scores by the number in its name, and adds up the time it takes."""
    if scope["type"] != "http":
        return
    body = await _read(receive)
    started = time.perf_counter()
    if scope["method"] == "GET":
        answer: Any = {"spent": SPENT["seconds"], "calls": SPENT["calls"]}
    elif scope["path"] == "/predicate":
        answer = {"code": 0, "errorMessage": ""}
    else:
        nodes = json.loads(body)["nodes"]
        names = [node["name"] for node in nodes]
        answer = {"errors": {}} if "batch" in scope["path"] else {"nodeScore": {n: int(n[1:]) % 97 for n in names}}
        path = scope["path"].strip("/")
        SPENT["calls"][path] = SPENT["calls"].get(path, 0) + 1
    content = json.dumps(answer).encode()
    SPENT["seconds"] += time.perf_counter() - started
    await _write(send, content)


SPENT: dict[str, Any] = {"seconds": 0.0, "calls": {}}


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Reads the question, answers a constant."""
    await _read(receive)
    await _write(send, b'{"code":0,"errorMessage":""}')


def bare_echo() -> Any:
    """The least that an application can do with a question."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await _read(receive)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"{}"})

    return answer


class SameRack(Plugin):
    """A small policy, as a user would write it."""

    name = "same-rack"

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        if (rack := task.labels.get("rack")) and node.labels.get("rack") != rack:
            raise Unfit(f"wants rack {rack}")


def policy_server() -> Any:
    """The policy behind the server SDK."""
    return served([SameRack])


async def _read(receive: Any) -> bytes:
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _write(send: Any, content: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _run(make: Callable[[], Any], listening: socket.socket) -> None:
    run_until_told(make(), bounded(log_level="critical", access_log=False), [listening])  # as `pumice extender serve`


def _batch_service() -> Any:
    return batch_service


@contextmanager
def running(make: Callable[[], Any]) -> Iterator[str]:
    """An application in a process of its own; its URL."""
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(512)
        port = listening.getsockname()[1]
        process = multiprocessing.get_context("fork").Process(target=_run, args=(make, listening), daemon=True)
        process.start()
        try:
            time.sleep(1.0)
            PROCESSES[f"http://127.0.0.1:{port}"] = process.pid or 0
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.join()


# -- the cluster ----------------------------------------------------------------------------------------------------
def cluster(nodes: int, tasks: int) -> ClusterState:
    """Equal nodes and one waiting gang."""
    state = ClusterState()
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    _see(state, "Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}})
    for n in range(nodes):
        meta = {"name": f"n{n:05}", "labels": {"kubernetes.io/hostname": f"n{n:05}", "rack": f"r{n % 40}"}}
        _see(state, "Node", {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}})
    add_gang(state, "train", tasks, cpu=4)
    return state


def add_gang(state: ClusterState, name: str, tasks: int, cpu: int) -> None:
    """A gang that waits."""
    group = {"minMember": tasks, "queue": "default"}
    meta = {"name": name, "namespace": "ml", "creationTimestamp": STAMP}
    _see(state, "PodGroup", {"metadata": meta, "spec": group, "status": {"phase": "Inqueue"}})
    for n in range(tasks):
        notes = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "worker"}
        own = {"name": f"{name}-worker-{n}", "namespace": "ml", "uid": f"uid-{name}-{n}"}
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpu), "memory": "8Gi"}}}]}
        pod = {"metadata": {**own, "annotations": notes}, "spec": spec, "status": {"phase": "Pending"}}
        _see(state, "Pod", pod)


def _see(state: ClusterState, kind: str, data: dict[str, Any]) -> None:
    state.apply(Seen(api.decode(kind, data)))


def one_cycle(state: ClusterState, runtime: Runtime, arguments: dict[str, Any]) -> tuple[float, float, int]:
    """Seconds of a cycle with gang and extender, those of the processor, and how many pods it bound."""
    registry = default_registry()
    plugins = [{"name": "gang"}, {"name": "extender", "arguments": arguments}]
    data = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
    assembly = assemble(from_data(data, catalogue_of(registry)).conf, registry)
    started, before = time.perf_counter(), time.process_time()
    report = run_cycle(state, assembly, runtime)
    return time.perf_counter() - started, time.process_time() - before, len(report.binds)


def _service_time(url: str) -> tuple[float, dict[str, int]]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.request("GET", "/spent")
    told = json.loads(connection.getresponse().read())
    connection.close()
    return told["spent"], told["calls"]


# -- measurements ---------------------------------------------------------------------------------------------------
def gang(payload: str, dialect: str) -> None:
    """The gang in batch form, in a scheduler that has just begun and in one that has placed something before."""
    print(f"gang of {GANG} on {NODES} nodes, batch form, scope node, payload {payload}, dialect {dialect}:")
    for _ in range(ROUNDS):
        with running(_batch_service) as url:
            arguments = {
                "extender.urlPrefix": url,
                "extender.httpTimeout": "30s",
                "extender.batchPredicateVerb": "batchPredicate",
                "extender.prioritizeVerb": "prioritize",
                "extender.scope": "node",
                "extender.payload": payload,
                "extender.dialect": dialect,
            }
            state, runtime = cluster(NODES, GANG), Runtime()
            spent = 0.0
            for when in ("first", "later"):
                if when == "later":
                    add_gang(state, "next", GANG, cpu=3)
                seconds, own, bound = one_cycle(state, runtime, arguments)
                total, calls = _service_time(url)
                rest = seconds - (total - spent)
                spent = total
                print(f"  {when} gang: {bound} bound, calls so far {calls}, cycle {seconds * 1000:.0f} ms,", end=" ")
                print(f"less the service's own {rest * 1000:.0f} ms (processor time {own * 1000:.0f} ms)")
            close_clients(runtime.memory)
            rows = NodeRows(state.table, np.arange(NODES))
            pieces = QuestionWriter(dialect, names_only=payload == "names").nodes(
                PRIORITIZE, next(iter(state.tasks.values())), rows
            )
            print(f"  a bare client with the same questions: {_bare_wait(url, b''.join(pieces)) * 1000:.0f} ms")


def _bare_wait(url: str, body: bytes) -> float:
    """Seconds that a client waits, the service's own left out, which asks both verbs and does nothing else."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    before, _ = _service_time(url)
    started = time.perf_counter()
    for verb in ("batchPredicate", "prioritize"):
        connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    seconds = time.perf_counter() - started
    connection.close()
    return seconds - (_service_time(url)[0] - before)


def per_node() -> None:
    """One call per node, beside a bare client."""
    ratios = []
    print(f"predicates one by one, {PER_NODE} nodes:")
    with running(_batch_service) as url:
        state = cluster(PER_NODE, 1)
        task = next(iter(state.tasks.values()))
        writer = QuestionWriter("volcano")
        rows = NodeRows(state.table, np.arange(PER_NODE))
        bodies = writer.predicate(PREDICATE, task, rows)
        arguments = {
            "extender.urlPrefix": url,
            "extender.httpTimeout": "30s",
            "extender.predicateVerb": "predicate",
            "extender.dialect": "volcano",
        }
        runtime = Runtime()
        one_cycle(cluster(PER_NODE, 1), runtime, arguments)  # connections and caches warm on both sides
        for _ in range(ROUNDS):
            bare = asyncio.run(_bare(f"{url}/predicate", bodies, 64))
            seconds, _, _ = one_cycle(cluster(PER_NODE, 1), runtime, arguments)
            ours = PER_NODE / seconds
            ratios.append(ours / bare)
            print(f"  bare {bare:.0f}/s, whole cycle {ours:.0f}/s: {ours / bare:.0%}")
        close_clients(runtime.memory)
    print(f"  median {statistics.median(ratios):.0%} of the bare client (at least 60 % wanted)")


def server() -> None:
    """Answers of the SDK per second of its processor, beside a bare echo under the same protocol and load."""
    state = cluster(500, 1)
    task = next(iter(state.tasks.values()))
    rows = NodeRows(state.table, np.arange(500))
    bodies = QuestionWriter("volcano").predicate(PREDICATE, task, rows)
    print(f"predicate answers of the server, questions about 500 nodes, {len(bodies[0])} bytes each:")
    with running(bare_echo) as echo_url, running(policy_server) as policy_url:
        for url in (echo_url, policy_url):
            asyncio.run(_bare(f"{url}/predicate", bodies, 32))  # connections and caches warm on both sides
        for _ in range(ROUNDS):
            echo, policy = (_per_cpu_second(f"{url}/predicate", bodies * 8) for url in (echo_url, policy_url))
            print(f"  echo {echo:.0f}, policy {policy:.0f} calls per processor second: {policy / echo:.0%}")
        nodes = [b"".join(QuestionWriter("volcano").nodes(PRIORITIZE, task, rows))] * 20
        asyncio.run(_bare(f"{policy_url}/prioritize", nodes[:2], 1))
        each = 1000 / _per_cpu_second(f"{policy_url}/prioritize", nodes) / 500
        print(f"  prioritize {each:.4f} ms of the processor a node")


def _per_cpu_second(url: str, bodies: list[bytes]) -> float:
    """Calls per second of the processor time that the service at *url* takes."""
    pid = PROCESSES[url.rpartition("/")[0]]
    before = _processor(pid)
    asyncio.run(_bare(url, bodies, 32))
    return len(bodies) / max(_processor(pid) - before, 0.001)


def _processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory() -> None:
    """What the server holds: at first, beside connections whose questions never end, after many questions, at last."""
    state = cluster(500, 1)
    task = next(iter(state.tasks.values()))
    bodies = QuestionWriter("volcano").predicate(PREDICATE, task, NodeRows(state.table, np.arange(500)))
    print(f"memory of the server, {SLOW} connections that dawdle and {MANY} questions:")
    with running(policy_server) as url, ExitStack() as open_ones:
        asyncio.run(_bare(f"{url}/predicate", bodies, 32))
        print(f"  warm {_resident(url)} MiB")
        host, port = url.removeprefix("http://").split(":")
        for n in range(SLOW):
            slow = open_ones.enter_context(socket.create_connection((host, int(port))))
            head = b"POST /predicate HTTP/1.1\r\nHost: x\r\n"
            slow.sendall(head + b"Content-Length: 100000\r\n\r\n{" if n % 2 else head)
        print(f"  with slow connections {_resident(url)} MiB")
        rate = asyncio.run(_bare(f"{url}/predicate", bodies * (MANY // len(bodies)), 16))
        print(f"  after the questions, {rate:.0f} per second beside them, {_resident(url)} MiB")
        open_ones.close()
        time.sleep(1.0)
        print(f"  when the connections are gone {_resident(url)} MiB")


def _resident(url: str) -> int:
    """MiB of memory that a service has."""
    pages = int(Path(f"/proc/{PROCESSES[url]}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


async def _bare(url: str, bodies: list[bytes], workers: int) -> float:
    """Answers per second of a client that does nothing but post and read."""
    waiting = iter(bodies)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=workers)) as session:

        async def work() -> None:
            for body in waiting:
                async with session.post(url, data=body, headers=headers) as response:
                    json.loads(await response.read())

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(workers)))
        return len(bodies) / (time.perf_counter() - started)


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        memory()
    else:
        gang("names", "documented")
        gang("full", "documented")
        gang("full", "both")
        per_node()
        server()
