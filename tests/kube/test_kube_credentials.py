"""Every way to be somebody, on a real API server: it says who it takes us for."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ADMIN, SCHEDULER, Bed

from pumice.kube import credentials as module
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.errors import ApiRefused

V1 = "client.authentication.k8s.io/v1"


def config(folder: Path, bed: Bed, user: dict[str, Any], **cluster: Any) -> str:
    """A kubeconfig for the server with one user."""
    authority = cluster or {"certificate-authority": str(bed.folder / "ca.crt")}
    path = folder / "config"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": bed.url, **authority}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def whoami(who: Credentials) -> str:
    """The name under which the server knows us."""

    async def story() -> bytes:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        async with KubeClient(who) as client:
            return await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)

    return str(json.loads(asyncio.run(story()))["status"]["userInfo"]["username"])


@pytest.fixture(scope="module")
def certificate(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for ann, and its key."""
    folder = tmp_path_factory.mktemp("ann")
    key, request, made = (folder / name for name in ("ann.key", "ann.csr", "ann.crt"))
    new = ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ann/O=system:masters"]
    subprocess.run([*new, "-keyout", key, "-out", request], check=True, capture_output=True)
    by: list[str | Path] = ["-CA", bed.folder / "ca.crt", "-CAkey", bed.folder / "ca.key"]
    sign: list[str | Path] = ["openssl", "x509", "-req", "-in", request]
    subprocess.run([*sign, *by, "-CAcreateserial", "-days", "2", "-out", made], check=True, capture_output=True)
    return made, key


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_a_token_in_the_kubeconfig_or_in_a_file(bed: Bed, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{ADMIN}\n")
    assert whoami(Credentials(config(tmp_path, bed, {"token": ADMIN}))) == "admin"
    assert whoami(Credentials(config(tmp_path, bed, {"tokenFile": "token"}))) == "admin"


def test_a_client_certificate(bed: Bed, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    files = {"client-certificate": str(made), "client-key": str(key)}
    inside = {"client-certificate-data": encoded(made), "client-key-data": encoded(key)}
    authority = {"certificate-authority-data": encoded(bed.folder / "ca.crt")}
    assert whoami(Credentials(config(tmp_path, bed, files))) == "ann"
    assert whoami(Credentials(config(tmp_path, bed, inside, **authority))) == "ann"


def test_an_exec_plugin_with_a_token_and_with_a_certificate(
    bed: Bed, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    made, key = certificate
    pair = {"clientCertificateData": made.read_text(), "clientKeyData": key.read_text()}
    for status, name in (({"token": ADMIN}, "admin"), (pair, "ann")):
        answer = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
        (tmp_path / "answer").write_text(answer)
        args = ["-c", f"print(open({str(tmp_path / 'answer')!r}).read())"]
        plugin = {"apiVersion": V1, "command": sys.executable, "args": args, "interactiveMode": "Never"}
        assert whoami(Credentials(config(tmp_path, bed, {"exec": plugin}))) == name


def test_a_pods_account(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(SCHEDULER)
    (tmp_path / "ca.crt").write_bytes((bed.folder / "ca.crt").read_bytes())
    host, _, port = bed.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(module, "MOUNTED", tmp_path)
    assert whoami(Credentials()) == "system:serviceaccount:pumice-system:pumice-scheduler"


def test_somebody_whom_the_server_does_not_know_is_refused(bed: Bed, tmp_path: Path) -> None:
    with pytest.raises(ApiRefused, match="401"):
        whoami(Credentials(config(tmp_path, bed, {"token": "wrong"})))
