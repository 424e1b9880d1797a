"""How busy nodes are: asked over real HTTP, read whatever comes back, and told to plugins as percent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from pumice.kube.credentials import Credentials
from pumice.kube.node_usage import QUERIES, Measuring, NodeMeasurement, Unmeasured, read_node_metrics, read_vector
from pumice.testing import Scenario, node

GOOD = {"status": "success", "data": {"resultType": "vector", "result": []}}


def vector(**percent: float) -> dict[str, Any]:
    result = [{"metric": {"instance": name}, "value": [0, str(number)]} for name, number in percent.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def asked(answer: Callable[[str], web.Response], **metrics: str) -> NodeMeasurement:
    """One measurement of a Prometheus on a real socket of the loopback that answers so."""

    async def once() -> NodeMeasurement:
        async def query(request: web.Request) -> web.Response:
            return answer(request.query["query"])

        app = web.Application()
        app.router.add_get("/api/v1/query", query)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            conf = {"type": "prometheus", "address": f"http://127.0.0.1:{port}/", **metrics}
            return await Measuring(lambda: conf, Credentials(), lambda: 1000.0).measure(conf)
        finally:
            await runner.cleanup()

    return asyncio.run(once())


def test_prometheus_is_asked_once_for_all_nodes_and_ports_of_instances_are_left_out() -> None:
    queries: list[str] = []

    def answer(query: str) -> web.Response:
        queries.append(query)
        if query == QUERIES["cpu"]:
            return web.json_response(vector(**{"n1:9100": 81.5, "n2": -3, "n3": float("nan"), "[::1]:9100": 4}))
        return web.json_response(vector(**{"n1:9100": 120, "n2": 20, "n4": 5}))

    found = asked(answer)
    assert queries == [*QUERIES.values()]
    assert found.time == 1000.0
    assert found.percent == {"n1": {"cpu": 81.5, "memory": 100.0}, "n2": {"cpu": 0.0, "memory": 20.0}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"no json", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"status": "error", "error": "parse error"}', "parse error"),
        (b'{"status": "success", "data": {"resultType": "matrix"}}', "not answer with a vector"),
        (b'{"status": "success", "data": 7}', "not answer with a vector"),
        (b"x" * (17 << 20), "more than"),
    ],
)
def test_an_answer_that_is_none_is_named(body: bytes, said: str) -> None:
    with pytest.raises(Unmeasured, match=said):
        read_vector(body)


@pytest.mark.parametrize("one", [{}, {"metric": {}, "value": [0, "1"]}, {"metric": {"instance": "n"}, "value": "x"}, 7])
def test_what_cannot_be_read_of_one_node_leaves_the_others(one: Any) -> None:
    import json

    data = vector(n1=5)
    data["data"]["result"].insert(0, one)
    assert read_vector(json.dumps(data).encode()) == {"n1": 5.0}


def test_a_server_that_refuses_or_is_not_there_is_named() -> None:
    with pytest.raises(Unmeasured, match="answered 503"):
        asked(lambda _: web.Response(status=503))
    for metrics, said in (
        ({"address": "http://127.0.0.1:1"}, "ClientConnectorError"),
        ({"address": "prometheus:9090"}, "must begin with http"),
        ({"type": "elasticsearch"}, "not in Pumice: see docs/limits.md#operating"),
    ):
        with pytest.raises(Unmeasured, match=said):
            asked(lambda _: web.json_response(GOOD), **metrics)


def test_the_metrics_server_says_amounts_and_plugins_are_told_percent() -> None:
    body = b"""{"items": [
        {"metadata": {"name": "n1"}, "usage": {"cpu": "2500m", "memory": "16Gi"}},
        {"metadata": {"name": "gone"}, "usage": {"cpu": "1", "memory": "1Gi"}},
        {"metadata": {"name": "odd"}, "usage": {"cpu": "much", "memory": "1Gi"}}, 7]}"""
    amounts = read_node_metrics(body)
    assert amounts == {"n1": {"cpu": 2500, "memory": 16 << 30}, "gone": {"cpu": 1000, "memory": 1 << 30}}
    conf: Mapping[str, str] = {"type": "metrics-server", "interval": "15s"}
    measuring = Measuring(lambda: conf, Credentials(), lambda: 0.0)
    state = Scenario(node("n1", cpu=10, memory="64Gi"), node("n2")).state
    assert measuring.environment(state) == {"usage_interval": 15.0}
    measuring._last = NodeMeasurement(5.0, {}, amounts)
    assert measuring.environment(state) == {
        "usage_interval": 15.0,
        "usage_time": 5.0,
        "node_usage": {"n1": {"cpu": 25.0, "memory": 25.0}},
    }
    assert Measuring(dict, Credentials(), lambda: 0.0).environment(state) is None
    with pytest.raises(Unmeasured, match="list of nodes"):
        read_node_metrics(b"{}")
