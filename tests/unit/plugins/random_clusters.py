"""Random small clusters as manifests, and a board on which pods are placed, evicted and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from kube_rules import Json, Place

from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.events import Gone, Seen
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

HOST, ZONE = "kubernetes.io/hostname", "zone"

apps = st.sampled_from(["a", "b", "c"])
selectors = st.one_of(
    st.builds(lambda a: {"matchLabels": {"app": a}}, apps),
    st.builds(
        lambda op, v: {"matchExpressions": [{"key": "app", "operator": op, "values": v}]},
        st.sampled_from(["In", "NotIn"]),
        st.lists(apps, min_size=1, max_size=2),
    ),
    st.just({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    st.just({}),
    st.none(),
)
node_lines = st.one_of(
    st.builds(
        lambda k, op, v: {"key": k, "operator": op, "values": [v]},
        st.sampled_from([ZONE, "disk"]),
        st.sampled_from(["In", "NotIn"]),
        st.sampled_from(["x", "y", "ssd"]),
    ),
    st.builds(
        lambda k, op: {"key": k, "operator": op},
        st.sampled_from([ZONE, "disk"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        lambda op, v: {"key": "size", "operator": op, "values": [v]},
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from(["2", "5"]),
    ),
)
node_terms = st.one_of(
    st.builds(lambda lines: {"matchExpressions": lines}, st.lists(node_lines, max_size=2)),
    st.builds(
        lambda op, v: {"matchFields": [{"key": "metadata.name", "operator": op, "values": [v]}]},
        st.sampled_from(["In", "NotIn"]),
        st.sampled_from(["n0", "n1"]),
    ),
)
taints = st.builds(
    lambda k, v, e: {"key": k, "value": v, "effect": e},
    st.sampled_from(["t", "u"]),
    st.sampled_from(["", "1"]),
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
tolerations = st.one_of(
    st.builds(
        lambda k, v, e: {"key": k, "operator": "Equal", "value": v, "effect": e},
        st.sampled_from(["t", "u"]),
        st.sampled_from(["", "1"]),
        st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
    ),
    st.builds(
        lambda k: {"key": k, "operator": "Exists"}, st.sampled_from(["t", "", "node.kubernetes.io/unschedulable"])
    ),
)
keys = st.sampled_from([HOST, ZONE])
pod_terms = st.builds(
    lambda s, k, n: {"labelSelector": s, "topologyKey": k, **n},
    selectors,
    keys,
    st.sampled_from([{}, {}, {"namespaces": ["other"]}, {"namespaceSelector": {}}]),
)
weighted_pod_terms = st.builds(lambda w, t: {"weight": w, "podAffinityTerm": t}, st.integers(1, 100), pod_terms)
spreads = st.builds(
    lambda skew, key, when, s, more: {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": s,
        **more,
    },
    st.integers(1, 2),
    keys,
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    selectors,
    st.fixed_dictionaries(
        {},
        optional={
            "minDomains": st.integers(1, 3),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.just(["app"]),
        },
    ),
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Json:
    labels = {HOST: name} if draw(st.integers(0, 5)) else {}
    for key, values in ((ZONE, ["x", "y"]), ("disk", ["ssd"]), ("size", ["1", "4", "big"])):
        value = draw(st.sampled_from([*values, None]))
        if value is not None:
            labels[key] = value
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": draw(st.lists(taints, max_size=2)), "unschedulable": draw(st.integers(0, 5)) == 0},
        "status": {
            "allocatable": {
                "cpu": draw(st.sampled_from(["4", "7", "3500m"])),
                "memory": draw(st.sampled_from(["4096Mi", "9000Mi"])),
                "pods": draw(st.sampled_from(["2", "110"])),
            }
        },
    }


def _required(name: str, rules: list[Any]) -> Json:
    return {f"{name}DuringSchedulingIgnoredDuringExecution": rules}


@st.composite
def pods(draw: st.DrawFn, name: str, node: str | None) -> Json:
    requests = draw(
        st.fixed_dictionaries(
            {}, optional={"cpu": st.sampled_from(["1", "700m", "0"]), "memory": st.sampled_from(["512Mi", "1000Mi"])}
        )
    )
    port = draw(st.sampled_from([None, None, (80, "TCP", ""), (80, "UDP", ""), (80, "TCP", "10.0.0.1")]))
    container: Json = {"name": "c", "resources": {"requests": requests}}
    if port is not None:
        container["ports"] = [{"containerPort": 1, "hostPort": port[0], "protocol": port[1], "hostIP": port[2]}]
    affinity: Json = {}
    if draw(st.integers(0, 2)) == 0:
        affinity["nodeAffinity"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "requiredDuringSchedulingIgnoredDuringExecution": st.builds(
                        lambda t: {"nodeSelectorTerms": t}, st.lists(node_terms, min_size=1, max_size=2)
                    ),
                    "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
                        st.builds(lambda w, t: {"weight": w, "preference": t}, st.integers(1, 100), node_terms),
                        max_size=2,
                    ),
                },
            )
        )
    for kind in ("podAffinity", "podAntiAffinity"):
        if draw(st.integers(0, 2)) == 0:
            affinity[kind] = {
                **_required("required", draw(st.lists(pod_terms, max_size=2))),
                **_required("preferred", draw(st.lists(weighted_pod_terms, max_size=2))),
            }
    return {
        "metadata": {
            "name": name,
            "namespace": draw(st.sampled_from(["here", "here", "other"])),
            "uid": name,
            "labels": draw(st.sampled_from([{}, {"app": "a"}, {"app": "b"}, {"app": "a", "v": "1"}])),
        },
        "spec": {
            "containers": [container],
            "nodeSelector": draw(st.sampled_from([{}, {}, {ZONE: "x"}, {"disk": "ssd"}])),
            "affinity": affinity,
            "tolerations": draw(st.lists(tolerations, max_size=2)),
            "topologySpreadConstraints": draw(st.lists(spreads, max_size=2)),
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """(nodes, pods), some of the pods running."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 5)))]
    made = [draw(nodes(name)) for name in names]
    running = [draw(pods(f"r{i}", draw(st.sampled_from(names)))) for i in range(draw(st.integers(0, 5)))]
    waiting = [draw(pods(f"w{i}", None)) for i in range(draw(st.integers(1, 3)))]
    return made, running + waiting


