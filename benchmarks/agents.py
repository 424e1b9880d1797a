"""How long an agent waits: every tool of ``pumice mcp`` with 10,000 waiting jobs on 1,000 nodes.

``python benchmarks/agents.py`` prints, per tool, the median, the 95th percentile and the longest of its answers in
milliseconds, the same of the CPU time of its process, which a busy machine changes less, and the bytes of the largest.
The cluster is one in which a scheduler has run, as that of a live scheduler or a saved cycle. ``what_if`` works in a
process of its own, and its CPU time is that of both.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from typing import Any

import msgspec

from pumice.answers.service import Answers
from pumice.config import DEFAULT_CONF, load
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.mcp.knowledge import LocalKnowledge
from pumice.mcp.tools import Tools
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import NextCycle
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue
from pumice.testing.world import flat

QUEUES = ("research", "vision", "platform")
NODES, WAITING, ASKED = 1000, 10_000, 40
ASKS = (
    *("why_pending", "who_waits", "queue_standing", "audit_fairness", "would_fit", "conf_lint", "conf_explain"),
    *("when_starts", "what_if"),
)
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: new, namespace: team}
spec:
  minAvailable: 2
  tasks:
  - {name: w, replicas: 2, template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}}}
"""


def cluster() -> Answers:
    """Full nodes, and the jobs that wait for them."""
    registry, state = default_registry(), ClusterState()
    state.now = 1.8e9
    objects: list[Any] = [queue("default"), *(queue(name, weight=2) for name in QUEUES)]
    for n in range(NODES):
        on, team, name = f"a100-{n:04}", f"team-{n % 40}", QUEUES[n % 3]
        objects.append(node(on, cpu=64, gpu=8))
        objects.append(job(f"runs-{n}", namespace=team, queue=name, tasks=2, cpu=24, gpu=4, on=on))
    for n in range(WAITING):
        objects.append(job(f"waits-{n}", namespace=f"team-{n % 40}", queue=QUEUES[n % 3], cpu=32, gpu=4 + n % 4))
    state.apply_all(Seen(obj) for obj in flat(objects))
    conf = load(DEFAULT_CONF, catalogue_of(registry), "<default>").conf
    desk = Answers(NextCycle(state, assemble(conf, registry), Runtime()), source="cycle")
    for _ in range(3):
        run_cycle(state, desk.cycle.assembly, desk.cycle.runtime)
    gc.freeze()  # as `pumice mcp` does
    return desk


async def main() -> None:
    """Ask, and print."""
    tools = Tools(LocalKnowledge(cluster()), default_registry())
    for name in ASKS:
        spent, cpu, largest = [], [], 0
        for n in range(ASKED if name != "what_if" else 5):
            number = n * 37 % WAITING
            arguments: dict[str, dict[str, Any]] = {
                "why_pending": {"job": f"team-{number % 40}/waits-{number}"},
                "when_starts": {"job": f"team-{number % 40}/waits-{number}"},
                "queue_standing": {"queue": QUEUES[n % 3]},
                "would_fit": {"manifest": JOB},
                "what_if": {"queues": {"research": {"weight": 4 + n}}},
            }
            begun, own = time.perf_counter(), cpu_time()
            found = await tools.call(name, arguments.get(name, {}))
            spent.append(1000 * (time.perf_counter() - begun))
            cpu.append(1000 * (cpu_time() - own))
            assert not found.failed, found.data
            largest = max(largest, len(msgspec.json.encode(found.data)))
        print(f"{name:15} {told(spent)} ms; CPU {told(cpu)} ms; at most {largest:,} bytes", flush=True)


def cpu_time() -> float:
    """Of this process and of those that it started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def told(spent: list[float]) -> str:
    """Some times in a few numbers."""
    ordered = sorted(spent)
    middle, high = ordered[len(ordered) // 2], ordered[int(0.95 * len(ordered))]
    return f"median {middle:5.0f}, p95 {high:5.0f}, most {ordered[-1]:5.0f}"


if __name__ == "__main__":
    asyncio.run(main())
