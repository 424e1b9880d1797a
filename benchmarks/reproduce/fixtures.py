"""Philly under FIFO and SJF, SWF logs under FCFS, SJF and EASY: as an independent simulator has them, to the digit.

    python benchmarks/reproduce/fixtures.py --data DIR [--only philly-70-fifo-scan,lublin-easy]

DIR holds ``philly/philly_jobs.csv.gz`` and ``swf/*.swf.gz``. The policies are ordinary configurations: a queue with
``dequeueStrategy: fifo`` stops at the first job that does not fit (strict), with ``traverse`` it goes on (scan);
``sjf`` orders jobs by declared run time; ``binpack`` takes the node with the fewest sufficient free GPUs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.model.api import AnyObject
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.sim.parts import node
from pumice.sim.results import Summary, summarise
from pumice.sim.run import Setting, Simulation, default_queue
from pumice.sim.traces import Trace, read
from pumice.sim.workload import TraceJobs

PHILLY = "philly/philly_jobs.csv.gz"
SLICE = (2_294_959, 7_565_359)


@dataclass(frozen=True)
class Case:
    """One run and the figures it must give, written as they were published: (figure, text)."""

    name: str
    file: str
    want: Mapping[str, str]
    actions: str = "allocate"
    sjf: bool = False
    strict: bool = True
    nodes: int = 0
    """Nodes of 8 GPUs; 0: one machine of interchangeable processors."""
    processors: int = 0
    compress: float = 1


def _philly(nodes: int, policy: str, *figures: str) -> Case:
    names = ("jct_mean", "wait_mean", "wait_p50", "wait_p99", "slowdown", "makespan")
    order, _, mode = policy.partition("-")
    want = dict(zip(names, figures, strict=True))
    return Case(f"philly-{nodes}-{policy}", PHILLY, want, sjf=order == "sjf", strict=mode == "strict", nodes=nodes)


def _swf(log: str, policy: str, *figures: str) -> Case:
    file, processors, compress = {
        "lublin": ("swf/lublin_256.swf.gz", 256, 1),
        "nasa": ("swf/NASA-iPSC-1993-3.1-cln.swf.gz", 128, 2),
    }[log]
    want = dict(zip(("wait_mean", "slowdown", "makespan", "utilisation"), figures, strict=True))
    easy = policy == "easy"
    return Case(
        f"{log}-{policy}",
        file,
        want,
        actions="easybackfill" if easy else "allocate",
        sjf=policy == "sjf",
        processors=processors,
        compress=compress,
    )


CASES = (
    _philly(80, "fifo-strict", "33,355.0", "21,874.6", "1,983", "161,108", "154.77", "6,469,551"),
    _philly(80, "fifo-scan", "15,330.7", "3,850.3", "0", "65,910", "21.87", "6,469,551"),
    _philly(80, "sjf-strict", "13,262.1", "1,781.7", "0", "26,122", "1.65", "6,469,551"),
    _philly(80, "sjf-scan", "12,771.8", "1,291.4", "0", "20,104", "1.68", "6,469,551"),
    _philly(70, "fifo-strict", "130,506.5", "119,026.1", "67,447", "410,165", "784.22", "6,469,551"),
    _philly(70, "fifo-scan", "20,255.3", "8,774.9", "648", "85,453", "40.92", "6,469,551"),
    _philly(70, "sjf-strict", "15,729.2", "4,248.8", "5", "49,424", "2.23", "6,469,551"),
    _philly(70, "sjf-scan", "14,631.8", "3,151.4", "1", "30,986", "2.95", "6,469,551"),
    _swf("lublin", "fcfs", "2,388,443.8", "66,502", "12,482,549", "0.655"),
    _swf("lublin", "easy", "97,156.0", "590.1", "8,730,698", "0.936"),
    _swf("lublin", "sjf", "275,304.2", "53.5", "11,359,058", "0.720"),
    _swf("nasa", "fcfs", "434,117.7", "9,982", "4,640,764", "0.798"),
    _swf("nasa", "easy", "86,272.0", "1,212", "4,056,872", "0.913"),
    _swf("nasa", "sjf", "21,614.4", "31.4", "4,606,369", "0.804"),
)
FIGURES: Mapping[str, Callable[[Summary], float | None]] = {
    "jct_mean": lambda s: s.total.jct.mean if s.total.jct else None,
    "wait_mean": lambda s: s.total.wait.mean if s.total.wait else None,
    "wait_p50": lambda s: s.total.wait.p50 if s.total.wait else None,
    "wait_p99": lambda s: s.total.wait.p99 if s.total.wait else None,
    "slowdown": lambda s: s.total.slowdown.mean if s.total.slowdown else None,
    "makespan": lambda s: s.makespan_s,
    "utilisation": lambda s: s.utilisation.cpu,
}


def conf_of(case: Case) -> dict[str, Any]:
    """The configuration of a case."""
    first = [*([{"name": "sjf"}] if case.sjf else []), {"name": "gang"}]
    packing = [{"name": "binpack", "arguments": {"binpack.resources": "nvidia.com/gpu"}}]
    return {"actions": case.actions, "tiers": [{"plugins": first}, *([{"plugins": packing}] if case.nodes else [])]}


def simulation(case: Case) -> Simulation:
    """The run of a case, ready to start."""
    registry = default_registry()
    assembly: Assembly = assemble(from_data(conf_of(case), catalogue_of(registry)).conf, registry)
    queue = default_queue()
    spec = replace(queue.spec, dequeue_strategy="fifo" if case.strict else "traverse")
    objects: list[AnyObject] = [replace(queue, spec=spec)]
    objects += [node(f"node-{n:03d}", "96", "1Ti", 8) for n in range(case.nodes)]
    if case.processors:
        objects.append(node("machine", str(case.processors), "1Ti", pods=10_000))
    return Simulation(Setting(name=case.name, objects=objects, settle=False), assembly)


def trace_of(case: Case, data: Path) -> Trace:
    """What is played."""
    window = SLICE if case.nodes else None
    return read(data / case.file, window=window, compress=case.compress, rebase=bool(case.nodes), estimates="exact")


def differences(case: Case, summary: Summary) -> list[str]:
    """Figures that differ in a digit that was published."""
    out = []
    for name, text in case.want.items():
        decimals = len(text.partition(".")[2])
        value = FIGURES[name](summary)
        got = "nothing" if value is None else f"{value:,.{decimals}f}"
        if got != text:
            out.append(f"{name}: {got}, must be {text}")
    return out


def main() -> int:
    """Run the cases; 0 if all figures are as published."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    given = parser.parse_args()
    names = [n for n in given.only.split(",") if n]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"--only: {', '.join(sorted(unknown))}: not one of {', '.join(c.name for c in CASES)}")
    wrong = 0
    for case in CASES:
        if names and case.name not in names:
            continue
        trace = trace_of(case, given.data)
        run = simulation(case)
        began = time.perf_counter()
        record = run.run(TraceJobs(merge=bool(case.processors), queue="default").jobs(trace))
        took = time.perf_counter() - began
        found = [run.failure] if run.failure else differences(case, summarise(record))
        wrong += bool(found)
        said = "as published" if not found else "; ".join(found)
        print(f"{case.name:22} {said}  ({len(trace):,} jobs, {run.cycles:,} cycles, {took:.0f} s)", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
