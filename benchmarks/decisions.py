"""Does the working tree decide as an earlier commit did? Digests of everything that is decided, on every shape.

    python benchmarks/decisions.py                    # digests of the code that is installed
    python benchmarks/decisions.py --against COMMIT   # both, side by side; fails where they differ

A digest is made of every intent of every cycle, with the words of every condition, and of the promises that were
made; a status that was said of the object before is not counted again. The shapes are those of `tools/bench.py` at a
smaller size; `simulation` is the event log of a run of 300 pods on 100 nodes, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import tools_path  # noqa: F401
from pumice_bench import kai_shapes, run, shapes

from pumice.model.intents import StatusUpdate
from pumice.scheduler.report import CycleReport

if TYPE_CHECKING:  # earlier commits, which this is run with too, have it elsewhere
    from pumice_bench.shape import Shape

SIZES: dict[str, Callable[[], Shape]] = {
    "singles": lambda: shapes.singles(600, 600),
    "gangs": lambda: shapes.gangs(600, 20),
    "many-classes": lambda: shapes.many_classes(600, 4),
    "affinity": lambda: shapes.affinity(600, 4),
    "topology": lambda: shapes.topology(600, 60),
    "steady": lambda: shapes.steady(600),
    "fragmented-gangs": lambda: shapes.fragmented_gangs(600, 20),
    "fragmented-singles": lambda: shapes.fragmented_singles(600, 300),
    "reclaim": shapes.reclaim,  # on fewer nodes nobody is evicted
    "preempt": lambda: shapes.preempt(600, 60),
    "own-policy": lambda: shapes.own_policy(600, 20),
    "backlog": lambda: shapes.backlog(300, 600),
    "small-cycle": shapes.small_cycle,
    "kai-allocate": lambda: kai_shapes.allocate(20, 100),
    "kai-consolidation-half": lambda: kai_shapes.consolidation_half(10, 40),
    "kai-consolidation": lambda: kai_shapes.consolidation(20),
    "kai-fill-beside": lambda: kai_shapes.fill_beside(20, 40),
    "kai-topology": lambda: kai_shapes.spread(1, near=True),
    "kai-reclaim": lambda: kai_shapes.reclaim(60),
    "kai-reclaim-half": lambda: kai_shapes.reclaim_half(20),
    "kai-reclaim-last": lambda: kai_shapes.reclaim_last(20),
    "kai-reclaim-singles": lambda: kai_shapes.reclaim_singles(10),
    "kai-reclaim-gangs": lambda: kai_shapes.reclaim_gangs(20),
}


def of_shape(shape: Shape) -> str:
    """The digest of what is decided on a shape."""
    digest, names = hashlib.sha256(), vars(run)
    cycle = names["run_cycle"]
    statuses: dict[str, str] = {}

    def watched(*args: Any, **kw: Any) -> CycleReport:
        report: CycleReport = cycle(*args, **kw)
        for intent in report.intents:
            told = _told(intent)
            if isinstance(intent, StatusUpdate):
                if statuses.get(intent.key) == told:
                    continue
                statuses[intent.key] = told
            digest.update(f"{told}\n".encode())
        digest.update(repr(sorted((job, sorted(tasks.items())) for job, tasks in report.pipelined.items())).encode())
        return report

    names["run_cycle"] = watched
    try:
        run.measure(shape)
    finally:
        names["run_cycle"] = cycle
    return digest.hexdigest()[:16]


def _told(intent: Any) -> str:
    """What an intent says, without what it leaves empty: a field that a commit does not know is no difference."""
    names = getattr(intent, "__struct_fields__", None) or [field.name for field in fields(intent)]
    said = ", ".join(f"{name}={value!r}" for name in names if (value := getattr(intent, name)))
    return f"{type(intent).__name__}({said})"


def of_simulation() -> str:
    """The digest of the event log of a simulation."""
    from pumice.config import DEFAULT_CONF, load
    from pumice.framework.registry import default_registry
    from pumice.scheduler.assembly import assemble, catalogue_of
    from pumice.sim.parts import node
    from pumice.sim.run import Setting, Simulation, default_queue
    from pumice.sim.workload import TraceJobs

    sys.path.insert(0, __file__.rpartition("/")[0])
    from simulate import generator

    registry = default_registry()
    conf = load(DEFAULT_CONF, catalogue_of(registry)).conf
    objects = [default_queue(), *(node(f"node-{n:04d}", "96", "1Ti", 8) for n in range(100))]
    simulation = Simulation(Setting(name="simulate", objects=objects), assemble(conf, registry))
    simulation.run(TraceJobs(queue="default").jobs(list(generator(100, 300).jobs(seed=1))))
    return simulation.log.digest[:16]


def main() -> int:
    """Print the table; 1 where the two sides differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", default=[*SIZES, "simulation"])
    parser.add_argument("--against", metavar="COMMIT")
    given = parser.parse_args()
    if not given.against:
        for name in given.shapes:
            print(name, of_simulation() if name == "simulation" else of_shape(SIZES[name]()), flush=True)
        return 0
    from pumice_bench.trees import checkout_of_pumice, trees

    with trees(checkout_of_pumice(), given.against) as both:
        then, now = (dict(map(str.split, tree.python(0, __file__, *given.shapes).splitlines())) for tree in both)
    for name in given.shapes:
        same = "the same" if then[name] == now[name] else "DIFFERENT"
        print(f"{name:<20} {then[name]}  {now[name]}  {same}")
    return int(then != now)


if __name__ == "__main__":
    sys.exit(main())
