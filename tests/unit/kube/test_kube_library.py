"""The library's loader comes alone, and leaves the library as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://api.example:6443"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_credentials_are_loaded_without_the_models_of_the_library(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    code = f"""
import asyncio, sys
from pumice.kube.credentials import Credentials
access = asyncio.run(Credentials({str(path)!r}).load())
print(access.host, access.token, [name for name in sys.modules if name.startswith("kubernetes_asyncio")])
"""
    assert run(code) == "https://api.example:6443 Bearer secret []"


def test_who_uses_the_library_afterwards_gets_all_of_it() -> None:
    code = """
from pumice.kube.library import loader
loader()
import kubernetes_asyncio
from kubernetes_asyncio.config import kube_config
print(kube_config.ApiClient is kubernetes_asyncio.client.ApiClient, kubernetes_asyncio.client.V1Pod.__name__)
"""
    assert run(code) == "True V1Pod"


def test_who_used_it_before_shares_it() -> None:
    code = """
import kubernetes_asyncio
from pumice.kube.library import loader
print(loader() == (kubernetes_asyncio.config, kubernetes_asyncio.client.Configuration))
"""
    assert run(code) == "True"
