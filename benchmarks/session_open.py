"""What opening a session costs on a big cluster of which little changed.

    python benchmarks/session_open.py

Opens a session with the default plugins on 10,000 nodes and 100,000 running pods after 100 pods changed, then the same
with twice the running pods, and prints both and their ratio. Prints, never fails: the machine may be noisy.
"""

from __future__ import annotations

import gc
import statistics
import time

import tools_path  # noqa: F401
from pumice_bench.run import conf_of
from pumice_bench.shape import Objects
from pumice_bench.shapes import steady

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.state.cluster import ClusterState

ROUNDS = 15


def changed(pod: api.Pod, n: int) -> api.Pod:
    """The pod with another status: what a kubelet's update looks like to us."""
    conditions = (api.Condition(type="Ready", status=str(n)),)
    status = api.PodStatus(phase=pod.status.phase, conditions=conditions)
    return api.Pod(metadata=pod.metadata, spec=pod.spec, status=status)


def measure(running_per_node: int) -> tuple[float, float]:
    """(median seconds to take in 100 changed pods, median seconds to open a session after that)."""
    registry = default_registry()
    shape = steady(10_000, running_per_node, cycles=0)
    assembly = assemble(from_data(conf_of(shape, registry), catalogue_of(registry)).conf, registry)
    state, runtime = ClusterState(), Runtime()
    objects: Objects = shape.objects
    for obj in objects:
        state.apply(Seen(obj))
    pods = [o for o in objects if isinstance(o, api.Pod)][:100]
    gc.collect()
    gc.freeze()
    events, opens = [], []
    for n in range(ROUNDS + 1):
        begun = time.perf_counter()
        for pod in pods:
            state.apply(Seen(changed(pod, n)))
        middle = time.perf_counter()
        session = Session(
            state,
            tiers=assembly.tiers(),
            actions=assembly.conf.actions,
            compat=assembly.compat,
            runtime=runtime,
            signature=assembly.conf.digest,
        ).open()
        done = time.perf_counter()
        session.close()
        if n:  # the first session meets everything for the first time
            events.append(middle - begun)
            opens.append(done - middle)
    gc.unfreeze()
    return statistics.median(events), statistics.median(opens)


def main() -> None:
    """Print the table."""
    rows = [(per_node * 10_000, *measure(per_node)) for per_node in (10, 20)]
    print(f"{'running pods':>14} {'100 events':>12} {'session open':>14}")
    for pods, events, opened in rows:
        print(f"{pods:>14,} {events * 1e3:>9.2f} ms {opened * 1e3:>11.3f} ms")
    print(f"twice the running pods: {rows[1][2] / rows[0][2]:.2f} x the time to open")


if __name__ == "__main__":
    main()
