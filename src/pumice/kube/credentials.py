"""The caller's identity and the API server's address: a kubeconfig, its exec plugin, or the account of the pod."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import ssl
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from pumice import yamls
from pumice.config.problems import nearest
from pumice.errors import InvalidInput, decoder_words, read_text
from pumice.kube.errors import NoCredentials
from pumice.model.api import make_known

T = TypeVar("T")


class Extension(msgspec.Struct):
    """Settings of somebody else, such as those of an exec plugin."""

    name: str = ""
    extension: Any = None


class ClusterEntry(msgspec.Struct, rename="kebab"):
    """An API server, and how to know it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: Sequence[Extension] = ()


class Variable(msgspec.Struct):
    """An environment variable of an exec plugin."""

    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, rename="camel"):
    """A program that prints credentials."""

    command: str
    api_version: str = ""
    args: Sequence[str] = ()
    env: Sequence[Variable] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(msgspec.Struct, rename="kebab"):
    """The credentials for the API server."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecPlugin | None = None
    auth_provider: Mapping[str, Any] | None = None
    impersonated: str = msgspec.field(default="", name="as")


class ContextEntry(msgspec.Struct):
    """Which user asks which cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry = msgspec.field(default_factory=ClusterEntry)


class _NamedUser(msgspec.Struct):
    name: str
    user: UserEntry = msgspec.field(default_factory=UserEntry)


class _NamedContext(msgspec.Struct):
    name: str
    context: ContextEntry = msgspec.field(default_factory=ContextEntry)


class _File(msgspec.Struct, rename="kebab"):
    clusters: Sequence[_NamedCluster] = ()
    users: Sequence[_NamedUser] = ()
    contexts: Sequence[_NamedContext] = ()
    current_context: str = ""


make_known(_File)


