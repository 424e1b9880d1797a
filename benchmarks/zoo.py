"""The policies of examples/research on public data, beside what their papers claim.

    python benchmarks/zoo.py --data DIR [--only easy,las,elastic,dominant-share,fragmentation] [--plot FILE]

DIR holds ``philly/philly_jobs.csv.gz``, ``swf/*.swf.gz`` and ``openb/*.csv``. Prints one table for each policy; --plot
draws them. docs/zoo.md has the claims, and says where the two differ and why.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from reproduce import openb

import pumice
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.traces import OpenbOptions, Trace, read, read_nodes

POLICIES = Path(__file__).parents[1] / "examples" / "research" / "policies"
DAYS = (49 * 86_400, 53 * 86_400)
"""Four days of the Philly log in which jobs ask for more than 560 GPUs; they begin on an empty cluster."""
FIGURES = {"mean wait": "wait.mean", "mean completion": "jct.mean", "slowdown": "slowdown.mean"}
Rows = dict[str, dict[str, float]]
"""Figures by configuration."""


def main() -> int:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default=",".join(EXPERIMENTS))
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    tables: dict[str, Rows] = {}
    for name in given.only.split(","):
        began = time.process_time()
        tables[name] = EXPERIMENTS[name](given.data)
        show(name, tables[name])
        print(f"{time.process_time() - began:.0f} s of CPU\n", file=sys.stderr)
    if given.plot is not None:
        plot(tables, given.plot)
    return 0


def conf(*plugins: Any, actions: str = "allocate") -> dict[str, Any]:
    """A configuration: the policy, gangs and filters."""
    listed = [{"name": p} if isinstance(p, str) else p for p in (*plugins, "gang", "predicates")]
    return {"actions": actions, "tiers": [{"plugins": listed}]}


def played(scenario: Mapping[str, Any], policies: Mapping[str, Any], **options: Any) -> Rows:
    """The figures of one run of each policy."""
    study = pumice.simulate(scenario, dict(policies), plugins_dir=POLICIES, keep_records=False, **options)
    if study.lost or any(done.failure for done in study.results.played.values()):
        raise SystemExit(f"{[*study.lost, *study.results.played.values()]}")
    names = [str(name) for name in study.runs["configuration"]]
    keys = {**FIGURES, "fairness of shares": "fairness.share", "evictions": "evictions"}
    return {name: {key: float(study.runs[figure][at]) for key, figure in keys.items()} for at, name in enumerate(names)}


# -- machines of interchangeable processors: EASY and conservative backfilling ---------------------------------------
LOGS = {"Lublin": ("swf/lublin_256.swf.gz", 256, 1.0), "NASA": ("swf/NASA-iPSC-1993-3.1-cln.swf.gz", 128, 2.0)}


def backfilling(data: Path) -> Rows:
    """FCFS, EASY and conservative backfilling with exact run times, and with three times as long ones declared."""
    found: Rows = {}
    for log, (file, processors, compress) in LOGS.items():
        trace = read(data / file, compress=compress, limit=3_000)
        for factor in (1, 3):
            jobs = one_pod_each(trace, factor)
            machine = {"name": "machine", "cpu": processors, "memory": "1Ti", "pods": 10_000}
            scenario: dict[str, Any] = {"cluster": {"nodes": [machine]}, "cycles": {"settle": False}}
            policies = {"EASY": conf("easy"), "conservative": conf("conservative")}
            rows = played(scenario, policies, jobs=jobs)
            if factor == 1:
                strict = {**scenario, "queues": [{"name": "default", "dequeueStrategy": "fifo"}]}
                rows = {**played(strict, {"FCFS": conf()}, jobs=jobs), **rows}
            found |= {f"{log}, {name}" + (f", {factor} × declared" * (factor > 1)): row for name, row in rows.items()}
    return found


def one_pod_each(trace: Trace, factor: float) -> dict[str, list[Any]]:
    """The jobs as a table, each with all its processors in one pod and a declared run time."""
    return {
        "job": [job.name for job in trace],
        "submit_s": [job.submit_s for job in trace],
        "duration_s": [job.duration_s for job in trace],
        "cpu": [sum(pod.count for pod in job.pods) for job in trace],
        "declared_s": [factor * job.duration_s for job in trace],
    }


# -- Philly's GPUs: shortest first, Tiresias, elastic jobs -----------------------------------------------------------
def philly(data: Path, **more: Any) -> dict[str, Any]:
    """Four days of the log on 70 nodes of 8 GPUs, in one queue that is scanned."""
    trace = {
        "file": "philly_jobs.csv.gz",
        "window": list(DAYS),
        "rebase": True,
        "estimates": "exact",
        "queue": "default",
    }
    nodes = [{"name": "n", "count": 70, "cpu": 96, "memory": "1Ti", "gpu": 8}]
    return {"cluster": {"nodes": nodes}, "workload": {"trace": trace}, "cycles": {"settle": False}, **more}


BINPACK = {"name": "binpack", "arguments": {"binpack.resources": "nvidia.com/gpu"}}
STRICT = {"queues": [{"name": "default", "dequeueStrategy": "fifo"}]}


def shortest(data: Path) -> Rows:
    """First come first served against shortest first."""
    policies = {"first come": conf(BINPACK), "shortest first": conf("shortest", BINPACK)}
    return played(philly(data), policies, data=data / "philly")


def las(data: Path) -> Rows:
    """Tiresias against strict FIFO, as YARN has it, and against shortest first, which knows run times."""
    folder = data / "philly"
    rows = played(philly(data, **STRICT), {"strict FIFO": conf(BINPACK)}, data=folder)
    rows |= shortest(data)
    scenario = philly(data, checkpoint="10m", costs={"restart": "60s"})
    scenario["cycles"] = {"settle": False, "every": "5m"}
    return rows | played(scenario, {"Tiresias 2D-LAS": preempting("las")}, data=folder)


def preempting(name: str) -> dict[str, Any]:
    """A configuration with a policy that may preempt."""
    gang = {"name": "gang", "enablePreemptable": False}
    plugins = [{"name": name}, gang, {"name": "predicates"}, BINPACK]
    return {"actions": "enqueue, allocate, preempt", "tiers": [{"plugins": plugins}]}


def elastic(data: Path) -> Rows:
    """Rigid gangs under FIFO and Tiresias against gangs that may start with one pod and change their size."""
    jobs = one_gpu_pods(read(data / "philly" / "philly_jobs.csv.gz", window=DAYS, rebase=True))
    nodes = [{"name": "n", "count": 70, "cpu": 96, "memory": "1Ti", "gpu": 8}]
    scenario: dict[str, Any] = {
        "cluster": {"nodes": nodes},
        "checkpoint": "10m",
        "costs": {"restart": "60s", "resize": "30s"},
        "cycles": {"settle": False},
    }
    rows = played(scenario, {"rigid, FIFO": conf(BINPACK)}, jobs=jobs)
    clocked = {**scenario, "cycles": {"settle": False, "every": "5m"}}
    rows |= played(clocked, {"rigid, Tiresias 2D-LAS": preempting("las")}, jobs=jobs)
    jobs["min_available"] = [1] * len(jobs["job"])
    growing = {**scenario, "speed": {"pods": {1: 1, 2: 1.9, 4: 3.6, 8: 6.8, 128: 80}}}
    return rows | played(growing, {"elastic": preempting("elastic-share")}, jobs=jobs)


def one_gpu_pods(trace: Trace) -> dict[str, list[Any]]:
    """The jobs as a table, each as a gang of pods of one GPU."""
    return {
        "job": [job.name for job in trace],
        "submit_s": [job.submit_s for job in trace],
        "duration_s": [job.duration_s for job in trace],
        "tasks": [round(job.gpus) for job in trace],
        "min_available": [round(job.gpus) for job in trace],
        "gpu": [1] * len(trace),
    }


# -- Alibaba's shared GPUs: dominant shares, fragmentation -------------------------------------------------------------
def dominant_share(data: Path) -> Rows:
    """Pods with and without GPUs in two queues on 60 nodes, by submission and by dominant shares."""
    pods = read(data / "openb" / "openb_pod_list_cpu250.csv", limit=2_500)
    scenario = {
        "cluster": {"nodes": [{"name": "n", "count": 60, "cpu": 40, "memory": "512Gi", "gpu": 6}]},
        "cycles": {"settle": False},
    }
    jobs = {
        "job": [job.name for job in pods],
        "submit_s": [at * 15.0 for at in range(len(pods))],
        "duration_s": [3_600.0 + 7 * (at * 7919 % 7_200) for at in range(len(pods))],
        "queue": [f"{'gpu' if job.gpus else 'cpu'}" for job in pods],
        "cpu": [f"{job.pods[0].cpu_milli}m" for job in pods],
        "memory": [str(job.pods[0].memory_bytes) for job in pods],
        "gpu": [job.pods[0].gpu_devices for job in pods],
    }
    return played(scenario, {"first come": conf(), "dominant shares": conf("dominant-share")}, jobs=jobs)


def fragmentation(data: Path) -> Rows:
    """GPU allocation at 95 and 100 % of the arrived load, one seed of the published experiment."""
    folder = data / "openb"
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    pods = read(folder / "openb_pod_list_default.csv", options=OpenbOptions(times=False)).jobs
    registry = default_registry().copy()
    registry.load_directory(POLICIES)
    found: Rows = {}
    for title, name in (("here, seed 42", "fragmentation"), ("bestfit, seed 42", "bestfit")):
        arguments = {"typical": openb.typical(pods)} if name == "fragmentation" else {}
        conf_ = from_data(conf({"name": name, "arguments": arguments}), catalogue_of(registry)).conf
        levels = openb.allocation(nodes, pods, assemble(conf_, registry), 42)
        found[title] = {f"allocated at {level} %": value for level, value in levels.items()}
    means = openb.published_means(folder / "published_alloc_summary.csv", "default")
    for title, name in (("published FGD, mean of ten seeds", "FGD"), ("published BestFit", "BestFit")):
        found[title] = {f"allocated at {level} %": means[name, level] for level in openb.LEVELS}
    return found


EXPERIMENTS: dict[str, Callable[[Path], Rows]] = {
    "easy": backfilling,
    "las": las,
    "elastic": elastic,
    "dominant-share": dominant_share,
    "fragmentation": fragmentation,
}


def show(name: str, rows: Rows) -> None:
    """Print a table."""
    keys = list(next(iter(rows.values())))
    print(f"{name:36}" + "".join(f"{key:>20}" for key in keys))
    for title, row in rows.items():
        print(f"{title:36}" + "".join(f"{row[key]:20,.2f}" for key in keys), flush=True)


def plot(tables: Mapping[str, Rows], path: Path) -> None:
    """Draw a bar for each configuration, a panel for each table."""
    figure = Figure(figsize=(9, 1.2 + 0.42 * sum(map(len, tables.values()))), layout="constrained")
    panels = figure.subplots(len(tables), 1, squeeze=False, height_ratios=[len(rows) + 1 for rows in tables.values()])
    for [axes], (name, rows) in zip(panels, tables.items(), strict=True):
        key = SHOWN.get(name, "mean completion")
        axes.barh(list(rows), [row[key] for row in rows.values()], color="#0072B2", height=0.7)
        axes.bar_label(axes.containers[0], fmt="{:,.2f}" if name in SHOWN else "{:,.0f} s", padding=3, fontsize="small")
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_title(f"{name}: {key}", loc="left", fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


SHOWN = {"dominant-share": "fairness of shares", "fragmentation": "allocated at 100 %"}
"""What is drawn, if not the mean completion time."""


if __name__ == "__main__":
    sys.exit(main())
