"""Whatever one object holds, the worst outcome is that object's problem: the innocent are placed, and nothing fails.

Tried: every annotation and label that is read (`pumice.model.keys`), and every scalar of every API object by its type,
each with everything that nobody expects.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.config import load
from pumice.config.schema import SchedulerConf
from pumice.errors import InvalidInput
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model import api, keys
from pumice.model.events import Gone, Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import job, node, pod, queue

SOURCE = Path(__file__).parents[2] / "src" / "pumice"
BIG = "9" * 400
TEXTS: dict[str, str] = {
    "empty": "",
    "blank": " ",
    "zero": "0",
    "negative": "-1",
    "digits": BIG,
    "more digits": "9" * 5000,
    "great exponent": "1e999999999",
    "small exponent": "1e-999999999",
    "fraction": "1/3",
    "digits of another script": "٣",
    "a raised digit": "²",
    "two signs": "+-5",
    "not a number": "nan",
    "infinite": "-inf",
    "megabyte": "x" * (1 << 20),
    "deep": "[" * 100_000,
    "nul": "a\x00b",
    "slashes": "a/b/c//",
    "JSON": '{"cpu": "1e999999999", "x": [[[]]]}',
    "list": "a,b;c:d=e,,;",
    "pattern": "^(a+)+$",
    "CEL": "a" + ".b" * 2000 + "(" * 2000,
}
NUMBERS = [0, -1, 2**31, 2**53 + 1, 2**62, -(2**62), 2**63 - 1]
QUANTITIES: list[Any] = [
    "-1",
    "1e61",
    "1e999999999",
    "9" * 400,
    "٣",
    "x" * (1 << 20),
    "",
    "1Ei",
    "1e-60",
    2**62,
    -5,
    1e300,
]
TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z"]
CONF = load(
    "actions: 'enqueue, reclaim, allocate, preempt, backfill'\ntiers:\n- plugins:\n"
    + "".join(
        f"  - name: {name}\n"
        for name in sorted(default_registry().plugins)
        # calls a service; draws; excludes proportion; answer KAI's actions
        if name not in ("extender", "random", "capacity") and not name.startswith("kai/")
    ),
    catalogue_of(default_registry()),
).conf
KAI = load(
    "dialect: kai\nactions: allocate, consolidation, reclaim, preempt, stalegangeviction\ntiers:\n- plugins:\n"
    + "".join(f"  - name: {name}\n" for name in sorted(default_registry().plugins) if name.startswith("kai/")),
    catalogue_of(default_registry()),
).conf


def innocent() -> list[api.AnyObject]:
    wanted = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["fine"]}}
    own = api.decode("Queue", {"metadata": {"name": "fine"}, "spec": {"weight": 1, "affinity": wanted}})
    there = node("good", cpu=4, memory="8Gi", labels={keys.NODE_GROUP: "fine"})
    return [own, there, *job("innocent", tasks=2, cpu=1, queue="fine")]


def survives(objects: list[api.AnyObject], what: str) -> ClusterState:
    """Take all in, run two cycles: the innocent are placed, no plugin failed, the sums are right; with KAI's too."""
    for conf in (KAI, CONF):
        state = _survives(objects, what, conf)
    return state


def _survives(objects: list[api.AnyObject], what: str, conf: SchedulerConf) -> ClusterState:
    state = ClusterState()
    for obj in [*objects, *innocent(), *objects]:
        state.apply(Seen(obj))
    runtime = Runtime()
    errors: list[str] = []
    for _ in range(2):
        report = run_cycle(state, assemble(conf, default_registry()), runtime)
        errors += report.errors
        state.now += 1.0
    assert errors == [], f"{what}: {str(errors[0])[:300]}"
    placed = [state.tasks[uid].node_name for uid in state.tasks if state.tasks[uid].name.startswith("innocent-")]
    assert len(placed) == 2, what
    assert all(placed), f"{what}: the innocent are not placed"
    assert violations(state) == [], what
    return state


