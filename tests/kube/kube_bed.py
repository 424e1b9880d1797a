"""A real API server and etcd on loopback, started for the tests, and a plain way to talk to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ADMIN, SCHEDULER, EXTENDER, KUBE_SCHEDULER = "admin-token", "scheduler-token", "extender-token", "kube-scheduler-token"
CONTROLLERS = "controllers-token"
TENANTS = ("alice", "bob")
"""Ordinary users, each with the token NAME-token and no rights but those that a test gives."""
ACCOUNT = "system:serviceaccount:pumice-system:pumice-scheduler"
_GROUPS = "system:serviceaccounts,system:serviceaccounts:pumice-system,system:authenticated"


class Missing(Exception):
    """The test bed cannot be started; says what is missing."""


def binary(name: str) -> Path:
    """One of the programs of the test bed, from ``KUBEBUILDER_ASSETS`` or from what ``make kube`` built.

    :raises Missing: it is not there.
    """
    given = os.environ.get("KUBEBUILDER_ASSETS")
    cache = Path(os.environ.get("PUMICE_KUBE_CACHE") or Path.home() / ".cache" / "pumice-kube")
    folders = [*([Path(given)] if given else ()), *sorted(cache.glob("[0-9]*"), reverse=True)]
    for folder in folders:
        if (folder / name).exists():
            return Path(folder / name)
    raise Missing(f"{name}: missing in {given or cache}; `make kube` builds it (Go 1.26 or newer is needed)")


class Bed:
    """An API server with its etcd. ``admin`` and ``scheduler`` are kubeconfigs."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            raise Missing("openssl: missing; it makes the certificates of the test bed")
        for name in ("etcd", "kube-apiserver"):
            binary(name)
        self.folder = folder
        self._etcd_port, self._peer_port, self._port = (free_port() for _ in range(3))
        self._etcd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._others: list[subprocess.Popen[bytes]] = []
        self.url = f"https://127.0.0.1:{self._port}"
        self._certificates()
        extender = ACCOUNT.replace("pumice-scheduler", "pumice-extender")
        (folder / "tokens.csv").write_text(
            f'{ADMIN},admin,1,"system:masters"\n{SCHEDULER},{ACCOUNT},2,"{_GROUPS}"\n{EXTENDER},{extender},3,"{_GROUPS}"\n'
            f'{KUBE_SCHEDULER},system:kube-scheduler,4,"system:authenticated"\n'
            f'{CONTROLLERS},{ACCOUNT.replace("-scheduler", "-controllers")},5,"{_GROUPS}"\n'
            + "".join(f'{name}-token,{name},{n},"system:authenticated"\n' for n, name in enumerate(TENANTS, 10))
        )
        self.admin = self.kubeconfig("admin", ADMIN)
        self.scheduler = self.kubeconfig("scheduler", SCHEDULER)
        self.extender = self.kubeconfig("extender", EXTENDER)
        self.controllers = self.kubeconfig("controllers", CONTROLLERS)
        self.tenants = {name: self.kubeconfig(name, f"{name}-token") for name in TENANTS}
        self.kube_scheduler = self.kubeconfig("kube-scheduler", KUBE_SCHEDULER)

    # -- processes --------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start both and wait until they serve."""
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._etcd = self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self.start_server()

    def start_server(self, *flags: str) -> None:
        """Start the API server on the data that is there, with more flags, and wait until it is ready."""
        f = self.folder
        self._server = self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={f / 'server.crt'}",
            f"--tls-private-key-file={f / 'server.key'}",
            f"--client-ca-file={f / 'ca.crt'}",
            f"--token-auth-file={f / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={f / 'sa.pub'}",
            f"--service-account-signing-key-file={f / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *flags,
        )
        until(self._ready, 90, "the API server is ready")

    @property
    def serving(self) -> bool:
        """Whether the API server was started and not stopped."""
        return self._server is not None

    @property
    def pids(self) -> list[int]:
        """The processes of the server and its etcd."""
        return [process.pid for process in (self._server, self._etcd) if process is not None]

    def stop_server(self, *, kill: bool = False) -> None:
        """Stop the API server; etcd and its data stay."""
        if self._server is not None:
            (self._server.kill if kill else self._server.terminate)()
            self._server.wait(30)
            self._server = None

    def stop(self) -> None:
        """Stop everything."""
        for other in list(self._others):
            self.end(other)
        self.stop_server(kill=True)
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait(30)

    def kubelets(self) -> subprocess.Popen[bytes]:
        """Start KWOK, which plays the kubelets of all nodes until it is ended: see ``kubelets.yaml``."""
        stages = Path(__file__).with_name("kubelets.yaml")
        return self.beside("kwok", f"--kubeconfig={self.admin}", "--manage-all-nodes=true", f"--config={stages}")

    def beside(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        """Start a program that belongs to the bed, until it is ended."""
        made = self._spawn(name, *flags)
        self._others.append(made)
        return made

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a program that was started beside the server."""
        process.kill()
        process.wait(30)
        self._others.remove(process)

    def _spawn(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        program = binary(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([str(program), *flags], stdout=log, stderr=log)

    def _ready(self) -> bool:
        if self._server is not None and self._server.poll() is not None:
            tail = (self.folder / "kube-apiserver.log").read_text()[-2000:]
            raise AssertionError(f"kube-apiserver ended with {self._server.returncode}:\n{tail}")
        try:
            return bool(self.call("GET", "/readyz", raw=True) == "ok")
        except (OSError, Refusal):
            return False

    # -- talking ----------------------------------------------------------------------------------------------------
    def call(
        self, method: str, path: str, body: Any = None, *, patch: str = "strategic-merge", raw: bool = False
    ) -> Any:
        """One request as the administrator; the decoded answer."""
        kind = "application/json" if method != "PATCH" else f"application/{patch}-patch+json"
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                raise Refusal(exc.code, exc.read().decode()) from None
        return text if raw else json.loads(text)

    def apply(self, path: Path) -> None:
        """Create everything that a manifest holds."""
        for document in yaml.safe_load_all(path.read_text()):
            self.create(document)

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Create one object."""
        version, meta = document["apiVersion"], document["metadata"]
        prefix = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        plural = plural_of(document["kind"])
        where = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        found: dict[str, Any] = self.call("POST", f"{prefix}{where}/{plural}", document)
        return found

    # -- files ------------------------------------------------------------------------------------------------------
    def _certificates(self) -> None:
        def openssl(*args: str) -> None:
            subprocess.run(["openssl", *args], cwd=self.folder, check=True, capture_output=True)

        subject, usage = "/CN=pumice-test-ca", "keyUsage=critical,keyCertSign,cRLSign"
        openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", subject, "-addext", usage),
            *("-keyout", "ca.key", "-out", "ca.crt"),
        )
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-keyout", "server.key", "-out", "s.csr")
        extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\nauthorityKeyIdentifier=keyid\n"
        (self.folder / "s.ext").write_text(extensions)
        openssl(
            *("x509", "-req", "-in", "s.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "30", "-extfile", "s.ext", "-out", "server.crt"),
        )
        openssl("genrsa", "-out", "sa.key", "2048")
        openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def kubeconfig(self, name: str, token: str, url: str = "") -> Path:
        """A kubeconfig for a token; *url* is another way to the server."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": url or self.url, "certificate-authority": str(self.folder / "ca.crt")}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bed", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": "bed", "user": name}}],
            "current-context": name,
        }
        path.write_text(yaml.safe_dump(content))
        return path


class Refusal(Exception):
    """The API server said no."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def until(what: Callable[[], Any], seconds: float, meaning: str) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {meaning}")


def plural_of(kind: str) -> str:
    """The name of a kind in paths."""
    return kind.lower() + ("es" if kind.endswith("s") else "s") if not kind.endswith("y") else kind.lower()[:-1] + "ies"


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
