"""The configurations of examples/extender run, each with its service."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from extender_serving import Serving
from extender_world import cluster, cycle, group, node, pod, queue

from pumice.config import load
from pumice.extender.server import app
from pumice.framework.plugin import Plugin
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.scheduler.report import CycleReport

EXAMPLES = Path(__file__).parents[2] / "examples" / "extender"


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _service(name: str) -> Iterator[str]:
    """The example's service on a free port."""
    module = _module(name)
    handler = getattr(module, "Handler", None)
    if handler is None:
        (policy,) = [
            thing
            for thing in vars(module).values()
            if isinstance(thing, type) and issubclass(thing, Plugin) and thing.__module__ == module.__name__
        ]
        with Serving(app([policy])) as serving:
            yield serving.url
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _conf(name: str, url: str) -> dict[str, Any]:
    text = (EXAMPLES / f"{name}.yaml").read_text().replace("http://127.0.0.1:8888", url)
    data: dict[str, Any] = yaml.safe_load(text)
    return data


def _run(name: str, url: str, **objects: Any) -> CycleReport:
    report = cycle(cluster(**objects), _conf(name, url))
    assert report.errors == []
    return report


@pytest.mark.parametrize("name", ["every-verb", "gpu", "custom-filter", "life-cycle"])
def test_an_example_is_a_clean_configuration(name: str) -> None:
    loaded = load((EXAMPLES / f"{name}.yaml").read_text(), catalogue_of(default_registry()), f"{name}.yaml")
    assert list(loaded.warnings) == []


@pytest.mark.parametrize(("tasks", "placed"), [(6, 6), (7, 0)])
def test_every_verb_at_once_keeps_a_namespace_from_taking_a_node(tasks: int, placed: int) -> None:
    pods = [pod(f"w-x-{n}", gpu=1) for n in range(tasks)]
    objects = {"nodes": [node("n1", gpu=8), node("n2", gpu=8)], "pods": pods, "groups": [group(members=tasks)]}
    with _service("every_verb") as url:
        report = _run("every-verb", url, **objects)
    assert len(report.binds) == placed
    assert [list(report.binds.values()).count(name) for name in ("n1", "n2")] == [placed // 2, placed // 2]


def test_every_verb_at_once_evicts_only_cheaper_tasks() -> None:
    running = [pod(f"low-{n}", "low", cpu=4, gpu=1, on="n1", priority=1) for n in range(2)]
    objects = {
        "nodes": [node("n1", cpu=8, gpu=2)],
        "pods": [*running, pod("high-0", "high", cpu=4, gpu=1, priority=100)],
        "groups": [group("low", phase="Running"), group("high")],
        "queues": [queue()],
    }
    with _service("every_verb") as url:
        report = _run("every-verb", url, **objects)
    assert len(report.evictions) == 1
    assert report.pipelined["ml/high"] == {"ml/high-0": "n1"}


def test_the_gpu_extender_finds_the_model_and_packs() -> None:
    model = "gpu.example.com/model"
    nodes = [
        node("n1", gpu=4, labels={model: "a"}),
        node("n2", gpu=4, labels={model: "b"}),
        node("n3", gpu=4, labels={model: "b"}),
    ]
    pods = [pod("w-x-0", gpu=1, labels={model: "b"}), pod("old-0", "old", gpu=1, on="n3"), pod("cpu-0", "plain")]
    with _service("gpu") as url:
        report = _run("gpu", url, nodes=nodes, pods=pods, groups=[group(), group("old"), group("plain")])
    assert report.binds["ml/w-x-0"] == "n3"
    assert "ml/cpu-0" in report.binds
    down = cycle(cluster(nodes, pods, [group(), group("old"), group("plain")]), _conf("gpu", "http://127.0.0.1:9"))
    assert set(down.binds) == {"ml/cpu-0"}


def test_the_custom_filter_keeps_large_tasks_off_a_node_and_may_be_down() -> None:
    nodes = [node("n1", labels={"maintenance": "soon"}), node("n2", cpu=4)]
    objects = {"nodes": nodes, "pods": [pod("w-x-0", cpu=2)], "groups": [group()]}
    with _service("custom_filter") as url:
        report = _run("custom-filter", url, **objects)
    assert report.binds == {"ml/w-x-0": "n2"}
    alone = _run("custom-filter", "http://127.0.0.1:9", **objects)
    assert len(alone.binds) == 1


@pytest.mark.parametrize("dialect", ["documented", "volcano"])
def test_the_custom_filter_reads_what_volcano_sends_too(dialect: str) -> None:
    nodes = [node("n1", labels={"maintenance": "soon"}), node("n2", cpu=4)]
    with _service("custom_filter") as url:
        conf = _conf("custom-filter", url)
        for tier in conf["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "extender":
                    plugin["arguments"] |= {"extender.dialect": dialect, "extender.ignorable": False}
        report = cycle(cluster(nodes, [pod("w-x-0", cpu=2)], [group()]), conf)
    assert report.errors == []
    assert report.binds == {"ml/w-x-0": "n2"}


def test_the_life_cycle_hooks_keep_books_of_licences() -> None:
    pods = [pod(f"j{n}-0", f"j{n}", labels={"licence": "yes"}) for n in range(4)] + [pod("free-0", "free")]
    groups = [*(group(f"j{n}") for n in range(4)), group("free")]
    with _service("life_cycle") as url:
        report = _run("life-cycle", url, nodes=[node("n1")], pods=pods, groups=groups)
    assert sum(1 for name in report.binds if name.startswith("ml/j")) == 2
    assert "ml/free-0" in report.binds