moves = st.lists(
    st.tuples(st.sampled_from(["allocate", "pipeline", "evict", "undo"]), st.integers(0, 9), st.integers(0, 9)),
    max_size=6,
)


class Board:
    """A cluster in the scheduler's state beside the same cluster as manifests."""

    def __init__(self, made: Sequence[Json], pods: Sequence[Json]) -> None:
        self.state = ClusterState()
        self.runtime = Runtime()
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        for node in made:
            self.see_node(node)
        for pod in pods:
            self.pods[pod["metadata"]["name"]] = pod
            self.state.apply(Seen(api.decode("Pod", pod)))

    def see_node(self, node: Json) -> None:
        """A node is new or changed."""
        self.nodes[node["metadata"]["name"]] = node
        self.state.apply(Seen(api.decode("Node", node)))

    def lose_node(self, name: str) -> None:
        """A node is gone."""
        del self.nodes[name]
        self.state.apply(Gone("Node", name))

    def open(self, plugin: type[Plugin], **arguments: Any) -> Session:
        """A new session with one plugin."""
        ssn = Session(self.state, runtime=self.runtime)
        ssn.open_plugin(plugin(Arguments({k.replace("__", "."): v for k, v in arguments.items()})))
        assert not ssn.errors
        return ssn

    def play(self, ssn: Session, steps: Sequence[tuple[str, int, int]]) -> None:
        """Place, promise, evict and take back, in one statement that stays open."""
        statement = ssn.statement()
        for what, one, two in steps:
            names = sorted(self.nodes)
            node = self.state.nodes[names[two % len(names)]]
            if what == "undo":
                statement.rollback(one % (len(statement) + 1))
                continue
            wanted = TaskStatus.RUNNING if what == "evict" else TaskStatus.PENDING
            ready = [t for _, t in sorted(self.state.tasks.items()) if t.status is wanted]
            ready = [t for t in ready if what != "evict" or t.node is not None]
            if not ready:
                continue
            task = ready[one % len(ready)]
            if what == "evict":
                statement.evict(task, "test")
            elif what == "allocate":
                statement.allocate(task, node)
            else:
                statement.pipeline(task, node)

    def places(self) -> list[Place]:
        """What stands where, as manifests, evicted pods left out."""
        out = []
        for name in sorted(self.nodes):
            tasks = [t for t in self.state.nodes[name].tasks.values() if not t.evicted]
            place = Place(self.nodes[name], [self.pods[t.name] for t in tasks])
            place.leaving = [self.pods[t.name] for t in tasks if t.status is TaskStatus.RELEASING]
            out.append(place)
        return out

    def waiting(self) -> list[Task]:
        """Tasks without a place."""
        return [t for _, t in sorted(self.state.tasks.items()) if t.status is TaskStatus.PENDING]

    def in_order(self) -> list[Node]:
        """The nodes in the order of `places`."""
        return [self.state.nodes[name] for name in sorted(self.nodes)]
