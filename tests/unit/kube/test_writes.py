"""Writes on their way to a server: statuses go where it keeps them, and who does not lead sends nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scripted_api import CUT, ScriptedApi, serving

from pumice.kube.client import STRATEGIC, Backoff
from pumice.kube.errors import ApiRefused, NotSent, Unreachable
from pumice.kube.kinds import RESOURCES, Resource
from pumice.kube.writer import ApiWriter, ClaimUnusable
from pumice.model.intents import Bind, Evict, Nominate

WRITTEN = ("PodGroup", "Queue", "Pod")
"""Kinds whose status the scheduler writes."""
GONE = (404, {"reason": "NotFound", "message": "not found"})


def served(*names: str) -> tuple[int, dict[str, Any]]:
    return 200, {"kind": "APIResourceList", "resources": [{"name": name} for name in names]}


def talking(tmp_path: Path, body: Callable[[ScriptedApi, ApiWriter], Awaitable[None]], **options: Any) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            await body(api, ApiWriter(client, options.pop("left", lambda: 100.0), **options))

    asyncio.run(story())


def key_of(resource: Resource) -> str:
    return "q" if resource.kind == "Queue" else "ns/o"


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_status_goes_to_its_subresource_and_nothing_else_is_asked(tmp_path: Path, kind: str) -> None:
    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        where = RESOURCES[kind]
        assert await writer.patch_status(where, key_of(where), {"status": {"phase": "Running"}})
        assert [(m, p) for m, p, _, _ in api.requests] == [("PATCH", where.path(key_of(where), "status"))]

    talking(tmp_path, body)


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_kind_without_a_status_subresource_has_its_objects_written_which_is_found_out_and_said_once(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Volcano's CRD of PodGroups is such a kind."""

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        where = RESOURCES[kind]
        api.answers["PATCH", where.path(key_of(where), "status")] = [GONE]
        api.answers["GET", where.prefix] = [served(where.plural)]
        for phase in ("Inqueue", "Running", "Completed"):
            assert await writer.patch_status(where, key_of(where), {"status": {"phase": phase}})
        tried = [(m, p) for m, p, _, _ in api.requests]
        whole = ("PATCH", where.path(key_of(where)))
        assert tried == [("PATCH", where.path(key_of(where), "status")), ("GET", where.prefix), whole, whole, whole]
        assert [b["status"]["phase"] for b in api.sent("PATCH")[1:]] == ["Inqueue", "Running", "Completed"]

    with caplog.at_level(logging.INFO, "pumice.kube"):
        talking(tmp_path, body)
    assert [r.getMessage() for r in caplog.records if "subresource" in r.getMessage()] == [
        f"{RESOURCES[kind].plural} has no status subresource here: statuses are written to the objects themselves"
    ]


@pytest.mark.parametrize("with_subresource", [True, False])
@pytest.mark.parametrize("kind", WRITTEN)
def test_only_an_object_that_is_gone_is_taken_for_gone(tmp_path: Path, kind: str, with_subresource: bool) -> None:
    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        where = RESOURCES[kind]
        for sub in ("status", ""):
            api.answers["PATCH", where.path(key_of(where), sub)] = [GONE]
        names = (where.plural, f"{where.plural}/status") if with_subresource else (where.plural,)
        api.answers["GET", where.prefix] = [served(*names)]
        assert not await writer.patch_status(where, key_of(where), {"status": {}})
        last = [p for m, p, _, _ in api.requests if m == "PATCH"][-1]
        assert last == where.path(key_of(where), "status" if with_subresource else "")

    talking(tmp_path, body)


def test_a_status_waits_for_a_server_that_does_not_serve_the_kind_yet(tmp_path: Path) -> None:
    """A server that starts answers 404 to everything of a CRD for a moment."""

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        where = RESOURCES["PodGroup"]
        api.answers["PATCH", where.path("ns/o", "status")] = [GONE, GONE, (200, {})]
        api.answers["GET", where.prefix] = [GONE, served("queues")]
        assert await writer.patch_status(where, "ns/o", {"status": {}})

    talking(tmp_path, body)


