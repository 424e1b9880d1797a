"""Every task that numa-aware binds gets its CPUs from a kubelet that keeps its own books, in any story."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lawful import lawful

from pumice.framework.session.runtime import Runtime
from pumice.model.api import decode
from pumice.testing import Scenario, node

POLICIES = ("best-effort", "restricted", "single-numa-node")
PLUGINS = ["gang", "predicates", "nodeorder", "numa-aware"]


class Kubelet:
    """A node that gives CPUs out and looks only at sets: nothing here is shared with the plugin."""

    def __init__(self, name: str, policy: str, zones: int, each: int, reserved: int) -> None:
        self.name, self.policy, self.reserved = name, policy, reserved
        self.zones = [set(range(z * each, (z + 1) * each)) for z in range(zones)]
        self.pool = set().union(*self.zones)
        self.given: dict[str, set[int]] = {}

    @property
    def cpus(self) -> int:
        return sum(map(len, self.zones))

    def admit(self, pod: str, asked: Sequence[int], pick: Any) -> None:
        """Give a pod its CPUs, from the best place and there any; a refusal is a broken law."""
        mine: set[int] = set()
        for count in asked:
            usable = self.pool - mine - set(range(self.reserved))
            ways = [c for n in range(1, len(self.zones) + 1) for c in combinations(range(len(self.zones)), n)]
            least = min((len(w) for w in ways if sum(len(self.zones[z]) for z in w) >= count), default=len(self.zones))
            fitting = [w for w in ways if sum(len(self.zones[z] & usable) for z in w) >= count]
            best = min(fitting, key=lambda w: (len(w), sum(2**z for z in w)), default=())
            assert best, f"{self.name}: {pod} asks for {count} CPUs of {len(usable)}"
            assert self.policy == "best-effort" or len(best) == least, f"{self.name}: {pod} is spread over {best}"
            assert self.policy != "single-numa-node" or len(best) == 1
            mine |= set(pick(sorted(set().union(*(self.zones[z] for z in best)) & usable), count))
        self.given[pod] = mine
        self.pool -= mine

    def end(self, pod: str) -> None:
        self.pool |= self.given.pop(pod, set())

    def report(self) -> Any:
        detail = {str(c): {"numa": z, "socket": z, "core": c} for z, zone in enumerate(self.zones) for c in zone}
        spec = {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": self.policy},
            "numares": {"cpu": {"allocatable": ",".join(map(str, sorted(self.pool))), "capacity": self.cpus}},
            "resReserved": {"cpu": str(self.reserved)},
            "cpuDetail": detail,
        }
        return decode("Numatopology", {"metadata": {"name": self.name}, "spec": spec})


kubelets = st.tuples(st.sampled_from(POLICIES), st.integers(1, 3), st.sampled_from([2, 4, 6]), st.integers(0, 1))
pods = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=2)
steps = st.one_of(
    st.tuples(st.just("job"), st.lists(pods, min_size=1, max_size=2), st.sampled_from(["", *POLICIES])),
    st.tuples(st.sampled_from(["end", "report", "restart"]), st.integers(0, 5), st.just("")),
)


def _pod(name: str, group: str, asked: Sequence[int], policy: str) -> Any:
    notes = {"scheduling.k8s.io/group-name": group, **({"volcano.sh/numa-topology-policy": policy} if policy else {})}
    amounts = [{"cpu": str(count), "memory": "1Mi"} for count in asked]
    containers = [{"name": f"c{n}", "resources": {"limits": a, "requests": a}} for n, a in enumerate(amounts)]
    meta = {"name": name, "namespace": "default", "annotations": notes}
    spec = {"containers": containers, "schedulerName": "pumice"}
    return decode("Pod", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def _group(name: str, least: int) -> Any:
    meta = {"name": name, "namespace": "default"}
    return decode("PodGroup", {"metadata": meta, "spec": {"minMember": least, "queue": "default"}})


@lawful(40)
@given(st.lists(kubelets, min_size=1, max_size=3), st.lists(steps, min_size=2, max_size=10), st.randoms())
def test_no_kubelet_refuses_what_was_bound(drawn: list[Any], story: list[Any], luck: Any) -> None:
    machines = {f"n{n}": Kubelet(f"n{n}", *one) for n, one in enumerate(drawn)}
    scenario = Scenario()
    asked: dict[str, Sequence[int]] = {}
    for machine in machines.values():
        scenario.add(node(machine.name, cpu=machine.cpus), machine.report())
    for at, (what, which, policy) in enumerate(story):
        running = [(m, pod) for m in machines.values() for pod in m.given]
        if what == "job":
            scenario.add(_group(f"j{at}", len(which)))
            for n, counts in enumerate(which):
                asked[f"default/j{at}-{n}"] = counts
                scenario.add(_pod(f"j{at}-{n}", f"j{at}", counts, policy))
        elif what == "end" and running:
            machine, pod = running[which % len(running)]
            machine.end(pod)
            scenario.finish(pod)
        elif what == "report":
            machine = [*machines.values()][which % len(machines)]
            scenario.add(machine.report())
        elif what == "restart":  # what runs has been told by then; what is on its way has not
            for machine in machines.values():
                scenario.add(machine.report())
            scenario.runtime = Runtime()
        done = scenario.run(actions=["enqueue", "allocate", "backfill"], plugins=PLUGINS)
        assert done.errors == []
        for pod, place in done.binds.items():
            machines[place].admit(pod, asked[pod], luck.sample)


def test_cpus_are_promised_until_the_node_shows_them_taken_even_if_it_took_others() -> None:
    machine = Kubelet("n0", "single-numa-node", 2, 4, 0)
    scenario = Scenario(node("n0", cpu=8), machine.report())

    def arrives(name: str, cpus: int) -> None:
        scenario.add(_group(name, 1), _pod(f"{name}-0", name, [cpus], "single-numa-node"))

    arrives("a", 3)
    scenario.run(actions=["enqueue", "allocate"], plugins=PLUGINS)
    arrives("b", 3)
    arrives("c", 2)
    scenario.run()
    scenario.assert_bound("a")
    scenario.assert_bound("b")
    scenario.assert_pending("c", because="not 2 CPUs for one container in 1 NUMA node (1 free in the roomiest)")
    machine.admit("a", [3], lambda usable, count: usable[-count:])  # others than were foreseen
    machine.admit("b", [3], lambda usable, count: usable[-count:])
    scenario.add(machine.report())
    scenario.run()
    assert not scenario.runtime.memory["numa-aware"]["cpus"]
    machine.end("a")
    scenario.finish("a-0")
    scenario.add(machine.report())
    scenario.run()
    scenario.assert_bound("c")
