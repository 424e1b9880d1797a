"""Somebody who follows a page: each command is run, and containers of Deployments are started as a kubelet would.

There are no kubelets here: where a command deploys something, the test starts the very container command that the
server now holds, with a token of the very service account, and files for what is mounted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ROOT, Bed, Missing, binary

from pumice.config.loader import HELM_CONF

TOKEN = "/api/v1/namespaces/{0}/serviceaccounts/{1}/token"
STARTS = ("kubectl", "helm", "pumice", "docker")


def chapters(page: str) -> dict[str, list[str]]:
    """Heading -> the commands below it on a page of docs, in order."""
    found: dict[str, list[str]] = {}
    content = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for heading, text in re.findall(r"^##+ (.+?)\n(.*?)(?=^##+ |\Z)", content, re.MULTILINE | re.DOTALL):
        blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
        if commands:
            found[heading] = commands
    return found


class Process:
    """A command that runs on, and its log."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._log = folder / f"{Path(words[0]).name}-{len(list(folder.glob('*.log')))}.log"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out)

    @property
    def log(self) -> str:
        """What it said."""
        return self._log.read_text()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._process.terminate()
        return self._process.wait(30)

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)


class Reader:
    """Somebody who follows a page, on a cluster of their own."""

    def __init__(self, bed: Bed, folder: Path, page: str) -> None:
        self.bed, self.folder, self.chapters = bed, folder, chapters(page)
        self.processes: list[Process] = []
        tools = folder / "bin"
        tools.mkdir()
        helm = subprocess.run([ROOT / "tools" / "kube" / "helm.sh"], capture_output=True, text=True, timeout=100)
        if helm.returncode:
            raise Missing(f"helm is missing; `make kube` builds it: {helm.stderr}")
        (tools / "helm").symlink_to(helm.stdout.strip())
        (tools / "kubectl").symlink_to(_kubectl())
        for name in ("deploy", "examples"):
            (folder / name).symlink_to(ROOT / name)
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "KUBECONFIG": str(bed.admin), "HOME": str(folder)}

    def follow(self, heading: str) -> str:
        """Run the commands of a chapter; returns what they printed."""
        printed = ""
        for command in self.chapters[heading]:
            assert command.startswith(STARTS), command
            if command.startswith("docker "):
                continue  # its steps are run by test_kube_image.py
            if command.startswith("pumice run"):
                self.processes.append(Process(command.split(), self.folder, self.environment))
                continue
            printed += self.run(command)
        return printed

    def run(self, command: str) -> str:
        """Run one command; returns what it printed."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, name: str, namespace: str = "pumice-system", source: Path | None = None) -> Process:
        """Do as a kubelet would: run the container of a deployment, as its account, with what is mounted.

        *source*: the folder ``src`` of another version.
        """
        deployment = self.bed.call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        spec = deployment["spec"]["template"]["spec"]
        account = TOKEN.format(namespace, spec["serviceAccountName"])
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.bed.call("POST", account, request)["status"]["token"]
        container = spec["containers"][0]
        command, *flags = container["args"]
        places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        folders: dict[str, Path] = {}
        for volume in spec["volumes"]:
            if "configMap" in volume:
                found = self.bed.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}")
                mounted = self.folder / f"mounted-{volume['name']}"
                mounted.mkdir()
                for key, text in found["data"].items():
                    (mounted / key).write_text(text)
                folders[places[volume["name"]]] = mounted
        for place, mounted in folders.items():
            flags = [flag.replace(place, str(mounted)) for flag in flags]
            for path in (path for folder in folders.values() for path in folder.iterdir()):
                path.write_text(path.read_text().replace(place, str(mounted)))
        free = ["--healthz-address=127.0.0.1:0", *(["--listen-address=127.0.0.1:0"] if command == "run" else [])]
        kubeconfig = self.bed.kubeconfig(f"{name}-{len(self.processes)}", token)
        words = ["pumice", command, *flags, *free, f"--kubeconfig={kubeconfig}"]
        more = {"PYTHONPATH": str(source)} if source is not None else {}
        pod = f"{name}-{len(self.processes)}"
        self.processes.append(Process(words, self.folder, {**self.environment, **more, "POD_NAME": pod}))
        return self.processes[-1]

    # -- the cluster ------------------------------------------------------------------------------------------------
    def node(self) -> None:
        """A node with room for everything on the page."""
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"allocatable": room, "capacity": room, "conditions": [ready]}
        self.bed.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status})

    def gang(self, name: str, scheduler: str) -> Callable[[], bool]:
        """The gang of the example under another name, for a scheduler; returns how to ask whether it is bound."""
        text = (ROOT / "examples" / "kubernetes" / "gang.yaml").read_text(encoding="utf-8")
        text = text.replace("hello", name).replace("schedulerName: pumice", f"schedulerName: {scheduler}")
        for document in yaml.safe_load_all(text):
            self.bed.create(document)
        return lambda: self.bound(name)

    def bound(self, name: str) -> bool:
        """Whether both pods of a gang have a node."""
        pods = self.bed.call("GET", f"/api/v1/namespaces/default/pods?labelSelector=app={name}")["items"]
        return len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods)

    def volcano(self) -> None:
        """A cluster as Volcano's chart leaves it, as far as a scheduler sees it."""
        for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
            self.bed.apply(path)
        meta: dict[str, Any] = {"name": "volcano-scheduler", "namespace": "volcano-system"}
        labels = {"app": "volcano-scheduler"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
        conf = {**meta, "name": "volcano-scheduler-configmap"}
        for document in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": conf, "data": {"volcano-scheduler.conf": HELM_CONF}},
        ):
            self.bed.create(document)

    def replicas(self) -> int:
        """Of Volcano's scheduler."""
        found = self.bed.call("GET", "/apis/apps/v1/namespaces/volcano-system/deployments/volcano-scheduler")
        return int(found["spec"]["replicas"])

    def stop(self) -> None:
        for process in self.processes:
            process.kill()


def _kubectl() -> str:
    try:
        return str(binary("kubectl"))
    except Missing:
        found = shutil.which("kubectl")
        if found is None:
            raise
        return found


@contextmanager
def reading(page: str, tmp_path: Path) -> Iterator[Reader]:
    """A reader of a page with an empty cluster of one node."""
    made: Reader | None = None
    bed: Bed | None = None
    (tmp_path / "bed").mkdir()
    (tmp_path / "home").mkdir()
    try:
        bed = Bed(tmp_path / "bed")
        made = Reader(bed, tmp_path / "home", page)
        bed.start()
        made.node()
        yield made
    except Missing as exc:
        pytest.fail(str(exc), pytrace=False)
    finally:
        if made is not None:
            made.stop()
        if bed is not None:
            bed.stop()
