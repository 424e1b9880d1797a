"""Forms that are too large are refused as such; pages without a login answer under names of this machine alone."""

from __future__ import annotations

import http.client
import urllib.parse

import pytest
from dashboard_worlds import Word, asking, desk_over, served
from starlette.routing import Route
from test_pages_keep_secrets import Browser

from pumice.dashboard.access import OpenAccess
from pumice.dashboard.history import RecentHistory
from pumice.dashboard.server import MOST_BYTES, Dashboard
from pumice.testing import job, node

RIGHTS = [("list", "podgroups", ""), ("list", "nodes", ""), ("get", "queues", "")]
FORMS = ["/login", "/try", "/what-if"]


@pytest.mark.parametrize("page", FORMS)
@pytest.mark.parametrize("form", [{"job": "a" * (MOST_BYTES + 1)}, {f"field-{n}": "1" for n in range(1000)}])
def test_a_form_that_is_too_large_is_refused_as_such(page: str, form: dict[str, str]) -> None:
    desk = desk_over(node("n1", cpu=1), job("a", cpu=1))
    with served(desk, word=Word({"admin": RIGHTS})) as address:
        browser = Browser(address)
        if page != "/login":
            assert browser.sign_in("admin") == 303
        status, text = browser.open(page, form)
        assert status == 413
        assert "the form" in text


def every_path() -> list[tuple[str, str]]:
    """Path and method of everything that can be opened."""
    desk = desk_over(node("n1", cpu=1))
    pages = Dashboard(asking(desk), RecentHistory(desk.state), OpenAccess())
    routes = [route for route in pages.routes() if isinstance(route, Route)]
    assert len(routes) > 10
    return [(r.path.format(namespace="default", name="a"), method) for r in routes for method in r.methods or ()]


def test_pages_without_a_login_answer_under_names_of_this_machine_alone() -> None:
    """A page of another site can have its own name lead to 127.0.0.1, and would read the cluster."""
    with served(desk_over(node("n1", cpu=1), job("a", cpu=1))) as address:
        where = urllib.parse.urlsplit(address)

        def status(path: str, host: str, method: str = "GET") -> int:
            connection = http.client.HTTPConnection(where.netloc, timeout=20)
            connection.request(method, path, headers={"Host": host, "Origin": f"http://{host}"})
            found = connection.getresponse().status
            connection.close()
            return found

        for path, method in every_path():
            assert status(path, "attacker.example", method) == 421, path
            assert status(path, f"attacker.example:{where.port}", method) == 421, path
        assert status("/", "127.0.0.1.attacker.example") == 421
        for host in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
            assert status("/", host) == 200, host
            assert status("/", f"{host}:{where.port}") == 200, host


def test_behind_a_login_any_name_will_do() -> None:
    with served(desk_over(node("n1", cpu=1)), word=Word({})) as address:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=20)
        connection.request("GET", "/login", headers={"Host": "pumice.example.com"})
        assert connection.getresponse().status == 200
        connection.close()
