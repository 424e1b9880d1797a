"""Whatever stands in a saved cycle, a replay of it is right or an error with its reason; it reads and asks nothing."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from pumice import saved
from pumice.config import load
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.registry import default_registry
from pumice.saved import files
from pumice.saved.cycle import pack, unpack, unpack_memory
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import catalogue_of
from pumice.scheduler.recording import record, replay
from pumice.testing import Scenario
from pumice.testing import builders as b

NASTY: list[Any] = [
    *[None, True, -1, 0, 2**53, 2**62, -(2**63), 1e308, -0.5, "", "x", "٣", "\x00", "a/b/c", "$", "x" * 100_000],
    *[[], [None], [[]], {}, {"x": 1}, {"$set": [[]]}, {"$float": "x"}, {"$dict": [1]}, {"$named": ["os", "x", {}]}],
    *[{"$tuple": 3}, {"$float": "1", "y": 2}, {"$what": []}, [{"x": 1}], {"metadata": None}],
]
CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: pdb}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: fgd}]
"""


def full() -> saved.SavedCycle:
    """A cycle in which every part holds something."""
    scenario = Scenario()
    scenario.node("n1", cpu=8, gpu=2).node("n2", cpu=8)
    scenario.job("a", tasks=2, min_available=1, cpu=1, task_annotations={"gpu-fraction": "0.6"})
    scenario.run(actions=["enqueue", "allocate"], plugins=["gang", "predicates"])
    scenario.job("c", tasks=1, cpu=3)
    scenario.add(b.pod("loose", group="c", cpu="1"))
    task = next(iter(scenario.state.tasks.values()))
    conf = load(CONF, catalogue_of(default_registry())).conf
    begun = record(scenario.state, conf, scenario.runtime, environment={"node_usage": {"n1": {"cpu": 10.0}}})
    begun.nominations = {task.uid: saved.cycle.SavedNomination(node="n2", until=9.0, evicted=["default/a"])}
    begun.turns = [saved.cycle.SavedTurn(evicted="default/a", helped="default/b", at=0.0, rounds=1)]
    loose = next(t for t in scenario.state.tasks.values() if t.name == "loose")
    begun.assumed = [saved.cycle.AssumedTask(uid=loose.uid, status="Binding", node="n2", since=0.0)]
    begun.refused = {
        task.uid: saved.cycle.SavedRefusal(
            pod=task.key, node="n1", beneficiary="default/c", message="no", wait=1.0, until=5.0
        )
    }
    begun.health = {"gang": saved.cycle.SavedHealth(failures=1, last="why")}
    begun.memory["mine"] = pack({"seen": {"a": (1, 2.5)}, "kinds": {("x", 1): Kind("a", 2)}})
    begun.phases = {"default/c": "Inqueue"}
    begun.shard = saved.cycle.SavedShard(hard=True, nodes=["n1", "n2"])
    begun.exchanges = [{"extender": "e", "verb": "predicate", "request": {}, "response": {"code": 0}}]
    begun.decisions = replay(begun, default_registry()).decisions
    return begun


class Kind(NamedTuple):
    name: str
    weight: int


