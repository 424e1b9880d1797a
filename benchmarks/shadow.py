"""What a shadow costs: the part of a core that its decisions take at one a second.

A busy cluster, in which each second a gang of 100 arrives and the running scheduler binds it. Prints CPU time of
deciding, and of taking events in, per second of the cluster.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time

import tools_path  # noqa: F401
from msgspec.structs import replace
from pumice_bench import shapes

from pumice.config import DEFAULT_CONF, load
from pumice.framework.registry import default_registry
from pumice.model.api import Pod, PodStatus
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.shadow.follower import Shadow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--arrivals", type=int, default=1, help="a gang of 100 every so many seconds")
    options = parser.parse_args()
    registry = default_registry()
    conf = load(DEFAULT_CONF, catalogue_of(registry), "<default>").conf
    now = 1.8e9
    shadow = Shadow(assemble(conf, registry), beside="benchmark", now=now)
    shape = shapes.steady(options.nodes, 10, options.seconds)
    gc.disable()
    shadow.begin((Seen(obj) for obj in shape.objects), now)
    gc.freeze()
    gc.enable()
    spent: list[float] = []
    before = 0.0
    for second, (seen, _) in enumerate(shape.cycles):
        if second % options.arrivals:
            shadow.step([], now + second + 1)
            continue
        pods = [obj for obj in seen if isinstance(obj, Pod)]
        bound = [
            replace(
                pod, spec=replace(pod.spec, node_name=f"node-{i * 7 % options.nodes:05d}"), status=PodStatus("Running")
            )
            for i, pod in enumerate(pods)
        ]
        events = [*(Seen(obj) for obj in seen), *(Seen(pod) for pod in bound)]
        begun = time.process_time()
        shadow.step(events, now + second + 1)
        spent.append(time.process_time() - begun)
        before = shadow.report().cpu_seconds if second == 9 else before
    report = shadow.report()
    deciding = (report.cpu_seconds - before) / (len(shape.cycles) - 10)
    print(f"{options.nodes:,} nodes, {len(shadow.state.tasks):,} pods, {report.cycles:,} cycles")
    print(f"deciding: {1000 * deciding:.1f} ms a second, {100 * deciding:.2f} % of a core")
    print(f"with events and comparing: {1000 * statistics.median(spent):.1f} ms in a second with a gang")


if __name__ == "__main__":
    main()
