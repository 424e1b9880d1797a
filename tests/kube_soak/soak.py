"""A long run on a real API server: many nodes, jobs that come and go, faults, two replicas, another scheduler.

``make soak MINUTES=30`` starts everything on loopback, watches from the side, and ends with what it measured. Exit code
1 if anything happened that must not: a pod bound twice, a node or a queue above what it may hold, half a gang for too
long, a bind to a node that is gone, something that still waits when all is quiet, memory that grows.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in ("kube", "kube_faults", "kube_soak"):
    sys.path.insert(0, str(HERE.parent / _folder))

from faults_proxy import Fault, Proxy  # noqa: E402
from kube_bed import ROOT, Bed, Refusal, until  # noqa: E402
from kube_jobs import JOBS, Place, grant_rights, served  # noqa: E402
from kube_world import GROUPS, Scheduler, World  # noqa: E402
from soak_witness import SoakWitness  # noqa: E402

LEASE = ("--leader-elect-lease-duration=40s", "--leader-elect-renew-deadline=30s", "--leader-elect-retry-period=2s")
CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
FROZEN = "leader stands still for 7 s"
HALF = 150.0
"""Seconds that a gang may be half: the scheduler's own 60, a lease that runs out, and what faults take."""
GROWTH = 0.05
WARM = 300.0
"""Seconds after which the memory of a process counts."""


class Kept:
    """A process that is started again when it ends, with its memory and what it said."""

    def __init__(self, name: str, start: Callable[[], Scheduler]) -> None:
        self.name, self._start = name, start
        self.current = start()
        self.began = time.monotonic()
        self.ends: list[str] = []
        self.spans: list[list[tuple[float, float]]] = [[]]
        self.lines = 0
        self._since = self.began
        self._leads = False

    def look(self, now: float) -> None:
        """Note the memory; start it again if it ended."""
        if self.current.code is not None:
            said = f": {_last_words(self.current.log)}" if self.current.code == 1 else ""
            self.ends.append(f"{self.name} ended with {self.current.code} after {now - self.began:.0f} s{said}")
            self.lines += self.current.log.count("\n")
            self.current, self.began = self._start(), now
            self._since, self._leads = now, False
            self.spans.append([])
            return
        if not self._leads and " leads " in self.current.log:  # who leads has more to remember: its time begins anew
            self._since, self._leads = now, True
            self.spans.append([])
        memory = _memory(self.current.pid)
        if memory:
            self.spans[-1].append((now - self._since, memory))

    def growth(self) -> list[tuple[float, float, float, float]]:
        """(seconds watched, MiB when warm, MiB at the end, share) of each process that kept its role long enough."""
        found = []
        for span in self.spans:
            warm = [mib for age, mib in span if WARM <= age < WARM + 60]
            late = [mib for age, mib in span if age >= span[-1][0] - 60] if span else []
            if warm and span[-1][0] >= 2 * WARM:
                first, last = sum(warm) / len(warm), sum(late) / len(late)
                found.append((span[-1][0], first, last, last / first - 1.0))
        return found

    def finish(self) -> None:
        self.current.kill()
        self.lines += self.current.log.count("\n")


def _last_words(text: str) -> str:
    """The last lines of a log that say more than that all is well."""
    lines = [line for line in text.splitlines() if " INFO " not in line]
    return " | ".join(lines[-4:])


