"""Who we are and where the API server is, as a kubeconfig or the pod we run in says."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pumice.kube import execplugin, kubeconfig
from pumice.kube.errors import NoCredentials
from pumice.kube.kubeconfig import ClusterEntry, UserEntry, content

MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its account."""


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
        """What connections are made with.

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
    """Where credentials come from. ``load`` reads them anew each time: tokens are rotated, certificates renewed."""

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
            files = kubeconfig.paths(self.kubeconfig)
        except NoCredentials:
            if self.master:
                return Access(self.master.rstrip("/"))
            raise
        merged = kubeconfig.read(files)
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
            return kubeconfig.read(kubeconfig.paths(self.kubeconfig)).namespace(self.context) or "default"
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
            printed = await execplugin.run(user.exec, cluster)
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
    """What a user shows beside a certificate; a file with a token stands above a token."""
    token = content(user.token_file, "", "tokenFile").decode("utf-8", "replace").strip() or user.token
    if token:
        return f"Bearer {token}"
    if user.username:
        return "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
    return ""
