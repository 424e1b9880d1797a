"""Extenders and kube-scheduler as processes of the test bed."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kube_bed import Bed, binary, free_port, until

PUMICE = Path(sys.executable).parent / "pumice"


class Served:
    """``pumice extender serve`` as a process."""

    def __init__(self, folder: Path, *arguments: str, port: int = 0) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"extender-{self.port}.log"
        command = [str(PUMICE), "extender", "serve", *arguments, f"--address=127.0.0.1:{self.port}"]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ)
        until(self.ready, 40, f"the extender answers: {self._log}")

    def ready(self) -> bool:
        """Whether it can answer questions."""
        assert self._process.poll() is None, self._log.read_text()
        return self.get("/readyz") == (200, "ok")

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page; 0 if nobody answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()
        except OSError:
            return 0, ""

    def answered(self, verb: str) -> int:
        """How many questions it answered well."""
        wanted = f'pumice_extender_server_requests_total{{status="200",verb="{verb}"}} '
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(wanted)]
        return int(float(lines[0].removeprefix(wanted))) if lines else 0

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


@contextmanager
def served(folder: Path, *arguments: str, port: int = 0) -> Iterator[Served]:
    """An extender that is ready, for the length of the block."""
    made = Served(folder, *arguments, port=port)
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def kube_scheduler(bed: Bed, folder: Path, name: str, *extenders: dict[str, Any]) -> Iterator[Path]:
    """A real kube-scheduler for pods of the scheduler *name*, whose only scores are its extenders'; gives its log."""
    nobody = {"disabled": [{"name": "*"}]}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(bed.kube_scheduler), "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "profiles": [{"schedulerName": name, "plugins": {"preScore": nobody, "score": nobody}}],
        "extenders": list(extenders),
    }
    path, log = folder / f"{name}.yaml", folder / f"{name}.log"
    path.write_text(yaml.safe_dump(config))
    with log.open("wb") as out:
        command = [str(binary("kube-scheduler")), f"--config={path}", "--secure-port=0", "-v=2"]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield log
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        process.kill()
        process.wait(30)