# -- annotations and labels ---------------------------------------------------------------------------------------
SLOW = pytest.mark.slow  # the rest is tried by CI beside the tests


@pytest.mark.parametrize(
    "value", [v if v in ("deep", "digits", "great exponent") else pytest.param(v, marks=SLOW) for v in TEXTS]
)
def test_annotations_and_labels_may_hold_anything(value: str) -> None:
    text = TEXTS[value]
    found: list[api.AnyObject] = []
    for number, key in enumerate(sorted(keys.KEYS)):
        marks = {key: text}
        name = f"bad-{number}"
        [group, *pods] = job(name, tasks=1, cpu=1, annotations=marks, labels=marks, task_annotations=marks)
        found += [group, *pods]
        found.append(marked(node(f"{name}-node", cpu=1), marks))
        found.append(marked(queue(f"{name}-queue"), marks))
        for kind in ("Namespace", "PersistentVolumeClaim", "PersistentVolume"):
            meta = {"name": name, "namespace": "default", "annotations": marks, "labels": marks}
            found.append(api.decode(kind, {"metadata": meta}))
    survives(found, value)


def marked(obj: api.AnyObject, marks: dict[str, str]) -> api.AnyObject:
    meta = msgspec.structs.replace(obj.metadata, labels=marks, annotations=marks)
    return msgspec.structs.replace(obj, metadata=meta)


# -- what comes later -----------------------------------------------------------------------------------------------
def runs(place: str, phase: str = "Running", **marks: Any) -> api.Pod:
    """The pod of one CPU that fills a node."""
    return pod(f"on-{place}", group=f"on-{place}", cpu=1, on=place, phase=phase, **marks)


