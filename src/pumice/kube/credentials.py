"""Who we are and where the API server is, as a kubeconfig or the pod we run in says."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from pumice.kube.errors import NoCredentials
from pumice.kube.library import loader

_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, slots=True)
class Access:
    """One way in: the address, how to check and identify, and a token if there is one."""

    host: str
    token: str
    ca_file: str
    cert_file: str
    key_file: str
    verify: bool
    server_name: str
    proxy: str

    def tls(self) -> ssl.SSLContext:
        """What connections are made with."""
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file or None)
        return context

    def same_connection(self, other: Access) -> bool:
        """Whether connections made for *other* serve here too: nothing but the token differs."""
        return _connection(self) == _connection(other)


def _connection(access: Access) -> tuple[object, ...]:
    """What a connection depends on; files by content, for certificates are renewed in place."""
    files = tuple(_content(name) for name in (access.ca_file, access.cert_file, access.key_file))
    return (access.host, access.verify, access.server_name, access.proxy, *files)


def _content(name: str) -> bytes:
    try:
        return Path(name).read_bytes() if name else b""
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where credentials come from. ``load`` reads them anew each time: tokens are rotated."""

    kubeconfig: str | None = None
    context: str | None = None
    master: str | None = None

    async def load(self) -> Access:
        """The present credentials: the given kubeconfig, else the pod's own, else the default kubeconfig.

        :raises NoCredentials: there are none, or they cannot be read.
        """
        config, configuration = loader()
        found = configuration()
        try:
            if self.kubeconfig is None and os.environ.get(_IN_CLUSTER):
                config.load_incluster_config(client_configuration=found)
            else:
                await config.load_kube_config(
                    config_file=self.kubeconfig, context=self.context, client_configuration=found, persist_config=False
                )
        except Exception as exc:  # the loader raises whatever a broken file or a failing exec plugin makes it raise
            where = f"kubeconfig {self.kubeconfig!r}" if self.kubeconfig else "neither a kubeconfig nor a pod's account"
            raise NoCredentials(f"{where}: {exc}") from exc
        return Access(
            host=(self.master or found.host or "").rstrip("/"),
            token=str(found.api_key.get("BearerToken", "")),
            ca_file=found.ssl_ca_cert or "",
            cert_file=found.cert_file or "",
            key_file=found.key_file or "",
            verify=bool(found.verify_ssl),
            server_name=found.tls_server_name or "",
            proxy=found.proxy or "",
        )
