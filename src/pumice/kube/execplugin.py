"""Credentials that a program prints: the exec plugins of a kubeconfig (aws, gke-gcloud-auth-plugin, kubelogin, …)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from contextlib import suppress
from typing import Any, Final

import msgspec

from pumice.errors import decoder_words
from pumice.kube.errors import NoCredentials
from pumice.kube.kubeconfig import ClusterEntry, ExecPlugin, content

TIMEOUT_S: Final = 60.0
"""How long a plugin may take; somebody may have to log in."""
_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")


class Printed(msgspec.Struct, rename="camel"):
    """What a plugin gives: a token, or a certificate with its key (PEM), or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Printed | None = None


_CREDENTIAL = msgspec.json.Decoder(_Credential)


async def run(plugin: ExecPlugin, cluster: ClusterEntry, timeout: float = TIMEOUT_S) -> Printed:
    """Run a plugin and read what it prints. What it says on stderr is for the user.

    :raises NoCredentials: it cannot be run, fails, takes too long, or prints something else.
    """
    name = f"exec plugin {plugin.command!r}"
    if plugin.api_version not in _VERSIONS:
        raise NoCredentials(f"{name}: apiVersion {plugin.api_version!r} must be {' or '.join(_VERSIONS)}")
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not interactive:
        raise NoCredentials(f"{name}: wants a terminal to ask on, and there is none")
    env = {**os.environ, **{variable.name: variable.value for variable in plugin.env}}
    env["KUBERNETES_EXEC_INFO"] = json.dumps(_request(plugin, cluster, interactive))
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=env,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as exc:
        hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
        raise NoCredentials(f"{name}: {exc.strerror}{hint}") from exc
    try:
        async with asyncio.timeout(timeout):
            out, _ = await process.communicate()
    except TimeoutError:
        raise NoCredentials(f"{name}: did not answer within {timeout:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise NoCredentials(f"{name}: ended with exit code {process.returncode}")
    return _read(name, plugin.api_version, out)


def _read(name: str, version: str, out: bytes) -> Printed:
    try:
        credential = _CREDENTIAL.decode(out)
    except msgspec.MsgspecError as exc:
        raise NoCredentials(f"{name}: printed no ExecCredential: {decoder_words(exc)}") from exc
    if credential.kind != "ExecCredential" or credential.api_version != version:
        got = f"{credential.kind or 'nothing'} of {credential.api_version or 'no version'}"
        raise NoCredentials(f"{name}: must print an ExecCredential of {version}, got {got}")
    printed = credential.status or Printed()
    if bool(printed.client_certificate_data) != bool(printed.client_key_data):
        raise NoCredentials(f"{name}: must print a certificate and its key together")
    if not printed.token and not printed.client_key_data:
        raise NoCredentials(f"{name}: printed neither a token nor a certificate")
    return printed


def _request(plugin: ExecPlugin, cluster: ClusterEntry, interactive: bool) -> dict[str, Any]:
    """What the plugin is told, as the environment variable ``KUBERNETES_EXEC_INFO``."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        ca = content(cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority")
        settings = next((e.extension for e in cluster.extensions if e.name == f"{_GROUP}/exec"), None)
        told = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(ca).decode(),
            "proxy-url": cluster.proxy_url,
            "config": settings,
        }
        spec["cluster"] = {key: value for key, value in told.items() if value}
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
