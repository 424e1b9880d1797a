"""Kubeconfig files: read, merged as kubectl merges them, and the cluster and user that a context names."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

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
    """What somebody shows the API server."""

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


def paths(given: str | None) -> list[Path]:
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


def read(files: Iterable[Path]) -> Kubeconfig:
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
    """What a field holds: its data (base64), else the file that it names, else nothing.

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
    """The value without what is null, which means the same as what is left out."""
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