def _memory(pid: int) -> float:
    """Resident MiB of a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024 if "VmRSS:" in status else 0.0


class Soak:
    """The whole run."""

    def __init__(self, bed: Bed, options: argparse.Namespace, proxy: Proxy) -> None:
        self.bed, self.options, self.proxy = bed, options, proxy
        self.chance = random.Random(options.seed)
        self.world = World(bed, "soak")
        self.place = Place(self.world)
        self.began = time.monotonic()
        self.made = 0
        self.faults: list[str] = []
        self.kept: list[Kept] = []
        self.quiet = threading.Event()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """A line with the time since the beginning."""
        with self._lock:
            print(f"{time.monotonic() - self.began:7.1f}  {text}", flush=True)

    # -- setting up -------------------------------------------------------------------------------------------------
    def set_up(self) -> None:
        """Nodes, queues, priorities, schedulers and controllers."""
        for i in range(self.options.nodes):
            self.world.node(f"n{i:03}", cpu="8")
        total = self.options.nodes * 8
        for name, weight, most in (("qa", 3, None), ("qb", 1, None), ("qc", 1, total // 8)):
            spec: dict[str, Any] = {"weight": weight, "reclaimable": True}
            if most:
                spec["capability"] = {"cpu": str(most)}
            self._create("scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec)
        for name, value in (("soak-low", 10), ("soak-high", 1000)):
            self._create("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
        conf = self.bed.folder / "soak.conf"
        conf.write_text(CONF)
        flags = (*LEASE, f"--scheduler-conf={conf}", "--no-enable-healthz", "--no-enable-metrics")
        for i in range(2):
            self.kept.append(Kept(f"run-{i}", lambda: self.world.scheduler(*flags, kubeconfig=self.proxy.kubeconfig)))
        for i in range(2):
            self.kept.append(
                Kept(
                    f"controllers-{i}",
                    lambda: self.place.controllers("--leader-elect=true", *LEASE, kubeconfig=self.proxy.controllers),
                )
            )

    def _create(self, version: str, kind: str, name: str, **rest: Any) -> None:
        self.bed.create({"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest})

    # -- churn ------------------------------------------------------------------------------------------------------
    def churn(self) -> None:
        """Keep so many jobs alive; pods of another scheduler beside them."""
        while not self.quiet.is_set():
            try:
                alive = len(self.bed.call("GET", f"{JOBS}/namespaces/{self.world.namespace}/jobs")["items"])
                for _ in range(min(self.options.jobs - alive, 12)):
                    self._job()
                self._others()
            except (Refusal, OSError, http.client.HTTPException, json.JSONDecodeError):
                pass
            self.quiet.wait(2.0)

    def _job(self) -> None:
        draw, number = self.chance, self.made
        self.made += 1
        pods = draw.choice((1, 2, 4, 4, 8, 16))
        run = f"{draw.randint(*self.options.run)}s"
        high = draw.random() < 0.15
        container = {"name": "c", "image": "none"}
        container["resources"] = {"requests": {"cpu": draw.choice(("1", "2", "4")), "memory": "1Gi"}}  # type: ignore[assignment]
        template = {
            "metadata": {"annotations": {"pumice.test/run-for": run}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]},
        }
        spec = {
            "schedulerName": "pumice",
            "queue": draw.choice(("qa", "qa", "qa", "qb", "qb", "qc")),  # qc may have an eighth: at times it is full
            "minAvailable": pods,
            "ttlSecondsAfterFinished": 5,
            "priorityClassName": "soak-high" if high else "soak-low",
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [{"name": "w", "replicas": pods, "template": template}],
        }
        meta = {"name": f"j{number}", "namespace": self.world.namespace}
        self.bed.create({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec})

    def _others(self) -> None:
        """A few pods for kube-scheduler; those that ended go, and so do pods whose job is gone."""
        pods = self.world.pods()
        jobs = self.bed.call("GET", f"{JOBS}/namespaces/{self.world.namespace}/jobs")["items"]
        there = {job["metadata"]["uid"] for job in jobs}
        mine = {n: p for n, p in pods.items() if n.startswith("other-")}
        for name, pod in mine.items():
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                self.world.delete(name)
        for name, pod in pods.items():
            owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())]
            if owners and not there & {*owners}:  # no garbage collector runs in the bed
                self.world.delete(name)
        for _ in range(max(0, self.options.nodes // 20 - len(mine))):
            self.made += 1
            self.world.pod(f"other-{self.made}", "", run_for="40s", scheduler="default-scheduler")

    # -- faults -----------------------------------------------------------------------------------------------------
    def fault(self, kinds: list[str]) -> None:
        """One thing that goes wrong."""
        kind = self.chance.choice(kinds)
        self.faults.append(kind)
        self.say(f"fault: {kind}")
        if kind == "watches cut":
            self.proxy.cut()
        elif kind == "server away":
            self.bed.stop_server(kill=True)
            self.bed.start_server()
        elif kind == "network silent for 8 s":
            self.proxy.freeze()
            time.sleep(8)
            self.proxy.thaw()
        elif kind == "binds refused":
            self.proxy.faults[:] = [Fault(self.chance.choice((500, 503, 429)), times=20)]
        elif kind == "binds lost":
            self.proxy.faults[:] = [Fault("cut", times=10, after=self.chance.random() < 0.5)]
        elif kind == "watches late":
            self.proxy.delay = 3.0
            time.sleep(20)
            self.proxy.delay = 0.0
        elif kind == "node goes":
            name = self.chance.choice(self.world.nodes)
            self.world.delete_node(name)
            for pod, there in self.world.pods().items():  # as the garbage collector of pods does
                if there["spec"].get("nodeName") == name:
                    self.world.delete(pod)
            time.sleep(5)
            self.world.nodes.remove(name)
            self.world.node(name, cpu="8")
        elif kind == FROZEN:
            leader = next((k for k in self.kept[:2] if " leads " in k.current.log and k.current.code is None), None)
            if leader is not None:
                leader.current.freeze()
                time.sleep(7)
                leader.current.thaw()
        elif kind == "killed":
            self.chance.choice(self.kept).current.kill()
        elif kind == "stopped":
            self.chance.choice(self.kept).current.stop()

    # -- the run ----------------------------------------------------------------------------------------------------
    def run(self, witness: SoakWitness) -> list[str]:
        """Play it; what must not be, in words."""
        end = self.began + self.options.minutes * 60
        churning = threading.Thread(target=self.churn, name="churn")
        churning.start()
        soft = ["watches cut", "network silent for 8 s", "binds refused", "binds lost", "watches late", "node goes"]
        soft.append(FROZEN)
        kinds = [*soft, "server away", "killed", "stopped"]
        hard_until = self.began + min(240.0, self.options.minutes * 20)
        next_fault, next_line = self.began + 30, self.began + 60
        while (now := time.monotonic()) < end:
            for kept in self.kept:
                kept.look(now)
            if now >= next_fault:
                self.fault(self.options.only or (kinds if now < hard_until else [*soft, "server away"]))
                next_fault = time.monotonic() + self.options.every
            if now >= next_line:
                self._progress(witness)
                next_line = now + 60
            time.sleep(2)
        self.quiet.set()
        churning.join(60)
        self.proxy.faults.clear()
        self.say("quiet: no new jobs, no faults")
        wrong = self._settles(witness)
        for kept in self.kept:
            for seconds, first, last, share in kept.growth():
                if share > GROWTH:
                    wrong.append(
                        f"{kept.name}: {first:.1f} MiB when warm, {last:.1f} after {seconds:.0f} s ({share:+.1%})"
                    )
        return [*witness.violations, *wrong]

    def _settles(self, witness: SoakWitness) -> list[str]:
        """Every pod that waits gets a node as others end; then the queues say what they hold."""
        wrong = []
        idle, binds, since = self.options.run[1] + 60.0, -1, 0.0  # room comes when what runs has ended
        while waiting := witness.waiting():
            if witness.counts["binds"] != binds:
                binds, since = witness.counts["binds"], time.monotonic()
            if time.monotonic() - since > idle:
                wrong.append(f"nobody was bound for {idle:.0f} s, and {len(waiting)} wait: {waiting[:8]}")
                wrong += [self._why(key) for key in waiting[:1]]
                break
            time.sleep(1)
        last: dict[str, Any] = {}

        def agree() -> bool:
            last["held"] = {q: v for q, v in witness.held().items() if v and q in ("qa", "qb", "qc")}
            items = self.bed.call("GET", f"{GROUPS}/queues")["items"]
            said = {q["metadata"]["name"]: q.get("status", {}).get("allocated", {}).get("cpu", "0") for q in items}
            last["said"] = {q: v for q, v in ((n, _cpu(t)) for n, t in said.items()) if v}
            return bool(last["held"] == last["said"])

        try:
            until(agree, 60, "the queues' statuses say what they hold")
        except AssertionError as late:
            wrong.append(f"{late}: {last}")
        return wrong

    def _why(self, key: str) -> str:
        """What the objects of a pod that waits say."""
        namespace, _, name = key.partition("/")
        pod = self.bed.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        group = pod["metadata"]["annotations"].get("scheduling.k8s.io/group-name", "")
        groups = self.bed.call("GET", f"{GROUPS}/namespaces/{namespace}/podgroups")["items"]
        own = [one for one in groups if one["metadata"]["name"] == group]
        events = self.bed.call("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
        said = [
            (e["lastTimestamp"], e["reason"], e["message"])
            for e in events
            if e["involvedObject"]["name"] in (name, group)
        ]
        return (
            f"{key}: {pod['status']}; its PodGroup: {[(o['spec'], o.get('status')) for o in own]}; events: {said[-8:]}"
        )

    def _progress(self, witness: SoakWitness) -> None:
        memory = ", ".join(f"{k.name} {k.spans[-1][-1][1]:.0f}" for k in self.kept if k.spans[-1])
        pods, binds = witness.counts["pods"], witness.counts["binds"]
        self.say(
            f"{pods} pods, {binds} binds, {len(witness.pods)} there, {len(witness.waiting())} wait; "
            f"{len(witness.races)} races, {len(witness.violations)} violations; MiB: {memory}"
        )

    def report(self, witness: SoakWitness, wrong: list[str]) -> dict[str, Any]:
        """What was measured."""
        hours = (time.monotonic() - self.began) / 3600
        for kept in self.kept:
            kept.finish()
        return {
            "minutes": round(hours * 60, 1),
            "seed": self.options.seed,
            "nodes": self.options.nodes,
            "jobs made": self.made,
            "counts": dict(witness.counts),
            "events per hour": round(witness.counts["events"] / hours),
            "event reasons": dict(witness.reasons.most_common(12)),
            "log lines per hour": {k.name: round(k.lines / hours) for k in self.kept},
            "faults": {kind: self.faults.count(kind) for kind in sorted(set(self.faults))},
            "ends": [end for kept in self.kept for end in kept.ends],
            "memory (s, MiB when warm, MiB at the end, growth)": {
                k.name: [[round(v, 3) for v in row] for row in k.growth()] for k in self.kept
            },
            "half gangs": {"seen": len(witness.halves), "longest (s)": round(witness.longest_half, 1)},
            "longest wait for a node (s)": round(witness.longest_wait, 1),
            "evictions": {
                "all": witness.evicted.total(),
                "pods": len(witness.evicted),
                "most of one pod": max(witness.evicted.values(), default=0),
                "per bind": round(witness.evicted.total() / max(witness.counts["binds"], 1), 3),
            },
            "work thrown away": {
                "CPU hours": round(witness.thrown_away / 3600, 2),
                "share of all work": round(witness.thrown_away / max(witness.used, 1.0), 4),
            },
            "over-commits in a race with the other scheduler": {
                "seen": len(witness.races),
                "longest gap (s)": round(max(witness.races, default=0.0), 2),
            },
            "violations": wrong,
        }


def _cpu(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def main() -> int:
    """Run it; 1 if anything happened that must not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=150, help="jobs that are alive at a time")
    parser.add_argument("--run", type=int, nargs=2, default=(90, 300), help="seconds that pods run, least and most")
    parser.add_argument("--every", type=float, default=45.0, help="seconds between two faults")
    parser.add_argument("--only", action="append", help="a kind of fault; may be given several times; else all kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=None, help="write what was measured to this file, as JSON")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pumice-soak-"))
    bed = Bed(folder)
    try:
        failed = _run(bed, options)
    finally:
        bed.stop()
    if failed:
        print(f"logs: {folder}")
    else:
        shutil.rmtree(folder)
    return failed


def _run(bed: Bed, options: argparse.Namespace) -> int:
    bed.start()
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        bed.apply(path)
    bed.apply(ROOT / "deploy" / "manifests" / "rbac.yaml")
    for kind in ("podgroups", "queues"):
        until(partial(served, bed, f"{GROUPS}/{kind}"), 20, f"{kind} can be listed")
    grant_rights(bed)
    bed.kubelets()
    rights = [f"--{kind}kubeconfig={bed.admin}" for kind in ("", "authentication-", "authorization-")]
    bed.beside("kube-scheduler", *rights, "--leader-elect=false", "--secure-port=0")
    with Proxy(bed) as proxy:
        soak = Soak(bed, options, proxy)
        try:
            with SoakWitness(bed, HALF, soak.say) as witness:
                soak.set_up()
                wrong = soak.run(witness)
                found = soak.report(witness, wrong)
        finally:
            soak.quiet.set()
            for process in soak.world.processes:
                process.kill()
    text = json.dumps(found, indent=2)
    print(text)
    if options.report is not None:
        options.report.write_text(text + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