def test_a_kind_that_gets_a_status_subresource_later_is_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.kube.writer.SURE", -1.0)

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        where = RESOURCES["PodGroup"]
        api.answers["PATCH", where.path("ns/o", "status")] = [GONE, (200, {})]
        api.answers["GET", where.prefix] = [
            served("podgroups"),
            served("podgroups"),
            served("podgroups", "podgroups/status"),
        ]
        for _ in range(2):
            assert await writer.patch_status(where, "ns/o", {"status": {}})
        assert [p.rpartition("/")[2] for m, p, _, _ in api.requests if m == "PATCH"] == ["status", "o", "status"]

    talking(tmp_path, body)


WRITES: dict[str, Callable[[ApiWriter], Awaitable[object]]] = {
    "send": lambda w: w.send("POST", "/x", {}),
    "send_status": lambda w: w.send_status(RESOURCES["PodGroup"], "ns/o", {}),
    "patch": lambda w: w.patch("/x", {}, STRATEGIC),
    "patch_status": lambda w: w.patch_status(RESOURCES["PodGroup"], "ns/o", {}),
    "create": lambda w: w.create("/x", {}),
    "bind": lambda w: w.bind(Bind("ns/p", "u", "n")),
    "evict": lambda w: w.evict(Evict("ns/p", "u", "n", "preempt")),
    "nominate": lambda w: w.nominate(Nominate("ns/p", "u", "n")),
    "create_object": lambda w: w.create_object(RESOURCES["PodGroup"], "ns", {}),
    "replace_status": lambda w: w.replace_status(RESOURCES["PodGroup"], "ns/o", {}),
    "merge_status": lambda w: w.merge_status(RESOURCES["PodGroup"], "ns/o", {}),
    "merge": lambda w: w.merge(RESOURCES["PodGroup"], "ns/o", {}),
    "delete": lambda w: w.delete(RESOURCES["PodGroup"], "ns/o", "u"),
    "edit": lambda w: w.edit("Pod", "ns/o", lambda _: {"spec": {}}),
    "ensure": lambda w: w.ensure("Pod", "ns/o", {"metadata": {}}),
}
READS = {"read", "read_object", "read_pod", "node_of", "silent"}


def test_who_does_not_lead_sends_nothing_whatever_is_to_be_written_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    public = {name for name in vars(ApiWriter) if not name.startswith("_")}
    assert public == {*WRITES, *READS}, "a way to write that is not tried here"

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        api.answers["GET", "/api/v1/namespaces/ns/pods/o"] = [(200, {"metadata": {"name": "o"}})]
        for write in WRITES.values():
            with suppress(NotSent, ClaimUnusable):  # callers that must stop are told by an exception
                await write(writer)
        assert [method for method, *_ in api.requests] == ["GET"], "an edit reads first"
        assert isinstance(await writer.send("POST", "/x", {}), NotSent)
        assert "we do not lead any more" in str(await writer.bind(Bind("ns/p", "u", "n")))

    with caplog.at_level(logging.INFO, "pumice.kube"):
        talking(tmp_path, body, left=lambda: 0.0)
    assert [r.getMessage() for r in caplog.records] == [
        "POST /x: not sent, for we do not lead any more; neither is anything else that waits"
    ]


def test_who_comes_again_by_itself_is_told_at_once(tmp_path: Path) -> None:
    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        for code in (429, 500, 503):
            api.answers["POST", "/x"] = [(code, {})]
            answer = await writer.send("POST", "/x", {})
            assert isinstance(answer, ApiRefused)
            assert answer.code == code
        api.answers["POST", "/x"] = ["cut"]
        with pytest.raises(Unreachable):
            await writer.send("POST", "/x", {})
        assert len(api.sent("POST")) == 4

    talking(tmp_path, body, patient=False)


POD = "/api/v1/namespaces/ns/pods/p"
NOES = (400, 401, 403, 404, 409, 410, 422, 500, 503, 504)
"""Answers that end a try; 429 is waited out."""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr("pumice.kube.writer.Backoff", lambda *_: Backoff(0.001, 0.01))


