"""Who sees what on the pages: nobody without a token, and nothing of other namespaces, neither by name nor in a sum."""

from __future__ import annotations

import http.client
import urllib.parse
from collections.abc import Iterator

import pytest
from dashboard_worlds import CONF, Word, desk_over, served

from pumice.answers import what_if
from pumice.answers.what_if import play_sides
from pumice.dashboard.history import RecentHistory
from pumice.framework.points.guard import Health
from pumice.history.recorder import HistoryRecorder
from pumice.testing import job, node, queue

PAGES = ("/", "/jobs", "/nodes", "/changes", "/conf", "/try", "/what-if", "/job/mine/waits", "/job/secret/plan-x")
ADMIN = [("list", "podgroups", ""), ("list", "nodes", ""), ("get", "queues", "")]
WORD = Word({"alice": [("get", "podgroups", "mine")], "admin": ADMIN, "nobody": []})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    desk = desk_over(
        queue("default"),
        node("hidden-node", cpu=8),
        job("runs", namespace="mine", tasks=2, cpu=1, on="hidden-node"),
        job("waits", namespace="mine", tasks=9, cpu=1),
        job("plan-x", namespace="secret", tasks=3, cpu=1, on="hidden-node"),
        job("plan-y", namespace="secret", tasks=50, cpu=1),
    )
    history = RecentHistory(desk.state, every=0.0)
    recorder = HistoryRecorder(desk.state, [history], strict=True)
    recorder.deciding("one", dict)
    history.look()
    desk.state.now += 60
    recorder.deciding("two", dict)
    history.look()
    with served(desk, history, WORD) as where:
        yield where


