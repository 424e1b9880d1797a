"""Big clusters: what a node and a pod weigh, and what cycles cost, from five thousand to a hundred thousand nodes.

Ten running pods a node, made and forgotten one job at a time as a watch delivers them; each size in a process of its
own. CPU time only.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from pumice.config import from_data
from pumice.errors import PumiceError
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice_bench.children import environment
from pumice_bench.measured import peak_mib
from pumice_bench.objects import GIB, group, node, pod, queue, requests, total
from pumice_bench.run import conf_of
from pumice_bench.shape import Shape

SIZES = (5_000, 20_000, 50_000, 100_000)
PER_NODE, GANG = 10, 100


@dataclass(slots=True)
class Scaled:
    """What a cluster of one size takes. Times are CPU seconds."""

    nodes: int
    pods: int
    node_bytes: float
    pod_bytes: float
    peak_mib: float
    events: float
    """To take in all nodes and pods."""
    first: float
    """The first cycle, in which one gang is bound; later ones too."""
    steady: float
    joined: float
    """A cycle after a node joined whose name is between others."""


def measure(nodes: int, per_node: int = PER_NODE) -> Scaled:
    """Fill a cluster of that size and run cycles on it, in this process."""
    registry = default_registry()
    assembly = assemble(from_data(conf_of(Shape("scale", [], [], 0), registry), catalogue_of(registry)).conf, registry)
    state, runtime, wants = ClusterState(), Runtime(), requests(1000, GIB)
    state.now = 1_800_000_000.0
    state.apply(Seen(queue("default")))
    pods = nodes * per_node
    events = 0.0

    def take_in(objects: list[AnyObject]) -> None:
        nonlocal events

        events += _cpu(lambda: state.apply_all(Seen(obj) for obj in objects))

    def gang(name: str, order: int, *, runs: bool) -> list[AnyObject]:
        phase = "Running" if runs else "Pending"
        at = [f"node-{(order * GANG + i) % nodes:05d}" if runs else "" for i in range(GANG)]
        made: list[AnyObject] = [group(name, GANG, order=order, minimum=total(wants, GANG), phase=phase)]
        return made + [pod(name, i, wants, order=order, node=at[i]) for i in range(GANG)]

    def cycle(number: int) -> float:
        for obj in gang(f"n{number}", pods + number, runs=False):
            state.apply(Seen(obj))
        state.now += 1.0
        bound = 0

        def run() -> None:
            nonlocal bound
            bound = len(run_cycle(state, assembly, runtime).binds)

        took = _cpu(run)
        if bound != GANG:
            raise PumiceError(f"{nodes} nodes, cycle {number}: {bound} binds, right is {GANG}")
        return took

    gc.collect()
    gc.disable()
    empty = _resident()
    for first in range(0, nodes, 1000):
        take_in([node(i) for i in range(first, min(first + 1000, nodes))])
    events += _cpu(state.refresh)
    bare = _resident()
    for j in range(pods // GANG):
        take_in(gang(f"r{j}", j, runs=True))
    events += _cpu(state.refresh)
    full = _resident()
    gc.freeze()
    first_cycle = cycle(0)
    steady = sorted(cycle(n) for n in range(1, 7))[3]
    other = node(0)
    metadata = msgspec.structs.replace(other.metadata, name="node-00000a", uid="u-node-00000a")
    state.apply(Seen(msgspec.structs.replace(other, metadata=metadata)))
    joined = cycle(7)
    gc.unfreeze()
    gc.enable()
    weights = (bare - empty) / nodes, (full - bare) / pods
    return Scaled(nodes, pods, *weights, peak_mib(), events, first_cycle, steady, joined)


def in_child(nodes: int) -> Scaled:
    """Measure one size in a process of its own.

    :raises PumiceError: the child failed; says how.
    """
    command = [sys.executable, "-m", "pumice_bench.scale", str(nodes)]
    child = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or ["no message"]
        raise PumiceError(f"{nodes} nodes: the measurement failed: {last[0]}")
    return Scaled(**json.loads(child.stdout))


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1])))))