def ends(place: str, how: str, marks: dict[str, Any]) -> Seen | Gone:
    """The pod's end, in one of the ways in which a pod can end."""
    last = runs(place, how if how in ("Succeeded", "Failed") else "Running", **marks)
    if how == "deleted":
        leaving = msgspec.structs.replace(last.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
        last = msgspec.structs.replace(last, metadata=leaving)
    return Gone("Pod", last.key) if how == "gone" else Seen(last)


GPU_MARKS = (
    {keys.GPU_FRACTION: "0.5", keys.GPU_MEMORY: "1"},
    {keys.GPU_DEVICES: "2"},
    {keys.GPU_FRACTION: "7"},
)


@pytest.mark.parametrize("how", ["Succeeded", "Failed", "deleted", "gone"])
@pytest.mark.parametrize(
    "value",
    [
        v if v in ("deep", "two signs", "a raised digit", "more digits") else pytest.param(v, marks=SLOW)
        for v in [*TEXTS, "GPUs in two ways"]
    ],
)
def test_a_pod_holds_its_room_until_it_ends_whatever_is_written_on_it(value: str, how: str) -> None:
    """What is written is an update of a pod that runs; and what a scheduler sees first that has just started."""
    every = [{key: TEXTS[value]} for key in sorted(keys.KEYS)] if value in TEXTS else GPU_MARKS
    marks = {f"n{n}-{kind}": {kind: said} for n, said in enumerate(every) for kind in ("annotations", "labels")}
    nodes = [queue("default"), *(node(place, cpu=1) for place in marks)]
    groups = [job(f"on-{place}", tasks=0)[0] for place in marks]
    state = ClusterState()
    state.apply_all(Seen(obj) for obj in (*nodes, *groups, *(runs(place) for place in marks)))
    state.apply_all(Seen(runs(place, "Running", **said)) for place, said in marks.items())
    fresh = ClusterState()
    fresh.apply_all(
        Seen(obj) for obj in (*nodes, *groups, *(runs(place, "Running", **said) for place, said in marks.items()))
    )
    for one in (state, fresh):
        assert [place for place in marks if one.nodes[place].idle["cpu"] != 0] == [], "room is given away"
        one.apply_all(ends(place, how, said) for place, said in marks.items())
        assert [place for place in marks if one.nodes[place].future_idle["cpu"] != 1] == [], "room is kept"
        assert violations(one) == []


NUMBER_READERS = {  # names of pods, expressions, an argument of a plugin
    *("model/task.py", "plugins/predicates/cel.py", "plugins/predicates/cel_values.py", "plugins/openb/fgd.py"),
}


def test_one_function_reads_whole_numbers_from_keys() -> None:
    asks = re.compile(r"\.is(?:digit|decimal|numeric)\(")
    deciding = ("model", "state", "engine", "framework", "actions", "plugins", "kai", "workloads", "kube/controllers")
    found = {
        str(path.relative_to(SOURCE))
        for part in deciding
        for path in (SOURCE / part).rglob("*.py")
        if asks.search(path.read_text())
    }
    assert found - NUMBER_READERS - {"kube/controllers/store.py"} == set()


KEY = re.compile(r"[a-z0-9.-]+\.(?:sh|io|dev|com|scheduler|ai)/[A-Za-z0-9._-]+")
NOT_KEYS = {  # resources, a gate, a finalizer, a provisioner, a taint
    *("nvidia.com/gpu", "amd.com/gpu", "volcano.sh/gpu-number", "volcano.sh/gpu-memory"),
    *("scheduling.volcano.sh/queue-allocation-gate", "resource.kubernetes.io/delete-protection"),
    *("kubernetes.io/no-provisioner", "node.kubernetes.io/unschedulable"),
}


def test_only_one_module_names_annotations_and_labels() -> None:
    """Elsewhere no text looks like a key, and no mapping of annotations or labels is asked with a text."""
    texts = re.compile(rf'"({KEY.pattern})"')
    asked = re.compile(r'(?:annotations|labels|notes)(?: or \{\}\))?(?:\.get\(|\[)"([^"]*[/-][^"]*)"')
    found = []
    for path in SOURCE.rglob("*.py"):
        where = path.relative_to(SOURCE)
        if where.parts[0] in ("extender", "testing", "bench") or str(where) == "model/keys.py":
            continue
        source = path.read_text()
        named = {key for key in texts.findall(source) if "/v" not in key} - NOT_KEYS
        found += [f"{where}: {key}" for key in sorted(named | {*asked.findall(source)})]
    assert found == []


# -- trees in one object, and among objects ---------------------------------------------------------------------------
CHAIN = 400
SHAPES: dict[str, list[tuple[str, str]]] = {  # (name, parent)
    "two of one name": [("a", ""), ("a", "")],
    "two of one name in two places": [("r", ""), ("a", "r"), ("a", "")],
    "its own parent": [("a", "a")],
    "a cycle": [("a", "c"), ("b", "a"), ("c", "b")],
    "a cycle beside a root": [("r", ""), ("a", "b"), ("b", "a")],
    "no such parent": [("a", "nowhere")],
    "a chain": [(f"a{n}", f"a{n - 1}" if n else "") for n in range(CHAIN)],
    "a chain, leaf first": [(f"a{n}", f"a{n - 1}" if n else "") for n in reversed(range(CHAIN))],
    "many members": [("r", ""), *((f"a{n}", "r") for n in range(CHAIN))],
    "no name": [("", "")],
}
ACCEPTED = {"many members"}


def kai_group(tree: list[tuple[str, str]]) -> list[api.AnyObject]:
    """A PodGroup of KAI's with these sub-groups, and a pod in the last of them."""
    listed = [{"name": name, "minMember": 1, **({"parent": parent} if parent else {})} for name, parent in tree]
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "fine", "subGroups": listed},
    }
    member = pod("bad-0", group="bad", cpu=1, labels={keys.SUBGROUP_LABEL: tree[-1][0]})
    return [api.decode("PodGroup", group), member]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tree_of_sub_groups_is_looked_at_when_it_is_taken_in(shape: str) -> None:
    """A job whose tree breaks a rule is invalid and says so; it is not scheduled in any dialect."""
    objects = kai_group(SHAPES[shape])
    for conf in (KAI, CONF):
        state = _survives(objects, shape, conf)
        bad = state.jobs["default/bad"]
        if shape not in ACCEPTED:
            assert bad.problem.startswith("PodGroup default/bad: subGroups: "), bad.problem
            assert [t.node_name for t in bad.tasks.values()] == [""]
            assert state.problems["PodGroup", "default/bad"] == bad.problem
        else:
            assert bad.problem == ""