class Browser:
    """Keeps a cookie."""

    def __init__(self, address: str) -> None:
        self.host = urllib.parse.urlsplit(address).netloc
        self.cookie = ""

    def raw(self, path: str, **headers: str) -> bytes:
        """The bytes of a file, as they are sent."""
        connection = http.client.HTTPConnection(self.host, timeout=20)
        connection.request("GET", path, headers=headers)
        content = connection.getresponse().read()
        connection.close()
        return content

    def open(self, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        body = urllib.parse.urlencode(form) if form is not None else None
        connection.request("POST" if form is not None else "GET", path, body, {"Cookie": self.cookie, **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.headers.get("set-cookie"):
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        connection.close()
        return answer.status, text

    def sign_in(self, user: str) -> int:
        return self.open("/login", {"token": f"{user}-token"})[0]


def test_without_a_token_there_is_nothing_but_the_way_in(address: str) -> None:
    browser = Browser(address)
    for page in PAGES:
        assert browser.open(page)[0] == 303
    assert browser.open("/stream")[0] == 401
    assert browser.open("/login", {"token": "made-up"})[0] == 401
    browser.cookie = "pumice-session=made-up"
    assert browser.open("/")[0] == 303


def test_who_may_see_all_sees_all(address: str) -> None:
    browser = Browser(address)
    assert browser.sign_in("admin") == 303
    whole = "".join(browser.open(page)[1] for page in PAGES)
    for name in ("secret/plan-y", "mine/waits", "hidden-node"):
        assert name in whole
    assert "Not shown to you" not in whole
    assert "of 4 jobs" in whole


def test_nothing_of_other_namespaces_is_named_or_added_up(address: str) -> None:
    browser = Browser(address)
    browser.sign_in("alice")
    texts = {page: browser.open(page) for page in PAGES}
    assert texts.pop("/job/secret/plan-x")[0] == 403
    for page, (status, text) in texts.items():
        assert status == 200, page
        for name in ("secret", "plan-", "hidden-node"):
            assert name not in text, page
    overview = texts["/"][1]
    assert "of 2 jobs" in overview, "four are there, two are hers"
    assert "2 cpu" in overview, "her pods hold 2 of the 5 that are held"
    assert "5 cpu" not in overview
    assert "how queues stand: needs the right to get queues" in overview
    assert "mine/waits" in texts["/jobs"][1]


def test_who_may_nothing_sees_no_jobs(address: str) -> None:
    browser = Browser(address)
    browser.sign_in("nobody")
    whole = "".join(browser.open(page)[1] for page in PAGES[:7])
    for name in ("plan-", "mine/runs", "hidden-node"):
        assert name not in whole
    assert "of 0 jobs" in whole


def test_the_text_of_the_conf_is_for_who_sees_everything_and_its_secrets_for_nobody() -> None:
    arguments = {"extender.urlPrefix": "http://bob:hunter2@127.0.0.1:9/v1", "extender.ignorable": True}
    told = {**CONF, "tiers": [*CONF["tiers"], {"plugins": [{"name": "extender", "arguments": arguments}]}]}
    desk = desk_over(queue("default"), node("n", cpu=8), job("waits", namespace="mine", tasks=9), conf_data=told)
    with served(desk, None, WORD) as where:
        for user, sees in (("admin", True), ("alice", False), ("nobody", False)):
            browser = Browser(where)
            browser.sign_in(user)
            status, text = browser.open("/conf")
            assert status == 200
            assert "hunter2" not in text
            assert ("http://***@127.0.0.1:9/v1" in text) is sees
            assert ("for who may see everything" in text) is not sees
            assert "overcommit" not in text
            assert "proportion" in text, "its plugins are named to everybody"


def test_how_plugins_do_is_told_to_everybody_and_what_they_said_to_who_sees_everything() -> None:
    desk = desk_over(queue("default"), node("n", cpu=8), job("waits", namespace="mine", tasks=9))
    health = desk.cycle.runtime.health
    health["drf"] = Health(failures=3, failing_cycles=1, last="KeyError: secret/plan-x")
    health["nodeorder"] = Health(failures=9, failing_cycles=5, quarantined=True, last="on hidden-node")
    with served(desk, None, WORD) as where:
        for user, reads in (("admin", True), ("alice", False), ("nobody", False)):
            browser = Browser(where)
            browser.sign_in(user)
            _, text = browser.open("/conf")
            assert text.count("✓ well") == 5
            assert "✗ 3 failures" in text
            assert "✗ not asked for a while" in text
            assert ("secret/plan-x" in text, "hidden-node" in text) == (reads, reads)


def test_a_job_is_tried_by_who_may_submit_it_and_from_our_own_form(address: str) -> None:
    manifest = "kind: PodGroup\nmetadata: {name: new, namespace: mine}\nspec: {minMember: 1}\n"
    browser = Browser(address)
    browser.sign_in("alice")
    status, text = browser.open("/try", {"job": manifest})
    assert status == 403
    assert "may not create podgroups" in text
    status, text = browser.open("/try", {"job": manifest}, Origin="http://elsewhere.example")
    assert status == 403
    assert "another site" in text
    status, text = browser.open("/try", {"job": "{"})
    assert status == 200
    assert "job.yaml" in text


def test_a_session_ends_when_one_signs_out(address: str) -> None:
    browser = Browser(address)
    browser.sign_in("admin")
    cookie = browser.cookie
    browser.open("/logout", {})
    browser.cookie = cookie
    assert browser.open("/")[0] == 303


def test_only_reviews_are_asked_of_the_api_server(address: str) -> None:
    assert {line.rpartition("/")[2] for line in WORD.asked} == {"tokenreviews", "subjectaccessreviews"}


def test_when_a_job_starts_is_on_its_page_and_who_sees_everything_may_suppose(address: str) -> None:
    browser = Browser(address)
    browser.sign_in("admin")
    page = browser.open("/job/mine/waits")[1]
    assert "<dt>Start</dt>" in page
    assert "It assumes" in page
    assert "more nodes like" in page
    assert 'value="mine/waits"' in browser.open("/what-if?job=mine/waits")[1]
    browser.sign_in("alice")
    assert "more nodes like" not in browser.open("/job/mine/waits")[1]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is supposed is decided in this process, which is quicker; `test_what_if.py` has the other."""
    monkeypatch.setattr(what_if, "play_apart", play_sides)


def test_what_is_supposed_is_told_to_who_may_see_everything(address: str, here: None) -> None:
    browser = Browser(address)
    browser.sign_in("admin")
    status, text = browser.open("/what-if", {"like": "hidden-node", "many": "2", "job": "mine/waits"})
    assert status == 200
    assert "2 more nodes like hidden-node" in text
    assert "starts now" in text
    assert "Queues that would stand otherwise" in text
    status, text = browser.open("/what-if", {"weight:default": "7", "capability:default": "cpu 5"})
    assert "queue default: weight 1 → 7" in text
    assert "queue default: capability cpu none → 5" in text
    assert 'value="7"' in text, "the form keeps what was typed"
    amounts = {"weight:default": "1", "capability:default": "", "deserved:default": " cpu=2,\nmemory 1Gi"}
    assert text.count("<li>queue default: ") == 2
    assert browser.open("/what-if", amounts)[1].count("<li>queue default: deserved ") == 2, "only what is otherwise"
    for user in ("alice", "nobody"):
        browser.sign_in(user)
        for form in (None, {"like": "hidden-node"}):
            status, text = browser.open("/what-if", form)
            assert "asked by who may see everything" in text
            for name in ("secret", "plan-", "hidden-node"):
                assert name not in text


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "nothing to change"),
        ({"like": "nowhere"}, "no node named &#39;nowhere&#39;"),
        ({"like": "hidden-node", "many": "²"}, "must be a whole number"),
        ({"like": "hidden-node", "many": "0"}, "&gt;= 1"),
        ({"drained": "hidden-node, <b>"}, "node named &#39;&lt;b&gt;&#39;"),
        ({"weight:default": "-3"}, "must be a whole number"),
        ({"capability:default": "cpu"}, "must be a resource and an amount"),
        ({"deserved:default": "cpu lots"}, "lots"),
        ({"conf": "actions: ["}, "not YAML"),
        ({"conf": "x", "job": "mine/nobody"}, "nobody"),
        ({f"f{n}": "1" for n in range(400)}, "more than 190 fields"),
    ],
)
def test_what_cannot_be_supposed_is_told_in_words(address: str, here: None, form: dict[str, str], said: str) -> None:
    browser = Browser(address)
    browser.sign_in("admin")
    text = browser.open("/what-if", form)[1]
    assert said in text
    assert "another site" in browser.open("/what-if", form, Origin="http://elsewhere.example")[1]
