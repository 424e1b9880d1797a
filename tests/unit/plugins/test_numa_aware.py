"""numa-aware: sets of CPUs as text, which CPUs a container gets, and what an object may not say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.model.api import Container, PodSpec, ResourceRequirements
from pumice.plugins.numa_aware.asked_cpus import AskedCpus, Refused, _cpus_of, admit
from pumice.plugins.numa_aware.cpus import CpuTopology, read_cpus, read_like, read_topology, write_cpus

DETAIL = {str(c): {"numa": c // 8, "socket": c // 8, "core": c % 8 // 2} for c in range(16)}


def topology(**spec: Any) -> CpuTopology:
    return read_topology({"cpuDetail": DETAIL, "numares": {"cpu": {"allocatable": "0-15"}}, **spec})


@given(st.sets(st.integers(0, 200)))
def test_a_set_of_cpus_is_read_as_it_is_written(cpus: set[int]) -> None:
    mask = sum(1 << cpu for cpu in cpus)
    assert read_cpus(write_cpus(mask)) == mask


def test_ranges_are_written_as_linux_writes_them() -> None:
    assert write_cpus(read_cpus("3,1,2, 8")) == "1-3,8"
    assert write_cpus(0) == ""


@pytest.mark.parametrize("text", ["a", "1-", "5-2", "0-99999999", "-1", "1,,2", "4096"])
def test_what_is_no_set_of_cpus_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="CPUs"):
        read_cpus(text)


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-15", 8, "0-7"),  # a whole socket
        ("1-15", 8, "8-15"),  # the one that is whole
        ("0-15", 2, "0-1"),  # a whole core
        ("1-15", 2, "2-3"),  # ... in the socket with fewer left
        ("0-15", 11, "0-10"),  # a socket, a core of the other, a thread
        ("0-2,8-15", 1, "2"),  # a thread of a broken core in the tighter socket
        ("0,2,4", 2, "0,2"),
    ],
)
def test_whole_sockets_come_first_then_cores_then_threads(free: str, count: int, taken: str) -> None:
    assert write_cpus(topology().take(read_cpus(free), count)) == taken


@given(st.sets(st.integers(0, 15)), st.integers(0, 16))
def test_as_many_are_taken_as_asked_and_only_free_ones(free: set[int], count: int) -> None:
    mask = sum(1 << cpu for cpu in free)
    taken = topology().take(mask, count)
    assert taken & ~mask == 0
    assert taken.bit_count() == min(count, len(free))


def test_of_equally_few_numa_nodes_the_lowest_are_taken() -> None:
    four = {str(c): {"numa": c // 2, "socket": 0, "core": c} for c in range(8)}
    one = read_topology({"cpuDetail": four, "numares": {"cpu": {"allocatable": "0-7"}}})
    assert one.narrowest(4, read_cpus("0-7")) == (read_cpus("0-3"), 2)
    assert one.narrowest(4, read_cpus("0-1,3-7")) == (read_cpus("0-1,4-5"), 2)
    assert one.narrowest(4, read_cpus("1-6")) == (read_cpus("2-5"), 2)
    assert one.narrowest(9, read_cpus("0-7")) == (0, 0)


@pytest.mark.parametrize(
    "spec",
    [
        {"cpuDetail": {"x": {}}},
        {"cpuDetail": {"0": 7}},
        {"cpuDetail": {"0": {"numa": "a"}}},
        {"cpuDetail": {str(n): {"numa": n} for n in range(17)}},
        {"cpuDetail": "all"},
        {"numares": {"cpu": {"allocatable": "0-999999"}}},
        {"policies": 3},
        {"resReserved": {"cpu": "much"}},
    ],
)
def test_what_cannot_be_read_of_an_object_is_an_error_with_its_name(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        read_topology(spec)


def test_only_cpus_that_the_node_has_are_offered() -> None:
    assert write_cpus(topology(numares={"cpu": {"allocatable": "0-99"}}).offered) == "0-15"


@pytest.mark.parametrize(
    ("policy", "free", "passing", "lasting", "got"),
    [
        # every policy, on two NUMA nodes of 8 CPUs
        ("best-effort", "0-15", [], [8], "0-7"),
        ("best-effort", "4-11", [], [6], "4-9"),  # more NUMA nodes than it need be, where it must
        ("best-effort", "0-3", [], [5], Refused(5, 0, 4)),
        ("restricted", "4-11", [], [4], "4-7"),
        ("restricted", "4-11", [], [6], Refused(6, 1, 4)),
        ("restricted", "0-15", [], [10], "0-9"),  # more than one has on the empty machine
        ("single-numa-node", "0-15", [], [8], "0-7"),
        ("single-numa-node", "4-11", [], [6], Refused(6, 1, 4)),
        ("single-numa-node", "0-15", [], [10], Refused(10, 1, 8)),
        # containers one after the other, each in its own NUMA node
        ("single-numa-node", "0-15", [], [5, 5], "0-4,8-12"),
        ("single-numa-node", "0-15", [], [5, 5, 5], Refused(5, 1, 3)),
        ("single-numa-node", "0-15", [], [0, 3], "0-2"),
        # what init containers had is used again, and they must fit too
        ("single-numa-node", "0-7", [8], [8], "0-7"),
        ("single-numa-node", "0-7", [8, 8], [4, 4], "0-7"),
        ("single-numa-node", "4-11", [6], [2], Refused(6, 1, 4)),
        ("restricted", "4-11", [6], [2], Refused(6, 1, 4)),
        ("best-effort", "4-11", [6], [2], "4-5"),
        ("best-effort", "0-3", [5], [2], Refused(5, 0, 4)),
    ],
)
def test_the_kubelet_would_admit_or_refuse(
    policy: str, free: str, passing: list[int], lasting: list[int], got: str | Refused
) -> None:
    machine = topology(policies={"CPUManagerPolicy": "static", "TopologyManagerPolicy": policy})
    found = admit(machine, read_cpus(free), AskedCpus(tuple(passing), tuple(lasting)))
    assert (write_cpus(found) if isinstance(found, int) else found) == got


def test_sidecars_keep_their_cpus_and_init_containers_do_not() -> None:
    def container(cpu: int, **more: str) -> Container:
        amounts = {"cpu": str(cpu), "memory": "1Gi"}
        return Container(name="c", resources=ResourceRequirements(limits=amounts, requests=amounts), **more)  # type: ignore[arg-type]

    spec = PodSpec(
        init_containers=(container(4), container(1, restart_policy="Always")), containers=(container(2), container(3))
    )
    assert _cpus_of(spec) == AskedCpus((4,), (1, 2, 3))


numbers = st.integers(0, 1)
specs = st.fixed_dictionaries(
    {
        "policies": st.sampled_from(
            [{"CPUManagerPolicy": "static", "TopologyManagerPolicy": p} for p in ("none", "restricted")]
        ),
        "cpuDetail": st.dictionaries(
            st.sampled_from("0123"),
            st.fixed_dictionaries({"numa": numbers, "socket": numbers, "core": numbers}),
            max_size=4,
        ),
        "resReserved": st.sampled_from([{}, {"cpu": "1"}]),
        "numares": st.sampled_from([{}, {"cpu": {"allocatable": "0-3"}}, {"cpu": {"allocatable": "1,3,7"}}]),
    }
)


@given(specs, specs, st.booleans())
def test_a_machine_that_is_like_another_is_read_as_by_itself(one: Any, other: Any, same: bool) -> None:
    if same:
        other = {**one, "numares": other["numares"]}
    found = read_like(other, one, read_topology(one))
    machines = [{key: spec[key] for key in ("policies", "cpuDetail", "resReserved")} for spec in (one, other)]
    assert found == (read_topology(other) if machines[0] == machines[1] else None)