@dataclass(slots=True)
class Kubeconfig:
    """Several files as one: what an earlier file says stands."""

    source: str = ""
    """The files, as a message names them."""
    clusters: dict[str, ClusterEntry] = field(default_factory=dict)
    users: dict[str, UserEntry] = field(default_factory=dict)
    contexts: dict[str, ContextEntry] = field(default_factory=dict)
    current: str = ""

    def choose(self, context: str | None) -> tuple[ClusterEntry, UserEntry]:
        """The cluster and the user of a context, of the current one by default.

        :raises NoCredentials: one of them does not exist.
        """
        name = context or self.current
        if not name:
            known = f"; --context takes one of {', '.join(self.contexts)}" if self.contexts else ""
            raise NoCredentials(f"kubeconfig {self.source!r}: has no current-context{known}")
        chosen = self._named("context", name, self.contexts)
        cluster = self._named("cluster", chosen.cluster, self.clusters)
        if not cluster.server:
            raise NoCredentials(f"kubeconfig {self.source!r}: cluster {chosen.cluster!r} has no server")
        return cluster, self._named("user", chosen.user, self.users) if chosen.user else UserEntry()

    def namespace(self, context: str | None) -> str:
        """The namespace of a context, of the current one by default; nothing where it names none."""
        chosen = self.contexts.get(context or self.current)
        return chosen.namespace if chosen is not None else ""

    def _named(self, kind: str, name: str, known: Mapping[str, T]) -> T:
        if name in known:
            return known[name]
        near = nearest(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise NoCredentials(f"kubeconfig {self.source!r}: there is no {kind} {name!r}{hint}")


def kubeconfig_paths(given: str | None) -> list[Path]:
    """The files to read: the one that is given, else those of ``KUBECONFIG``, else the default one.

    :raises NoCredentials: there is none of them.
    """
    if given is not None:
        return [Path(given)]
    listed = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    candidates = listed or [Path.home() / ".kube" / "config"]
    there = [path for path in candidates if path.is_file()]
    if not there:
        names = " and ".join(str(path) for path in candidates)
        missing = "does not exist" if len(candidates) == 1 else "do not exist"
        raise NoCredentials(f"neither a kubeconfig nor a pod's account: {names} {missing}")
    return there


def read_kubeconfig(files: Iterable[Path]) -> Kubeconfig:
    """Files as one.

    :raises NoCredentials: one cannot be read; names it.
    """
    merged = Kubeconfig()
    for path in files:
        merged.source = f"{merged.source}{os.pathsep if merged.source else ''}{path}"
        file = _file(path)
        folder = path.resolve().parent
        for cluster in file.clusters:
            merged.clusters.setdefault(cluster.name, _located(cluster.cluster, folder, "certificate_authority"))
        for user in file.users:
            located = _located(user.user, folder, "client_certificate", "client_key", "token_file")
            if located.exec is not None and os.sep in located.exec.command:
                located.exec.command = str(folder / located.exec.command)
            merged.users.setdefault(user.name, located)
        for context in file.contexts:
            merged.contexts.setdefault(context.name, context.context)
        merged.current = merged.current or file.current_context
    return merged


def content(file: str, data: str, what: str) -> bytes:
    """The value of a field: its data (base64), else the file that it names, else nothing.

    :raises NoCredentials: neither can be read; names the field.
    """
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as exc:
            raise NoCredentials(f"{what}-data: is not base64") from exc
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as exc:
        raise NoCredentials(f"{what} {file!r}: {exc.strerror}") from exc


def _file(path: Path) -> _File:
    try:
        found = yamls.load(read_text(path, "kubeconfig"), f"kubeconfig {path}")
        return msgspec.convert(_told(found) or {}, _File)
    except InvalidInput as exc:
        raise NoCredentials(str(exc)) from exc
    except msgspec.ValidationError as exc:
        raise NoCredentials(f"kubeconfig {str(path)!r}: {decoder_words(exc)}") from exc


def _told(value: Any) -> Any:
    """The value without nulls, which mean the same as missing values."""
    if isinstance(value, dict):
        return {key: _told(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_told(inner) for inner in value]
    return value


def _located(entry: T, folder: Path, *names: str) -> T:
    """The entry with its paths made absolute: they are relative to the file that names them."""
    for name in names:
        if given := getattr(entry, name):
            setattr(entry, name, str(folder / given))
    return entry


TIMEOUT_S: Final = 60.0
"""How long a plugin may take; somebody may have to log in."""
_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")


class Printed(msgspec.Struct, rename="camel"):
    """The output of a plugin: a token, or a certificate with its key (PEM), or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Printed | None = None


_CREDENTIAL = msgspec.json.Decoder(_Credential)


async def run_exec_plugin(plugin: ExecPlugin, cluster: ClusterEntry, timeout: float = TIMEOUT_S) -> Printed:
    """Run a plugin and read what it prints. Its text on stderr is for the user.

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
    """The input of the plugin, as the environment variable ``KUBERNETES_EXEC_INFO``."""
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


MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's account."""


@dataclass(frozen=True, slots=True)
class Access:
    """One way in: the address, how to check and identify, and a token if there is one."""

    host: str
    token: str = ""
    """The header ``Authorization``, whole."""
    ca: bytes = b""
    cert: bytes = b""
    key: bytes = b""
    verify: bool = True
    server_name: str = ""
    proxy: str = ""

    def tls(self) -> ssl.SSLContext:
        """The settings of connections.

        :raises NoCredentials: a certificate or key is none.
        """
        encrypted = any(address.startswith("https:") for address in (self.host, self.proxy))
        try:
            if self.ca or encrypted:
                context = ssl.create_default_context(cadata=self.ca.decode("ascii") if self.ca else None)
            else:  # nobody is trusted: it takes long to read the system's authorities
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        except (ssl.SSLError, ValueError) as exc:
            raise NoCredentials(f"{self.host}: the certificate authority is no certificate: {exc}") from exc
        # Python 3.13 asks more of an authority than Go does; those of clusters are made for Go
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            with tempfile.TemporaryDirectory() as folder:  # only the owner may enter it
                chain = Path(folder, "client.pem")
                chain.write_bytes(self.cert.rstrip() + b"\n" + self.key)
                try:
                    context.load_cert_chain(chain)
                except (ssl.SSLError, ValueError) as exc:
                    raise NoCredentials(f"{self.host}: client certificate and key do not fit: {exc}") from exc
        return context

    def same_connection(self, other: Access) -> bool:
        """Whether connections made for *other* serve here too: nothing but the token differs."""
        return _connection(self) == _connection(other)


def _connection(access: Access) -> tuple[object, ...]:
    return (access.host, access.verify, access.server_name, access.proxy, access.ca, access.cert, access.key)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The source of credentials. ``load`` reads them anew each time: tokens are rotated, certificates renewed."""

    kubeconfig: str | None = None
    context: str | None = None
    master: str | None = None

    @property
    def _is_the_pod(self) -> bool:
        """Report whether the account of the pod that we run in is meant: nobody named a kubeconfig or context."""
        named = self.kubeconfig is not None or self.context is not None or os.environ.get("KUBECONFIG")
        return not named and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))

    async def load(self) -> Access:
        """The present credentials: those of a kubeconfig or context that is named, in `KUBECONFIG` too; else the pod's
        own, else the default kubeconfig's.

        :raises NoCredentials: there are none, or they cannot be read.
        """
        if self._is_the_pod:
            return self._of_the_pod()
        try:
            files = kubeconfig_paths(self.kubeconfig)
        except NoCredentials:
            if self.master:
                return Access(self.master.rstrip("/"))
            raise
        merged = read_kubeconfig(files)
        cluster, user = merged.choose(self.context)
        try:
            access = await self._of(cluster, user)
            access.tls()  # a certificate and a key that do not fit, while they are renewed, are told now
            return access
        except NoCredentials as exc:
            raise NoCredentials(f"kubeconfig {merged.source!r}: {exc}") from exc

    def namespace(self) -> str:
        """The namespace that is meant where none is named: the kubeconfig's, the pod's own, else ``default``."""
        try:
            if self._is_the_pod:
                return (MOUNTED / "namespace").read_text(encoding="utf-8").strip() or "default"
            return read_kubeconfig(kubeconfig_paths(self.kubeconfig)).namespace(self.context) or "default"
        except (NoCredentials, OSError):
            return "default"

    def _of_the_pod(self) -> Access:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT") or "443"
        try:
            token = (MOUNTED / "token").read_text(encoding="ascii").strip()
            ca = (MOUNTED / "ca.crt").read_bytes()
        except (OSError, UnicodeDecodeError) as exc:
            raise NoCredentials(f"the pod's account in {MOUNTED}: {exc}") from exc
        server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return Access((self.master or server).rstrip("/"), f"Bearer {token}", ca)

    async def _of(self, cluster: ClusterEntry, user: UserEntry) -> Access:
        if user.auth_provider is not None:
            name = user.auth_provider.get("name", "")
            raise NoCredentials(f"auth-provider {name!r}: is not supported; use an exec plugin")
        if user.impersonated:
            raise NoCredentials(f"as {user.impersonated!r}: acting for another user is not supported")
        cert = content(user.client_certificate, user.client_certificate_data, "client-certificate")
        key = content(user.client_key, user.client_key_data, "client-key")
        token = _authorization(user)
        if user.exec is not None:
            printed = await run_exec_plugin(user.exec, cluster)
            if printed.token and not token:
                token = f"Bearer {printed.token}"
            if printed.client_key_data:
                cert, key = printed.client_certificate_data.encode(), printed.client_key_data.encode()
        verify = not cluster.insecure_skip_tls_verify
        ca = content(cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority")
        host = (self.master or cluster.server).rstrip("/")
        return Access(host, token, ca, cert, key, verify, cluster.tls_server_name, cluster.proxy_url)


def proxy_of(access: Access) -> str:
    """The proxy that the kubeconfig or the environment names for a server, or nothing."""
    parts = urlsplit(access.host)
    if access.proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        return access.proxy
    return urllib.request.getproxies().get(parts.scheme, "")


def _authorization(user: UserEntry) -> str:
    """The credentials of a user beside a certificate; a file with a token wins over a token."""
    token = content(user.token_file, "", "tokenFile").decode("utf-8", "replace").strip() or user.token
    if token:
        return f"Bearer {token}"
    if user.username:
        return "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
    return ""
