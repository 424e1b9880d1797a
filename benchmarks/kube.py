"""What ``pumice run`` reaches on a real API server, beside a bare client and kube-scheduler in the same run.

    python benchmarks/kube.py [gangs alone restart idle] [--nodes N ...] [--pods N] [--size N] [--repeat N]

- **gangs**, **alone**: pods that wait in groups (of ``--size``, or of one each) are bound; pods a second from the first
  bind to the last, and CPU. The bare client lists, binds with 64 binds in flight and decodes its watch: the least that
  anybody needs.
- **restart**: a cluster with 30,000 bound pods and one waiting gang: from the start of the process to the first bind,
  both schedulers in turn on one server.
- **idle**: per cent of a core on 10,000 nodes.

Every other measurement has a fresh API server and etcd on loopback, filled before the scheduler starts, so nobody pays
for what another left behind. The scheduler runs as its service account. Needs what ``make kube`` builds; without KWOK,
so bound pods stay as they are. Prints, never fails: the machine may be noisy, and only ratios within one run mean
something.
"""

from __future__ import annotations

import argparse
import signal
import sys
from statistics import median

from kubebench.cluster import say
from kubebench.measure import Figures, idle, restarts, throughput

PARTS = ("gangs", "alone", "restart", "idle")


def best(found: list[Figures]) -> Figures:
    """The best of several runs: noise only ever slows."""
    return max(found, key=lambda f: f.rate)


def rates(options: argparse.Namespace) -> None:
    """Pods a second, for each number of nodes."""
    shapes = [("bare client", 0), ("kube-scheduler", 0)]
    shapes += [("pumice", options.size)] * ("gangs" in options.parts) + [("pumice", 1)] * ("alone" in options.parts)
    print(f"{options.pods:,} pods; best of {options.repeat}")
    head = ("nodes", "who", "pods/s", "of bare", "first bind", "CPU till then", "CPU a pod", "server's", "memory")
    print("{:>6}  {:<24} {:>7} {:>8} {:>10} {:>13} {:>10} {:>9} {:>8}".format(*head), flush=True)
    for nodes in options.nodes:
        found: dict[tuple[str, int], list[Figures]] = {}
        for turn in range(options.repeat):
            for name, size in shapes:
                say(f"{name}, {nodes:,} nodes, groups of {size or 'none'}, run {turn + 1}")
                figures = throughput(name, nodes, options.pods, size)
                found.setdefault((name, size), []).append(figures)
                say(f"{figures.rate:.0f} pods/s {figures.trouble}")
        bare = best(found["bare client", 0]).rate
        for (name, size), runs in found.items():
            f = best(runs)
            label = name if name != "pumice" else f"pumice, gangs of {size}" if size > 1 else "pumice, alone"
            print(
                f"{nodes:>6}  {label:<24} {f.rate:>7.0f} {f.rate / bare:>8.0%} {f.first:>8.2f} s {f.start:>11.2f} s "
                f"{f.own:>7.2f} ms {f.server:>6.2f} ms {f.memory:>4.0f} MiB  {f.trouble}",
                flush=True,
            )


def restarted(options: argparse.Namespace) -> None:
    """Seconds to the first bind; the middle of the rounds."""
    nodes, running = max(options.nodes), options.running
    print(f"restart with {nodes:,} nodes, {running:,} bound pods and a gang of {options.size}, {options.repeat} rounds")
    for name, runs in restarts(("kube-scheduler", "pumice"), nodes, running, options.size, options.repeat).items():
        firsts = sorted(run.first for run in runs)
        cpu, memory = median(run.start for run in runs), max(run.memory for run in runs)
        print(
            f"  {name:<16} first bind after {median(firsts):.2f} s ({firsts[0]:.2f} to {firsts[-1]:.2f}), "
            f"CPU {cpu:.2f} s, {memory:.0f} MiB  {max(run.trouble for run in runs)}",
            flush=True,
        )


def main() -> None:
    """Measure what was asked for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers are stopped
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--size", type=int, default=100, help="pods of a gang")
    parser.add_argument("--running", type=int, default=30_000, help="bound pods of the restart")
    parser.add_argument("--idle-nodes", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        sys.exit(f"{', '.join(sorted(unknown))}: not one of {', '.join(PARTS)}")
    if {"gangs", "alone"} & set(options.parts):
        rates(options)
    if "restart" in options.parts:
        restarted(options)
    if "idle" in options.parts:
        for name in ("kube-scheduler", "pumice"):
            mine, theirs = idle(name, options.idle_nodes, 30.0)
            print(f"idle with {options.idle_nodes:,} nodes: {name} {mine:.1f} % of a core, server {theirs:.1f} %")


if __name__ == "__main__":
    main()
