"""How busy nodes are: asked of Prometheus or of the metrics server, every interval, and kept for the next cycles."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput, PumiceError, decoder_words
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.model.quantity import milli, value
from pumice.model.resources import CPU, MEMORY
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.kube")

PROMETHEUS, METRICS_SERVER = "prometheus", "metrics-server"
SOURCES: Final = (PROMETHEUS, METRICS_SERVER)
INTERVAL: Final = 30.0
"""Seconds between two measurements, where the conf does not say."""
WAIT: Final = 10.0
"""Seconds for which an answer is waited."""
_LARGEST: Final = 16 << 20
"""Bytes of an answer."""
_MOST: Final = 100_000
"""Nodes in an answer."""
QUERIES: Final = {
    "cpu": 'avg_over_time((100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))))[10m:30s])',
    "memory": "100 * avg_over_time((1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)[10m:30s])",
}
"""Percent in use per node over the last ten minutes, as Volcano asks for them, for all nodes at once."""
NODE_METRICS: Final = "/apis/metrics.k8s.io/v1beta1/nodes"


class Unmeasured(PumiceError):
    """No measurement could be had; says why."""


class NodeMeasurement(NamedTuple):
    """One measurement of all nodes that were seen."""

    time: float
    percent: dict[str, dict[str, float]]
    """Node -> ``cpu`` and ``memory`` in percent."""
    amounts: dict[str, dict[str, int]]
    """Node -> what it uses in ledger units, where the source knows no percent."""


class Measuring:
    """Measures while the conf names a source. `run` goes beside the backend, `environment` is for who decides."""

    def __init__(
        self, metrics: Callable[[], Mapping[str, str]], credentials: Credentials, now: Callable[[], float]
    ) -> None:
        self._metrics, self._credentials, self._now = metrics, credentials, now
        self._last: NodeMeasurement | None = None
        self._complaint = ""

    # -- deciding ---------------------------------------------------------------------------------------------------
    def environment(self, state: ClusterState) -> dict[str, Any] | None:
        """The measurements for plugins: percent per node, their time, and the interval; None if the conf asks for
        none."""
        metrics, last = self._metrics(), self._last
        if not metrics.get("type"):
            return None
        told: dict[str, Any] = {"usage_interval": _interval(metrics)}
        if last is not None:
            told |= {"usage_time": last.time, "node_usage": {**last.percent, **_percent_of(state, last.amounts)}}
        return told

    # -- measuring --------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Measure every interval, until cancelled."""
        while True:
            metrics = dict(self._metrics())
            if metrics.get("type"):
                await self._once(metrics)
            await asyncio.sleep(_interval(metrics) if metrics.get("type") else 1.0)

    async def _once(self, metrics: Mapping[str, str]) -> None:
        try:
            found = await self.measure(metrics)
            if self._last is None:
                seen = len(found.percent) + len(found.amounts)
                log.info("how busy nodes are is measured by %s: %d nodes", metrics["type"], seen)
            self._last, complaint = found, ""
        except Exception as exc:  # whatever a server answers, the next round tries again
            complaint = str(exc) if isinstance(exc, PumiceError) else f"{type(exc).__name__}: {exc}"
        if complaint and complaint != self._complaint:
            log.warning("how busy nodes are is not known: %s", complaint)
        elif self._complaint and not complaint:
            log.info("how busy nodes are is measured again")
        self._complaint = complaint

    async def measure(self, metrics: Mapping[str, str]) -> NodeMeasurement:
        """One measurement.

        :raises Unmeasured: the source is none of ours, or does not answer as it should.
        """
        kind = metrics.get("type", "")
        if kind == PROMETHEUS:
            return await self._prometheus(metrics)
        if kind == METRICS_SERVER:
            return await self._metrics_server()
        raise Unmeasured(
            f"metrics.type {kind!r}: not in Pumice: see docs/limits.md#operating; there are {', '.join(SOURCES)}"
        )

    async def _prometheus(self, metrics: Mapping[str, str]) -> NodeMeasurement:
        address = metrics.get("address", "")
        if not address.startswith(("http://", "https://")):
            raise Unmeasured(f"metrics.address: must begin with http:// or https://, got {address!r}")
        tls = metrics.get("tls.insecureSkipVerify") != "true"
        percent: dict[str, dict[str, float]] = {}
        at = self._now()
        try:
            connector = aiohttp.TCPConnector(ssl=tls)
            async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=WAIT)) as session:
                for what, query in QUERIES.items():
                    url = address.rstrip("/") + "/api/v1/query"
                    async with session.get(url, params={"query": query}, allow_redirects=False) as answer:
                        body = await answer.content.read(_LARGEST + 1)
                        if answer.status != 200:
                            raise Unmeasured(f"{url}: answered {answer.status}")
                    for node, number in read_vector(body).items():
                        percent.setdefault(node, {})[what] = number
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as exc:
            raise Unmeasured(f"{address}: {type(exc).__name__} {exc}".rstrip()) from exc
        whole = {node: told for node, told in percent.items() if len(told) == len(QUERIES)}
        return NodeMeasurement(at, whole, {})

    async def _metrics_server(self) -> NodeMeasurement:
        at = self._now()
        async with KubeClient(self._credentials) as client:
            body = await client.request("GET", NODE_METRICS, timeout=WAIT)
        return NodeMeasurement(at, {}, read_node_metrics(body))