def test_the_pods_of_a_job_count_though_its_sub_groups_become_invalid() -> None:
    """An update that breaks the tree gives nothing back: running pods still count in the queue."""
    limited = {"quota": 0, "limit": 1000, "overQuotaWeight": 1}
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": limited, "memory": free, "gpu": free}}
    [group, member], [broken, _] = kai_group([("a", "")]), kai_group(SHAPES["a cycle"])
    own = api.decode("Queue", {"apiVersion": "scheduling.run.ai/v2", "metadata": {"name": "fine"}, "spec": spec})
    assert isinstance(member, api.Pod)
    running = msgspec.structs.replace(
        member,
        spec=msgspec.structs.replace(member.spec, node_name="good"),
        status=msgspec.structs.replace(member.status, phase="Running"),
    )
    state, runtime = ClusterState(), Runtime()
    state.apply_all(Seen(obj) for obj in (own, node("good", cpu=4), group, running))
    state.apply(Seen(broken))
    state.apply_all(Seen(obj) for obj in job("next", tasks=1, cpu=1, queue="fine"))
    report = run_cycle(state, assemble(KAI, default_registry()), runtime)
    assert report.binds == {}
    assert report.errors == []


@pytest.mark.parametrize("shape", SHAPES)
def test_queues_and_hyper_nodes_may_form_any_tree(shape: str) -> None:
    queues = [
        api.decode("Queue", {"metadata": {"name": name or "x"}, "spec": {"weight": 1, "parent": parent}})
        for name, parent in SHAPES[shape]
    ]
    hyper = [
        api.decode(
            "HyperNode",
            {
                "metadata": {"name": f"h-{name}"},
                "spec": {
                    "tier": 1,
                    "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": f"h-{parent}"}}}],
                },
            },
        )
        for name, parent in SHAPES[shape]
    ]
    survives([*queues, *hyper], shape)


# -- every scalar of every API object -----------------------------------------------------------------------------
WORDS = {
    "operator": "In",
    "effect": "NoSchedule",
    "topologyKey": "kubernetes.io/hostname",
    "phase": "Pending",
    "whenUnsatisfiable": "DoNotSchedule",
    "mode": "hard",
    "type": "Node",
    "status": "True",
    "kind": "Job",
    "schedulerName": "",
    "nodeName": "",
    "state": "Open",
    "pattern": "bad.*",
}
LOOSE: dict[str, dict[str, Any]] = {
    "PersistentVolume": {
        "spec": {
            "storageClassName": "s",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"name": "a", "namespace": "default", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
                }
            },
        },
        "status": {"phase": "Available"},
    },
    "PersistentVolumeClaim": {
        "spec": {
            "storageClassName": "s",
            "volumeName": "",
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"a": "b"}},
        },
        "status": {"phase": "Pending"},
    },
    "CSINode": {
        "spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 3}, "topologyKeys": ["k"]}]}
    },
    "CSIDriver": {"spec": {"storageCapacity": True}},
    "ResourceSlice": {
        "spec": {
            "driver": "d",
            "nodeName": "good",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "g0",
                    "attributes": {"model": {"string": "a"}, "v": {"version": "1.2.3"}},
                    "capacity": {"memory": {"value": "40Gi"}},
                    "taints": [{"key": "k", "effect": "NoSchedule", "value": "v"}],
                    "consumesCounters": [{"counterSet": "c", "counters": {"x": {"value": "1"}}}],
                }
            ],
            "sharedCounters": [{"name": "c", "counters": {"x": {"value": "4"}}}],
        }
    },
    "ResourceClaim": {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "c",
                            "count": 1,
                            "allocationMode": "ExactCount",
                            "selectors": [{"cel": {"expression": 'device.driver == "d"'}}],
                        },
                    }
                ],
                "constraints": [{"requests": ["r"], "matchAttribute": "d/model"}],
            }
        },
        "status": {
            "allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "g0"}]}},
            "reservedFor": [{"resource": "pods", "name": "x", "uid": "u"}],
        },
    },
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "NodeResourceTopology": {
        "zones": [
            {
                "name": "node-0",
                "type": "Node",
                "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}],
            }
        ],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "topologyPolicies": ["SingleNUMANodePodLevel"],
    },
    "Numatopology": {
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"},
            "numares": {"cpu": {"allocatable": "0-3", "capacity": 4}},
            "resReserved": {"cpu": "1"},
            "cpuDetail": {"0": {"numa": 0, "socket": 0, "core": 0}, "1": {"numa": 1, "socket": 0, "core": 1}},
        }
    },
}