FULL = full()
BODY: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(FULL))


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value."""
    if at:
        yield at
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*at, key))


PLACES = list(places(BODY))


def changed(at: tuple[Any, ...], value: Any) -> bytes:
    body = copy.deepcopy(BODY)
    inner: Any = body
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    header = msgspec.json.encode({"format": files.FORMAT, "version": files.VERSION})
    return files.packed(header + b"\n" + msgspec.json.encode(body) + b"\n")


def try_one(at: tuple[Any, ...], value: Any) -> None:
    try:
        cycle = saved.parse(changed(at, value), "x.cycle")
        replay(cycle, default_registry())
        redacted(cycle)
    except PumiceError as exc:
        assert str(exc)[:2_000]
    except Exception as exc:
        raise AssertionError(
            f"{'.'.join(map(str, at))} = {str(value)[:60]!r}: {type(exc).__name__}: {str(exc)[:200]}"
        ) from None


def test_the_whole_cycle_is_one() -> None:
    assert len(PLACES) > 150
    assert replay(saved.parse(saved.dump(FULL)), default_registry()).decisions == FULL.decisions


def test_a_value_of_a_saved_cycle_may_be_anything_and_the_worst_is_an_error() -> None:
    """Each place outside of objects with one nasty value; the slow test has every place and all of them."""
    draw = random.Random(7)
    for at in PLACES:
        if at[0] != "objects" or len(at) < 4:
            try_one(at, draw.choice(NASTY))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_value_of_a_saved_cycle_may_be_anything() -> None:
    for at in PLACES:
        for value in NASTY:
            try_one(at, value)


@pytest.mark.parametrize("value", [v for v in NASTY if isinstance(v, dict) and any(k.startswith("$") for k in v)])
def test_memory_that_was_never_packed_is_refused_by_name(value: Any) -> None:
    if "$named" in value:
        assert unpack(value) == ()
        return
    with pytest.raises(InvalidInput, match="saved cycle: memory of plugin 'p': "):
        unpack_memory({"p": {"k": value}})


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"devices": {"U": [99999]}},
            "must hold devices of node 'n1' by their numbers, 0 to 1023, each once; got \\[99999\\]",
        ),
        ({"devices": {"U": [-1]}}, "must hold devices"),
        ({"devices": {"U": [0, 0, 0]}}, "must hold devices"),
        ({"phases": {"default/a": "Dreaming"}}, "no phase 'Dreaming'"),
        ({"environment": [1]}, "environment: must be a mapping"),
        ({"memory": {"p": 3}}, "memory of plugin 'p': must be a mapping, got '3'"),
        ({"exchanges": [{"x": 1}]}, "exchange 1: must say extender, verb and request"),
        ({"assumed": [{"uid": "U", "status": "Pending", "node": "n1", "since": 0.0}]}, "nothing is under way"),
        ({"objects": {"Dream": [{}]}}, "kind 'Dream': not one of"),
    ],
)
def test_a_part_that_cannot_be_is_refused_by_name(part: dict[str, Any], message: str) -> None:
    text = msgspec.json.encode({**BODY, **part}).decode().replace('"U"', f'"{next(iter(FULL.devices))}"')
    with pytest.raises(InvalidInput, match=message):
        replay(msgspec.json.decode(text, type=saved.SavedCycle), default_registry())


def test_named_tuples_of_memory_are_what_they_were() -> None:
    again = unpack(msgspec.json.decode(msgspec.json.encode(pack({"k": Kind("a", 2)}))))
    assert type(again["k"]) is Kind
    assert again["k"].weight == 2


def test_a_named_tuple_whose_class_is_not_here_keeps_its_fields_and_nothing_is_imported() -> None:
    data = {"$named": ["antigravity", "Away.Kind", {"name": "a", "weight": 2}]}
    again = unpack(data)
    assert (again.name, again.weight, *again) == ("a", 2, "a", 2)
    assert "antigravity" not in sys.modules


def test_a_replay_with_memory_of_named_tuples_fails_nowhere() -> None:
    ran = replay(saved.parse(saved.dump(FULL)), default_registry())
    assert ran.report.errors == []


WATCHER = """
import json, sys
import msgspec
from pumice import saved
from pumice.framework.registry import default_registry
from pumice.scheduler.recording import replay

watched, watching = [], False

def audit(event, args):
    if watching and (event.startswith(("socket.", "subprocess.", "os.", "shutil.", "urllib.")) or event == "open"):
        watched.append(f"{event} {args[:1]}")

sys.addaudithook(audit)
cycle = msgspec.json.decode(sys.stdin.buffer.read(), type=saved.SavedCycle)
registry = default_registry()
replay(cycle, registry)  # what is imported for the first time is read from files
watching = True
open(sys.executable, "rb").close()  # the watcher sees what it is there to see
replay(cycle, registry)
watching = False
print(json.dumps(watched))
"""


@pytest.mark.parametrize("dialect", ["volcano", "kai"])
@pytest.mark.part(9)
def test_a_replay_reads_no_file_and_opens_no_connection(dialect: str, tmp_path: Path) -> None:
    """Every plugin, each argument that it reads naming a file or a service of ours."""
    secret = tmp_path / "token"
    secret.write_text("SECRET")
    registry = default_registry()
    plugins = []
    for name, info in sorted(registry.plugins.items()):
        if name.startswith("kai/") != (dialect == "kai"):
            continue
        arguments = {one.name: str(secret) for one in info.arguments or () if "ile" in one.name or "ath" in one.name}
        if name == "extender":
            arguments = {
                "extender.urlPrefix": "http://127.0.0.1:9",
                "extender.predicateVerb": "predicate",
                "extender.onSessionOpenVerb": "onSessionOpen",
                "extender.tokenFile": str(secret),
                "extender.caFile": str(secret),
            }
        plugins.append({"name": name.removeprefix("kai/"), "arguments": arguments})
    actions = [a.removeprefix("kai/") for a in sorted(registry.actions) if a.startswith("kai/") == (dialect == "kai")]
    cycle = msgspec.json.decode(msgspec.json.encode(FULL), type=saved.SavedCycle)
    cycle.conf = {"dialect": dialect, "actions": ", ".join(actions), "tiers": [{"plugins": plugins}]}
    # A process of its own: an audit hook stays for good, and slows down all that comes after it.
    ran = subprocess.run([sys.executable, "-c", WATCHER], input=msgspec.json.encode(cycle), capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    assert json.loads(ran.stdout) == [f"open {(sys.executable,)}"]