def read_vector(body: bytes) -> dict[str, float]:
    """Instance -> number, from what Prometheus answers to a query; the port of an instance is left out.

    :raises Unmeasured: it is no such answer.
    """
    data = _json(body)
    result = data.get("data")
    if data.get("status") != "success" or not isinstance(result, dict) or result.get("resultType") != "vector":
        raise Unmeasured(f"Prometheus did not answer with a vector: {str(data.get('error', data.get('status')))[:200]}")
    found: dict[str, float] = {}
    for one in (result.get("result") or [])[:_MOST]:
        try:
            number, instance = float(one["value"][1]), str(one["metric"]["instance"])
        except (TypeError, ValueError, KeyError, IndexError):
            continue
        if math.isfinite(number):
            host = (
                instance.rpartition(":")[0] if instance.rpartition(":")[2].isdigit() and ":" in instance else instance
            )
            found[host] = min(max(number, 0.0), 100.0)
    return found


def read_node_metrics(body: bytes) -> dict[str, dict[str, int]]:
    """Node -> thousandths of a CPU and bytes in use, from the list that the metrics server answers.

    :raises Unmeasured: it is no such list.
    """
    items = _json(body).get("items")
    if not isinstance(items, list):
        raise Unmeasured("the metrics server did not answer with a list of nodes")
    found: dict[str, dict[str, int]] = {}
    for one in items[:_MOST]:
        try:
            name, usage = str(one["metadata"]["name"]), one["usage"]
            found[name] = {"cpu": milli(usage["cpu"]), "memory": value(usage["memory"])}
        except (TypeError, KeyError, InvalidInput):
            continue
    return found


def _json(body: bytes) -> dict[str, Any]:
    if len(body) > _LARGEST:
        raise Unmeasured(f"the answer has more than {_LARGEST} bytes")
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError as exc:
        raise Unmeasured(f"the answer is no JSON: {decoder_words(exc)}") from exc
    if not isinstance(data, dict):
        raise Unmeasured("the answer is no JSON object")
    return data


def _percent_of(state: ClusterState, amounts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Amounts as parts of what the machines have."""
    found: dict[str, dict[str, float]] = {}
    for name, used in amounts.items():
        node = state.nodes.get(name)
        if node is not None:
            whole = {"cpu": node.capacity.get(CPU), "memory": node.capacity.get(MEMORY)}
            found[name] = {w: min(100.0 * used[w] / whole[w], 100.0) if whole[w] else 0.0 for w in whole}
    return found


def _interval(metrics: Mapping[str, str]) -> float:
    try:
        found = parse_duration(metrics.get("interval") or "30s") / SECOND
    except InvalidInput:
        found = 0.0
    return found if found > 0 else INTERVAL
