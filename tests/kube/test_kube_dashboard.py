"""The pages over a real cluster, encrypted, for users of different rights: each sees what he may, and no more."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from kube_bed import ADMIN, Bed, free_port, until
from kube_world import World
from test_kube_answers import let

pytestmark = pytest.mark.timeout(300)

CERTS = Path(__file__).parents[1] / "extender" / "certs"
PAGES = ("/", "/waiting", "/nodes", "/changes", "/conf", "/try")
PUMICE = Path(sys.executable).with_name("pumice")


class TlsBrowser:
    """Trusts our authority, and keeps a cookie."""

    def __init__(self, port: int) -> None:
        self._port, self._trust = port, ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
        self.cookie = self.said = ""

    def open(self, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        connection = http.client.HTTPSConnection("localhost", self._port, timeout=30, context=self._trust)
        body = urllib.parse.urlencode(form) if form is not None else None
        connection.request("POST" if form is not None else "GET", path, body, {"Cookie": self.cookie})
        answer = connection.getresponse()
        text = answer.read().decode()
        self.said = answer.headers.get("set-cookie") or ""
        self.cookie = self.said.partition(";")[0] or self.cookie
        connection.close()
        return answer.status, text


@pytest.fixture
def rival(bed: Bed) -> Any:
    made = World(bed, "rival")
    yield made
    made.clean()


def ready(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "pumice dashboard has ended"
    try:
        return TlsBrowser(port).open("/login")[0] == 200
    except OSError:
        return False


def test_each_user_sees_of_a_real_cluster_what_he_may(world: World, rival: World) -> None:
    bed = world.bed
    let(bed, "alice", world.namespace)
    world.node("secret-node", cpu="4")
    world.gang("mine", 5)  # more than the node has room for: it waits, whoever else looks at the cluster
    rival.gang("hidden-plan", 9)
    port = free_port()
    certificate = (f"--tls-cert-file={CERTS / 'server.pem'}", f"--tls-private-key-file={CERTS / 'server.key'}")
    words = ["dashboard", f"--kubeconfig={bed.admin}", f"--address=127.0.0.1:{port}", *certificate]
    process = subprocess.Popen([str(PUMICE), *words])
    try:
        until(lambda: ready(process, port), 60, "the pages are served")
        stranger = TlsBrowser(port)
        assert [stranger.open(page)[0] for page in PAGES] == [303] * len(PAGES)
        assert stranger.open("/login", {"token": "made-up"})[0] == 401

        admin = TlsBrowser(port)
        assert admin.open("/login", {"token": ADMIN})[0] == 303
        assert {"secure", "httponly", "samesite=strict"} <= {part.strip().lower() for part in admin.said.split(";")}
        jobs = (f"{world.namespace}/mine", f"{rival.namespace}/hidden-plan")
        until(lambda: all(job in admin.open("/waiting")[1] for job in jobs), 180, "both jobs are shown")
        assert "secret-node" in admin.open("/nodes")[1]

        alice = TlsBrowser(port)
        assert alice.open("/login", {"token": "alice-token"})[0] == 303
        told = {page: alice.open(page) for page in PAGES}
        assert jobs[0] in told["/waiting"][1]
        for page, (status, text) in told.items():
            assert status == 200, page
            for secret in (rival.namespace, "hidden-plan", "secret-node"):
                assert secret not in text, page
        assert alice.open(f"/job/{jobs[0]}")[0] == 200
        assert alice.open(f"/job/{jobs[1]}")[0] == 403
        assert alice.open("/logout", {})[0] == 303
        assert alice.open("/")[0] == 303
    finally:
        process.terminate()
        assert process.wait(30) == 0
