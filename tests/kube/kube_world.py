"""Nodes, gangs and pods in the test bed, the scheduler as a process, and a kubelet of a few lines."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from kube_bed import ACCOUNT, ROOT, Bed, Refusal, until

from pumice.config.settings import with_values

RIGHTS = ROOT / "deploy" / "helm" / "pumice" / "files" / "rights"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
_NUMBERS = itertools.count(1)
_VENV = Path(sys.executable).parent


class World:
    """What one test makes, and takes away again."""

    def __init__(self, bed: Bed, name: str, *, make: bool = True) -> None:
        """A namespace of its own that is named after *name*; or the namespace *name* itself, which is there."""
        self.bed = bed
        words = re.sub("[^a-z0-9]+", "-", name.removeprefix("test_").lower())
        self.namespace = f"{words[:40].strip('-')}-{next(_NUMBERS)}"
        self.nodes: list[str] = []
        self.room: dict[str, int] = {}
        """How much CPU each node has, in thousandths."""
        self.processes: list[Scheduler] = []
        self._granted: list[str] = []
        if make:
            bed.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        else:
            self.namespace = name

    # -- making -----------------------------------------------------------------------------------------------------
    def node(self, name: str, cpu: str = "4", **labels: str) -> None:
        """A node that is ready."""
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        self.bed.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
            }
        )
        self.nodes.append(name)
        self.room[name] = int(cpu) * 1000

    def gang(
        self,
        name: str,
        pods: int,
        *,
        cpu: str = "1",
        minimum: int | None = None,
        priority: str = "",
        queue: str = "default",
        run_for: str = "",
        resources: bool = False,
    ) -> None:
        """A PodGroup and its pods; *run_for* is how long they run, *resources* whether it says what it asks for."""
        least = pods if minimum is None else minimum
        spec: dict[str, Any] = {"minMember": least, "queue": queue}
        if resources:
            spec["minResources"] = {"cpu": str(int(cpu) * least), "memory": f"{least}Gi"}
        if priority:
            spec["priorityClassName"] = priority
        self.bed.create(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": spec,
            }
        )
        for i in range(pods):
            self.pod(f"{name}-{i}", name, cpu, priority, run_for=run_for)

    def pod(
        self, name: str, group: str, cpu: str = "1", priority: str = "", *, run_for: str = "", scheduler: str = "pumice"
    ) -> None:
        """A pod for our scheduler, or for another."""
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [container]}
        if priority:
            spec["priorityClassName"] = priority
        meta = {
            "name": name,
            "namespace": self.namespace,
            "labels": {"group": group},
            "annotations": {
                "scheduling.k8s.io/group-name": group,
                **({"pumice.test/run-for": run_for} if run_for else {}),
            },
        }
        self.bed.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    # -- looking ----------------------------------------------------------------------------------------------------
    def path(self, name: str = "", sub: str = "") -> str:
        """The path of a pod, or of all."""
        parts = ["/api/v1/namespaces", self.namespace, "pods", *([name] if name else []), *([sub] if sub else [])]
        return "/".join(parts)

    def pods(self) -> dict[str, dict[str, Any]]:
        """Every pod by name."""
        return {p["metadata"]["name"]: p for p in self.bed.call("GET", self.path())["items"]}

    def bound(self) -> dict[str, str]:
        """Pod -> node, for those that have one."""
        return {n: p["spec"]["nodeName"] for n, p in self.pods().items() if p["spec"].get("nodeName")}

    def group(self, name: str) -> dict[str, Any]:
        """A PodGroup."""
        found: dict[str, Any] = self.bed.call("GET", f"{GROUPS}/namespaces/{self.namespace}/podgroups/{name}")
        return found

    # -- the kubelet ------------------------------------------------------------------------------------------------
    def kubelet(self) -> None:
        """Bound pods run, deleted ones are gone."""
        for name, pod in self.pods().items():
            if pod["metadata"].get("deletionTimestamp"):
                self.delete(name)
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                ready = [{"type": "Ready", "status": "True"}]
                self.bed.call("PATCH", self.path(name, "status"), {"status": {"phase": "Running", "conditions": ready}})

    def remove_deleted(self) -> None:
        """Deleted pods are gone."""
        for name, pod in self.pods().items():
            if pod["metadata"].get("deletionTimestamp"):
                self.delete(name)

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        try:
            self.bed.call("DELETE", self.path(name), {"gracePeriodSeconds": 0})
        except Refusal as no:
            if no.code != 404:
                raise

    def delete_node(self, name: str) -> None:
        """Delete a node; one that is gone is gone."""
        try:
            self.bed.call("DELETE", f"/api/v1/nodes/{name}")
        except Refusal as no:
            if no.code != 404:
                raise

    # -- the scheduler ----------------------------------------------------------------------------------------------
    def grant(self, *features: str, account: str = ACCOUNT) -> None:
        """Give an account the rights that values of the chart add: files of ``files/rights``, without ``.yaml``."""
        api, (space, name) = "rbac.authorization.k8s.io", account.split(":")[2:]
        for feature in features:
            meta = {"name": f"{feature}-{self.namespace}"}
            rules = yaml.safe_load((RIGHTS / f"{feature}.yaml").read_text(encoding="utf-8"))
            self.bed.create({"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules})
            role = {"apiGroup": api, "kind": "ClusterRole", **meta}
            whom = [{"kind": "ServiceAccount", "name": name, "namespace": space}]
            binding = {"apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": meta, "roleRef": role}
            self.bed.create({**binding, "subjects": whom})
            self._granted += [
                f"/apis/{api}/v1/{kind}/{meta['name']}" for kind in ("clusterrolebindings", "clusterroles")
            ]

    def scheduler(self, *flags: str, account: str = "scheduler", kubeconfig: Path | None = None) -> Scheduler:
        """``pumice run`` with the rights that we ship, unless told otherwise; *kubeconfig* is another way there."""
        kubeconfig = kubeconfig or (self.bed.scheduler if account == "scheduler" else self.bed.admin)
        made = Scheduler(self.bed.folder / f"{self.namespace}-{len(self.processes)}.log", str(kubeconfig), *flags)
        self.processes.append(made)
        return made

    def clean(self) -> None:
        """Stop what runs and remove what was made."""
        for process in self.processes:
            process.kill()
        for name in self.pods():
            self.delete(name)
        self.bed.call("DELETE", f"{GROUPS}/namespaces/{self.namespace}/podgroups")
        self.bed.call("DELETE", f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets")
        for name in self.nodes:
            self.delete_node(name)
        for path in self._granted:
            self.bed.call("DELETE", path)


class Scheduler:
    """A scheduler process and its log. A word with a value and without a dash is a setting: ``bindsInFlight=4``."""

    def __init__(self, log: Path, kubeconfig: str, *flags: str) -> None:
        self._log = log
        settings = [flag for flag in flags if not flag.startswith("-") and "=" in flag]
        values = dict(setting.split("=", 1) for setting in settings)
        file = log.with_suffix(".yaml")
        head = {"apiVersion": "pumice.dev/v1", "kind": "Scheduler"}
        file.write_text(yaml.safe_dump(with_values(head, {path: yaml.safe_load(v) for path, v in values.items()})))
        command = [str(_VENV / "pumice"), "run", f"--kubeconfig={kubeconfig}", "--schedule-period=200ms"]
        command += [f"--config={file}"] if values else []
        command += [flag for flag in flags if flag not in settings]
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "POD_NAME": log.stem})

    @property
    def log(self) -> str:
        """What it said."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._process.poll()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def wait(self, seconds: float) -> int:
        """Its exit code, when it ends by itself."""
        return self._process.wait(seconds)

    def freeze(self) -> None:
        """Let it stand still, as on a machine that swaps or is suspended."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)


def all_bound(world: World, *names: str) -> None:
    """Wait until these pods have nodes."""
    until(lambda: set(names) <= set(world.bound()), 40, f"{', '.join(names)} are bound")