def pod_on(node: str) -> tuple[int, dict[str, Any]]:
    return 200, {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": node}}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("lost", [CUT, (504, {})], ids=["cut", "504"])
@pytest.mark.parametrize("code", NOES)
def test_whatever_is_said_to_a_bind_that_is_sent_again_only_the_pod_tells_what_became_of_the_first(
    tmp_path: Path, code: int, lost: Any
) -> None:
    """A server that was started anew answers 403 and 404 to everybody until it knows their rights."""

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        api.answers["POST", f"{POD}/binding"] = [lost, (code, {"message": "no"})]
        api.answers["GET", POD] = [CUT, (403, {}), (403, {}), (503, {}), pod_on("n")]
        assert await writer.bind(Bind("ns/p", "u", "n")) is None
        api.answers["POST", f"{POD}/binding"] = [lost, (code, {"message": "no"})]
        api.answers["GET", POD] = [(403, {}), pod_on("other")]
        assert "no" in str(await writer.bind(Bind("ns/p", "u", "n")))

    talking(tmp_path, body)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("code", NOES)
def test_a_bind_without_an_answer_that_did_not_happen_is_sent_until_it_does(tmp_path: Path, code: int) -> None:
    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        api.answers["POST", f"{POD}/binding"] = [CUT, (code, {}), (code, {}), (201, {})]
        api.answers["GET", POD] = [pod_on("")]
        assert await writer.bind(Bind("ns/p", "u", "n")) is None

    talking(tmp_path, body)


def test_a_bind_without_an_answer_is_given_up_when_it_cannot_come_true_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.kube.writer.LATE", 0.2)

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        api.answers["POST", f"{POD}/binding"] = [CUT, (403, {"message": "never"})]
        api.answers["GET", POD] = [pod_on("")]
        assert "never" in str(await writer.bind(Bind("ns/p", "u", "n")))
        assert len(api.sent("POST")) > 2
        api.answers["GET", POD] = [GONE]
        api.answers["POST", f"{POD}/binding"] = [CUT, GONE]
        assert "not found" in str(await writer.bind(Bind("ns/p", "u", "n")))

    talking(tmp_path, body)


@pytest.mark.parametrize(
    ("pod", "told"), [(pod_on("n"), 0), (GONE, 0), (pod_on(""), 1)], ids=["bound meanwhile", "gone", "still waiting"]
)
def test_a_nomination_that_the_server_refuses_is_told_only_of_a_pod_that_still_waits(
    tmp_path: Path, pod: Any, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod with a node takes no nomination any more: a server says 422 to it."""

    async def body(api: ScriptedApi, writer: ApiWriter) -> None:
        api.answers["PATCH", f"{POD}/status"] = [(422, {"message": "may not be changed"})]
        api.answers["GET", POD] = [pod]
        await writer.nominate(Nominate("ns/p", "u", "n"))

    with caplog.at_level(logging.WARNING, "pumice.kube"):
        talking(tmp_path, body)
    assert len(caplog.records) == told


def test_refused_writes_are_one_line_for_a_reason_and_each_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            writer = ApiWriter(client, lambda: float("inf"))
            counted: list[str] = []
            writer.refused = counted.append
            for name in ("p-0", "p-1", "gone"):
                text = {"message": f'pods "{name}" is forbidden: {"nobody may" if name != "gone" else "gone"}'}
                api.answers["PATCH", f"/api/v1/namespaces/ns/pods/{name}/status"] = [(403, text)]
            api.answers["PATCH", "/api/v1/namespaces/ns/pods/gone/status"] = [(404, {})]
            for name in ("p-0", "p-1", "gone") * 3:
                assert not await writer.patch_status(RESOURCES["Pod"], f"ns/{name}", {"status": {}})
            assert counted == ["status"] * 6
            for n in range(3):
                writer.refusals.tell(f"pod ns/q-{n} was not bound: no", f"ns/q-{n}")

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert ["p-0" in said[0], said[1:]] == [True, ["pod ns/q-0 was not bound: no"]]