def sample(kind: Any, name: str = "") -> Any:
    """Data for a type with every part of it filled."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return sample(next(arg for arg in typing.get_args(kind) if arg is not type(None)), name)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        fields = msgspec.structs.fields(kind)
        return {field.encode_name: sample(hints[field.name], field.encode_name) for field in fields}
    if origin is tuple:
        return [sample(typing.get_args(kind)[0], name)]
    if origin is dict:
        inner = typing.get_args(kind)[1]
        key = "cpu" if inner == api.Quantity else "x"
        return {key: {"y": "z", "n": 1} if inner is Any else sample(inner, name)}
    if kind is datetime:
        return "2026-01-01T00:00:00Z"
    if kind is bool:
        return False
    if kind in (int, float):
        return 1
    return "1" if name in ("allocatable", "cpu") else WORDS.get(name, "x")


def leaves(kind: Any, data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The way to every scalar, with its type; ``Any`` below plain data."""
    origin = typing.get_origin(kind)
    if kind == api.Quantity:
        yield at, api.Quantity
    elif data is None:
        yield at, next(arg for arg in typing.get_args(kind) if arg is not type(None))
    elif origin in (types.UnionType, typing.Union):
        yield from leaves(next(arg for arg in typing.get_args(kind) if arg is not type(None)), data, at)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            if field.encode_name in data:
                yield from leaves(hints[field.name], data[field.encode_name], (*at, field.encode_name))
    elif origin is tuple:
        yield from leaves(typing.get_args(kind)[0], data[0], (*at, 0))
    elif isinstance(data, dict):
        inner = typing.get_args(kind)[1] if origin is dict else Any
        for key, value in data.items():
            yield from leaves(inner, value, (*at, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from leaves(Any, value, (*at, number))
    else:
        yield at, kind


def nasty(kind: Any) -> list[Any]:
    """What a scalar of a type may hold that nobody expects."""
    if kind == api.Quantity:
        return QUANTITIES
    if kind is datetime:
        return TIMES
    if kind is bool:
        return [True, False]
    if kind in (int, float):
        return NUMBERS
    return [*TEXTS.values()] if kind is str else [*TEXTS.values(), *NUMBERS, None, [], {}, [{}], True, 1e300]


def _whole(kind: str) -> bytes:
    data: dict[str, Any] = sample(api.KINDS[kind])
    data["metadata"]["deletionTimestamp"] = None
    data["metadata"]["namespace"] = "default" if api.KINDS[kind].namespaced else ""
    data.update(LOOSE.get(kind, {}))
    if kind == "Pod":
        data["metadata"]["annotations"][keys.GROUP_ANNOTATION] = "bad"
        data["spec"]["schedulingGates"] = None
    return msgspec.json.encode(data)


WHOLE = {kind: _whole(kind) for kind in api.KINDS}


def whole(kind: str) -> dict[str, Any]:
    """An object of a kind in which every part holds something."""
    found: dict[str, Any] = msgspec.json.decode(WHOLE[kind])
    return found


SCALARS = [(kind, at, typ) for kind in sorted(api.KINDS) for at, typ in leaves(api.KINDS[kind], whole(kind))]
ROUNDS = max(len(nasty(typ)) for _, _, typ in SCALARS)


def test_there_are_as_many_scalars_as_the_objects_have() -> None:
    assert len(SCALARS) > 400
    assert {kind for kind, _, _ in SCALARS} == set(api.KINDS)


@pytest.mark.parametrize("turn", [n if n in (0, 2, 5) else pytest.param(n, marks=SLOW) for n in range(ROUNDS)])
def test_a_scalar_of_an_object_may_hold_anything_that_its_type_allows(turn: int) -> None:
    """In each round every scalar, in an object of its own, has its next nasty value."""
    found: list[api.AnyObject] = []
    refused = 0
    for number, (kind, at, typ) in enumerate(SCALARS):
        values = nasty(typ)
        if turn >= len(values):
            continue
        data = whole(kind)
        data["metadata"].update(name=f"bad-{number}", uid=f"uid-{number}")
        inner: Any = data
        for key in at[:-1]:
            inner = inner[key]
        inner[at[-1]] = values[turn]
        try:
            found.append(api.decode(kind, data))
        except InvalidInput:
            refused += 1
    assert found
    assert refused < len(found)
    survives(found, f"round {turn}")


# -- numbers of objects that are ordinary else ---------------------------------------------------------------------
ORDINARY: dict[str, dict[str, Any]] = {
    "Queue": {"spec": {"weight": 1}},
    "Node": {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}},
    "PodGroup": {"spec": {"minMember": 1, "queue": "default"}},
    "Pod": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
}
SHARING = [
    load(
        f"actions: 'enqueue, reclaim, allocate, preempt'\ntiers:\n- plugins: [{{name: gang}}, {{name: drf}}]\n"
        f"- plugins: [{{name: predicates}}, {{name: {sharing}}}, {{name: nodeorder}}]\n",
        catalogue_of(default_registry()),
    ).conf
    for sharing in ("proportion", "capacity")
]


def ordinary(kind: str, at: tuple[Any, ...], value: Any) -> list[api.AnyObject]:
    """An ordinary object but for one value, and what belongs to it. Of the whole one it has the part with the value."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(ORDINARY[kind]))
    data["metadata"] = {"name": "bad", "namespace": "default" if api.KINDS[kind].namespaced else "", "uid": "bad"}
    part = data.setdefault(at[0], {})
    part[at[1]] = whole(kind)[at[0]][at[1]]
    if kind == "Pod":
        data["metadata"].setdefault("annotations", {})[keys.GROUP_ANNOTATION] = "bad"
    inner: Any = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    others: dict[str, list[api.AnyObject]] = {
        "Queue": job("bad", tasks=1, cpu=1, queue="bad"),
        "PodGroup": [pod("bad-0", group="bad", cpu=1)],
        "Pod": job("bad", tasks=0, min_available=1),
    }
    return [api.decode(kind, data), *others.get(kind, [])]


@pytest.mark.slow
def test_no_number_of_an_ordinary_object_changes_what_others_get() -> None:
    """One at a time, where there is room for everybody: a weight, a minimum, a priority beyond all measure."""
    tried, kept_waiting = 0, []
    assemblies = [assemble(conf, default_registry()) for conf in (KAI, *SHARING)]
    for kind, at, typ in SCALARS:
        if kind not in ORDINARY or at[0] == "metadata" or typ not in (int, float, api.Quantity):
            continue
        if at[1] == "guarantee":  # it is there to keep room from others
            continue
        for value in NUMBERS if typ is not api.Quantity else ["1e61", "1Ei", "70000000000000", "-1"]:
            try:
                bad = ordinary(kind, at, value)
            except InvalidInput:
                continue
            for assembly in assemblies:
                tried += 1
                state = ClusterState()
                for obj in [queue("default"), node("good", cpu=64, memory="64Gi"), *bad, *job("innocent", tasks=2)]:
                    state.apply(Seen(obj))
                errors = run_cycle(state, assembly, Runtime()).errors
                placed = [task.node_name for task in state.tasks.values() if task.name.startswith("innocent-")]
                if errors or len(placed) != 2 or not all(placed):
                    kept_waiting.append((kind, at, value))
    assert kept_waiting == []
    assert tried > 500


def test_a_moment_of_creation_may_be_any(scenario: Any) -> None:
    for year in (1, 1970, 9999):
        meta = api.Metadata(name=f"p{year}", namespace="default", creation_timestamp=datetime(year, 1, 1, tzinfo=UTC))
        scenario.add(msgspec.structs.replace(pod(f"p{year}", cpu=1), metadata=meta))


@pytest.mark.slow
def test_data_may_be_nested_as_deep_as_anybody_likes() -> None:
    """Of every kind that has a place for plain data; from where it is read, or refused by name."""
    found: list[api.AnyObject] = []
    places = {(kind, at[:3]): at for kind, at, typ in SCALARS if typ is Any}
    for (kind, _), at in places.items():
        for levels in (200, 5000):
            deep: Any = {}
            for _ in range(levels):
                deep = {"a": [deep]}
            data = whole(kind)
            data["metadata"].update(name=f"deep-{levels}", uid=f"deep-{levels}")
            inner: Any = data
            for key in at[:-1]:
                inner = inner[key]
            inner[at[-1]] = deep
            try:
                found.append(api.decode(kind, data))
            except InvalidInput as refused:
                assert "nested too deep" in str(refused) or "Expected" in str(refused)
    assert len({obj.kind_name for obj in found}) > 5
    survives(found, "nesting")


HIERARCHY = load(
    "actions: 'enqueue, gangreclaim, allocate, gangpreempt, backfill'\ntiers:\n- plugins:\n"
    "  - name: gang\n  - name: predicates\n  - name: capacity\n    enableHierarchy: true\n",
    catalogue_of(default_registry()),
).conf
LINES: dict[str, list[tuple[str, str]]] = {
    "its own parent": [("a", "a")],
    "a circle": [("a", "b"), ("b", "c"), ("c", "a")],
    "a circle through the root": [("root", "a"), ("a", "root")],
    "a parent that is not there": [("a", "b")],
    "no end": [(f"q{n}", f"q{n + 1}") for n in range(1500)] + [("q1500", "root")],
    "no end, and no root": [(f"q{n}", f"q{n + 1}") for n in range(300)],
    "a name that is none": [("", ""), ("a", "")],
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.part(3)
def test_queues_may_hang_on_each_other_in_any_way(line: str) -> None:
    found: list[api.AnyObject] = [
        api.decode("Queue", {"metadata": {"name": name}, "spec": {"weight": 1, "parent": parent}})
        for name, parent in LINES[line]
    ]
    for name, _ in LINES[line][:3]:
        found += job(f"bad-{name}", tasks=1, cpu="100m", queue=name)
    survives(found, line)
    root = api.decode("Queue", {"metadata": {"name": "root"}, "spec": {"weight": 1}})
    _survives([root, *found], line, HIERARCHY)


def test_a_pod_with_the_uid_of_another_is_its_own_problem() -> None:
    [group, *_] = job("bad", tasks=0, min_available=1)
    pods = [pod(f"bad-{n}", group="bad", cpu="100m") for n in range(3)]
    twins = [msgspec.structs.replace(p, metadata=msgspec.structs.replace(p.metadata, uid="same")) for p in pods]
    state = survives([group, *twins], "one UID")
    assert [key for key in state.task_by_key if "bad" in key] == ["default/bad-0"]
    assert any("its UID same is that of pod default/bad-0" in str(problem) for problem in state.problems.values())
    for twin in twins:
        state.apply(Gone("Pod", twin.key))
    assert violations(state) == []
