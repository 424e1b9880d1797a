"""Jobs in the test bed: `pumice controllers` as a process, vcjobs, and what becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from kube_bed import ROOT, Bed, Refusal, until
from kube_world import GROUPS, Scheduler, World

JOBS = "/apis/batch.volcano.sh/v1alpha1"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1"


class Controllers(Scheduler):
    """A process of `pumice controllers` and its log."""

    def __init__(self, log: Path, kubeconfig: str, *flags: str) -> None:
        self._log = log
        command = [str(Path(sys.executable).parent / "pumice"), "controllers", f"--kubeconfig={kubeconfig}", *flags]
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "POD_NAME": log.stem})


def grant_rights(bed: Bed) -> None:
    """Let the account of the controllers do what the manifest says, and wait until jobs can be made."""
    for document in yaml.safe_load_all((ROOT / "deploy" / "manifests" / "controllers.yaml").read_text()):
        try:
            bed.create(document)
        except Refusal as no:
            assert no.code == 409, no
    for path in (f"{JOBS}/jobs", f"{COMMANDS}/commands"):
        until(partial(served, bed, path), 20, f"{path} can be listed")


def served(bed: Bed, path: str) -> bool:
    """Whether a kind can be listed."""
    try:
        return "items" in bed.call("GET", path)
    except Refusal:
        return False


class Place:
    """Jobs in a world."""

    def __init__(self, world: World) -> None:
        self.world, self.bed = world, world.bed
        self.groups = f"{GROUPS}/namespaces/{world.namespace}/podgroups"

    def controllers(self, *flags: str, kubeconfig: Path | None = None) -> Controllers:
        """``pumice controllers`` with the rights that we ship; *kubeconfig* is another way there."""
        log = self.bed.folder / f"{self.world.namespace}-c{len(self.world.processes)}.log"
        made = Controllers(log, str(kubeconfig or self.bed.controllers), *(flags or ("--leader-elect=false",)))
        self.world.processes.append(made)
        return made

    def job(self, name: str, roles: dict[str, int], **spec: Any) -> dict[str, Any]:
        """Create a vcjob with pods of one cpu."""
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": self.world.namespace,
                "labels": {"team": "red"},
                "annotations": {"volcano.sh/sla-waiting-time": "1h"},
            },
            "spec": {"tasks": [{"name": t, "replicas": n, "template": template} for t, n in roles.items()], **spec},
        }
        return self.bed.create(body)

    def status(self, name: str) -> dict[str, Any]:
        try:
            found = self.bed.call("GET", f"{JOBS}/namespaces/{self.world.namespace}/jobs/{name}")
        except Refusal as no:
            assert no.code == 404
            return {"state": {"phase": "Gone"}}
        status: dict[str, Any] = found.get("status", {"state": {}})
        return status

    def phase(self, name: str) -> str:
        return str(self.status(name)["state"].get("phase", ""))

    def reaches(self, name: str, phase: str, seconds: float = 40) -> dict[str, Any]:
        """Play the kubelet until a job is in a phase."""

        def step() -> bool:
            self.world.kubelet()
            return self.phase(name) == phase

        try:
            until(step, seconds, f"job {name} is {phase}")
        except AssertionError as exc:
            groups = [(g["metadata"]["name"], g.get("status")) for g in self.bed.call("GET", self.groups)["items"]]
            raise AssertionError(f"{exc}; it is {self.status(name)}, groups {groups}") from None
        return self.status(name)

    def ends(self, phase: str, *names: str, code: int = 0) -> None:
        """Let pods end."""
        for name in names:
            state = {"terminated": {"exitCode": code, "reason": "Test"}}
            container = {"name": "c", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}
            body = {"status": {"phase": phase, "containerStatuses": [container]}}
            self.bed.call("PATCH", self.world.path(name, "status"), body)

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.world.pods().items()}

    def command(self, action: str, kind: str, name: str) -> None:
        namespace = "pumice-system" if kind == "Queue" else self.world.namespace
        meta = {"generateName": "command-", "namespace": namespace}
        body = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": meta}
        path = f"{COMMANDS}/namespaces/{namespace}/commands"
        self.bed.call("POST", path, {**body, "action": action, "target": {"kind": kind, "name": name}})

    def commands(self) -> list[Any]:
        found: list[Any] = self.bed.call("GET", f"{COMMANDS}/namespaces/{self.world.namespace}/commands")["items"]
        return found

    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.bed.call("GET", f"/api/v1/namespaces/{self.world.namespace}/events")["items"]
        return found

    def clean(self) -> None:
        """Stop what runs, and remove jobs and commands."""
        for process in self.world.processes:
            process.kill()
        self.bed.call("DELETE", f"{JOBS}/namespaces/{self.world.namespace}/jobs")
        self.bed.call("DELETE", f"{COMMANDS}/namespaces/{self.world.namespace}/commands")
