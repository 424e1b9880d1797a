"""What is written by hand beside the library that could replace it: time, memory and answers of both.

    pip install kubernetes_asyncio lightkube scipy simpy ruamel.yaml
    python benchmarks/by_hand.py

A library that is not installed is left out. Each figure is the least CPU time of five runs (docs/decisions/0011).
"""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import yaml as pyyaml

from pumice import yamls
from pumice.kube.kinds import RESOURCES
from pumice.kube.reflector import read_list
from pumice.model import quantity
from pumice.sim.engine import Rank, Timeline
from pumice.sim.results.intervals import mean_interval

PODS = 3000
EVENTS = 100_000


def least(work: Callable[[], object]) -> float:
    """Return the least CPU seconds of five runs."""
    found = []
    for _ in range(5):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found)


def nothing() -> None:
    """Happen, and do nothing."""


def library(name: str) -> Any:
    """Return a module, None if its distribution is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def pods() -> dict[str, Any]:
    """Return a list of pods as an API server sends it."""
    limits = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "train:1", "resources": {"requests": limits, "limits": limits}}
    items = [
        {
            "metadata": {
                "name": f"p{n}",
                "namespace": "ns",
                "uid": f"u{n}",
                "labels": {"app": "a", "job": f"j{n // 8}"},
            },
            "spec": {"containers": [container], "schedulerName": "pumice", "nodeSelector": {"zone": "a"}},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
        }
        for n in range(PODS)
    ]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}


def client() -> Iterator[tuple[str, str]]:
    """Decoding a list of pods."""
    body = json.dumps(pods()).encode()
    yield "pumice", f"{least(lambda: read_list(RESOURCES['Pod'], body)) * 1000:.0f} ms for {PODS:,} pods"
    yield "json (no types)", f"{least(lambda: json.loads(body)) * 1000:.0f} ms"
    if light := library("lightkube.resources.core_v1"):
        decoded = json.loads(body)["items"]

        def read() -> None:
            for one in decoded:
                pod = light.Pod.from_dict(one)
                _ = pod.metadata.labels, pod.spec.containers[0].resources.requests, pod.status.conditions[0].type

        took = least(read) + least(lambda: json.loads(body))
        yield f"lightkube {version('lightkube')}", f"{took * 1000:.0f} ms, three fields read"
    if kube := library("kubernetes_asyncio.client"):

        class Answer:
            data = body.decode()

        api = kube.ApiClient.__new__(kube.ApiClient)
        api.configuration = kube.Configuration()
        decode = getattr(api, "deserialize")  # noqa: B009 - its signature differs between versions
        words = ("V1PodList",) if decode.__code__.co_argcount == 3 else ("V1PodList", "application/json")
        given = Answer() if decode.__code__.co_argcount == 3 else Answer.data
        yield (
            f"kubernetes_asyncio {version('kubernetes_asyncio')}",
            f"{least(lambda: decode(given, *words)) * 1000:.0f} ms",
        )


def statistics() -> Iterator[tuple[str, str]]:
    """An interval of a mean of 20 values."""
    values = np.random.default_rng(1).lognormal(size=20)
    mean_interval(list(values))
    yield "pumice", f"{least(lambda: mean_interval(list(values))) * 1000:.1f} ms an interval"
    if stats := library("scipy.stats"):
        took = least(lambda: stats.bootstrap((values,), np.mean, method="BCa", random_state=1))
        code = "import resource, time; t = time.process_time(); import scipy.stats; print(time.process_time() - t)"
        start = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        yield f"scipy {version('scipy')}", f"{took * 1000:.1f} ms an interval, {float(start):.2f} s to import"


def event_queue() -> Iterator[tuple[str, str]]:
    """Events at random instants."""
    times = [random.Random(1).random() * 1000 for _ in range(EVENTS)]

    def ours() -> None:
        line = Timeline()
        for at in times:
            line.at(line.now + at, Rank.PODS, nothing)
        while line.next_time() is not None:
            line.advance()

    yield "pumice", f"{least(ours) / EVENTS * 1e6:.2f} us an event"
    if simpy := library("simpy"):

        def theirs() -> None:
            env = simpy.Environment()
            for at in times:
                env.timeout(at)
            env.run()

        yield f"simpy {version('simpy')}", f"{least(theirs) / EVENTS * 1e6:.2f} us an event, no ranks within an instant"


def yaml() -> Iterator[tuple[str, str]]:
    """A file of manifests, and a text that repeats itself without end."""
    text = pyyaml.safe_dump_all([{**one, "kind": "Pod"} for one in pods()["items"][:500]])
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    yield "pumice", f"{least(lambda: list(yamls.documents(text, 'f'))):.2f} s for 500 pods; a bomb: {_refused(bomb)}"
    if ruamel := library("ruamel.yaml"):
        reader = ruamel.YAML(typ="safe")
        took = least(lambda: list(reader.load_all(text)))
        day = reader.load("a: 2024-01-01")["a"]
        yield (
            f"ruamel.yaml {version('ruamel.yaml')}",
            f"{took:.2f} s; reads 2024-01-01 as {type(day).__name__}, Go as text",
        )


def _refused(text: str) -> str:
    try:
        yamls.load(text, "f")
    except Exception as exc:
        return f"refused ({type(exc).__name__})"
    return "read"


def quantities() -> Iterator[tuple[str, str]]:
    """Quantities as Kubernetes writes them."""
    texts = [f"{n}m" for n in range(500)] + [f"{n}Gi" for n in range(500)]
    yield "pumice", f"{least(lambda: [quantity.milli(t) for t in texts]) * 1000:.1f} us each when seen before"
    if lightkube := library("lightkube.utils.quantity"):
        took = least(lambda: [lightkube.parse_quantity(t) for t in texts]) * 1000
        odd = [t for t in ("1.5Gi", "12E", "1e3", "+1", ".5", "1n") if _of(lightkube, t) != quantity.parse(t)]
        yield f"lightkube {version('lightkube')}", f"{took:.1f} us each; other answers for {', '.join(odd) or 'none'}"


def _of(module: Any, text: str) -> Any:
    try:
        return module.parse_quantity(text)
    except Exception as exc:
        return type(exc).__name__


def main() -> None:
    """Print a line for each part and alternative."""
    for part in (client, statistics, event_queue, yaml, quantities):
        print(f"{part.__name__.replace('_', ' ')}: {(part.__doc__ or '').rstrip('.')}")
        for name, figure in part():
            print(f"    {name:<28} {figure}")


if __name__ == "__main__":
    main()
