"""One measurement: a scheduler process on a server, and what both cost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from kubebench.cluster import ROOT, Bed, Binds, check, fill, fresh_bed, say, workload

PATIENCE = 240.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; *trouble* if the outcome was not what it should be."""

    rate: float
    """Pods per second, from the first bind to the last."""
    first: float
    """Seconds from the start of the process to the first bind."""
    start: float
    """Seconds of CPU that the scheduler used until then."""
    own: float
    """Milliseconds of CPU a pod that the scheduler used from then on."""
    server: float
    """Milliseconds of CPU a pod of the server and etcd, from then on."""
    memory: float
    """MiB that the scheduler took at most."""
    trouble: str = ""


def cpu(*pids: int) -> float:
    """Seconds of CPU that processes have used; 0 for those that are gone."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def peak(pid: int) -> float:
    """MiB that a process took at most."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


# -- schedulers -----------------------------------------------------------------------------------------------------
def bare(bed: Bed) -> list[str]:
    """The client that only binds."""
    return [sys.executable, "-m", "kubebench.bare", bed.url, str(bed.folder)]


def kube_scheduler(bed: Bed) -> list[str]:
    """kube-scheduler with its defaults, and no limit on its requests that it would reach."""
    from kube_bed import binary

    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(bed.kube_scheduler), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }
    path = bed.folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    return [str(binary("kube-scheduler")), f"--config={path}", "--secure-port=0"]


def pumice(bed: Bed) -> list[str]:
    """``pumice run`` with the rights that we ship."""
    program = str(Path(sys.executable).parent / "pumice")
    return [program, "run", f"--kubeconfig={bed.scheduler}", "--no-leader-elect", "-v=0"]


COMMANDS = {"bare client": bare, "kube-scheduler": kube_scheduler, "pumice": pumice}
SCHEDULERS = {"bare client": "default-scheduler", "kube-scheduler": "default-scheduler", "pumice": "pumice"}
"""The name that pods have to ask for."""


def start(bed: Bed, name: str) -> subprocess.Popen[bytes]:
    """Start a scheduler, with its bytecode where Python puts it, as an installed one has it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks"), "PYTHONDONTWRITEBYTECODE": ""}
    with (bed.folder / "measured.log").open("wb") as log:
        return subprocess.Popen(COMMANDS[name](bed), stdout=log, stderr=log, env=env)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a scheduler; one that has ended is left alone."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


# -- measurements ---------------------------------------------------------------------------------------------------
def throughput(name: str, nodes: int, pods: int, size: int) -> Figures:
    """Bind pods that all wait when the scheduler starts. *size*: of their groups, 0 for none."""
    groups, waiting = workload(pods, size, SCHEDULERS[name])
    with fresh_bed() as bed:
        fill(bed, nodes, groups, waiting)
        time.sleep(2)
        with Binds(bed) as binds:
            began = time.monotonic()
            process = start(bed, name)
            try:
                binds.wait(1, PATIENCE)
                up, before = cpu(process.pid), cpu(*bed.pids)
                whole = binds.wait(pods, PATIENCE)
                own, server, memory = cpu(process.pid) - up, cpu(*bed.pids) - before, peak(process.pid)
                times = binds.times
                trouble = check(bed, pods) if whole else f"only {len(times)} of {pods} were bound"
                if trouble:
                    say((bed.folder / "measured.log").read_text()[-2000:])
            finally:
                end(process)
    took = times[-1] - times[0] if len(times) > 1 else float("inf")
    first = times[0] - began if times else float("inf")
    return Figures(len(times) / took, first, up, own * 1000 / pods, server * 1000 / pods, memory, trouble)


def restarts(names: Sequence[str], nodes: int, running: int, size: int, rounds: int) -> dict[str, list[Figures]]:
    """From the start of the process to the first bind of a new gang, in a cluster full of bound pods.

    The schedulers take turns on one server, so that they meet the same server and the same minutes of the machine.
    """
    groups, pods = workload(running, size, "pumice", "old")
    for at, one in enumerate(pods):
        one["spec"]["nodeName"] = f"node-{at % nodes:05d}"
    found: dict[str, list[Figures]] = {name: [] for name in names}
    with fresh_bed() as bed:
        fill(bed, nodes, groups, pods)
        for turn in range(rounds):
            for name in names:
                groups, pods = workload(size, size, SCHEDULERS[name], f"new-{turn}-{name}")
                fill(bed, 0, groups, pods)
                time.sleep(5)
                found[name].append(_restart(bed, name, size))
                say(f"{name}, round {turn + 1}: first bind after {found[name][-1].first:.2f} s")
    return found


def _restart(bed: Bed, name: str, size: int) -> Figures:
    with Binds(bed) as binds:
        began = time.monotonic()
        process = start(bed, name)
        try:
            binds.wait(1, PATIENCE)
            up = cpu(process.pid)
            whole = binds.wait(size, PATIENCE)
            memory = peak(process.pid)
        finally:
            end(process)
    first = binds.times[0] - began if binds.times else float("inf")
    return Figures(0.0, first, up, 0.0, 0.0, memory, "" if whole else "not all were bound")


def idle(name: str, nodes: int, seconds: float) -> tuple[float, float]:
    """Per cent of a core that a scheduler and the server take when nothing happens."""
    with fresh_bed() as bed:
        fill(bed, nodes, [], [])
        process = start(bed, name)
        try:
            time.sleep(20)
            mine, theirs = cpu(process.pid), cpu(*bed.pids)
            time.sleep(seconds)
            mine, theirs = cpu(process.pid) - mine, cpu(*bed.pids) - theirs
        finally:
            end(process)
    return mine * 100 / seconds, theirs * 100 / seconds
