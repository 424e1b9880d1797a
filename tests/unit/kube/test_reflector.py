"""Following a kind through everything that happens to watches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import virtual_time
from scripted_api import CUT, ScriptedApi, serving, until, write_kubeconfig

from pumice.kube.client import KubeClient
from pumice.kube.kinds import RESOURCES
from pumice.kube.reflector import Reflector, read_object
from pumice.kube.watching import Inbox
from pumice.model.events import ClusterEvent, Gone, Seen

NODES = "/api/v1/nodes"


def node(name: str, version: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version, "labels": labels}}


def budget(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "resourceVersion": version}}


def said(events: list[ClusterEvent]) -> list[str]:
    return [f"-{e.key}" if isinstance(e, Gone) else e.object.key for e in events if isinstance(e, (Gone, Seen))]


@asynccontextmanager
async def following(client: KubeClient, kind: str = "Node", **how: Any) -> AsyncIterator[tuple[Inbox, Reflector]]:
    inbox = Inbox([kind])
    reflector = Reflector(client, RESOURCES[kind], inbox, **how)
    task = asyncio.create_task(reflector.run())
    try:
        yield inbox, reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def watched_from(api: ScriptedApi) -> list[str]:
    return [query["resourceVersion"] for _, _, query, _ in api.requests if "watch" in query]


async def next_events(inbox: Inbox) -> list[str]:
    events: list[ClusterEvent] = []

    def some() -> bool:
        events.extend(inbox.drain())
        return bool(events)

    await until(some)
    return said(events)


def test_a_list_is_followed_by_what_changes(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"), node("b", "2"))
            async with following(client) as (inbox, _):
                assert await next_events(inbox) == ["a", "b"]
                api.watches[NODES].put_nowait({"type": "ADDED", "object": node("c", "11")})
                assert await next_events(inbox) == ["c"]
                api.watches[NODES].put_nowait({"type": "DELETED", "object": node("a", "12")})
                assert await next_events(inbox) == ["-a"]
            assert watched_from(api) == ["10"]

    virtual_time.run(story())


def test_what_a_watch_repeats_is_told_once_and_an_old_line_undoes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            async with following(client) as (inbox, _):
                assert await next_events(inbox) == ["a"]
                gone = {"type": "DELETED", "object": node("a", "11")}
                again = {"type": "ADDED", "object": node("a", "12")}
                for line in (gone, gone, again, gone, again):
                    api.watches[NODES].put_nowait(line)
                api.watches[NODES].put_nowait({"type": "ADDED", "object": node("end", "13")})
                told: list[str] = []
                while "end" not in told:
                    told += await next_events(inbox)
                assert told == ["-a", "a", "end"]

    virtual_time.run(story())


def test_a_line_may_come_in_pieces(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10")
            async with following(client) as (inbox, _):
                await until(inbox.synced.is_set)
                for piece in (
                    b'{"type":"ADDED","obj',
                    b'ect":{"metadata":{"name":"c"',
                    b',"resourceVersion":"11"}}}\n',
                ):
                    api.watches[NODES].put_nowait(piece)
                    await asyncio.sleep(0.02)
                assert await next_events(inbox) == ["c"]

    virtual_time.run(story())


def test_a_lost_watch_is_taken_up_where_its_last_bookmark_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            async with following(client) as (inbox, reflector):
                await next_events(inbox)
                bookmark = {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "77"}}}
                for item in (bookmark, CUT, {"type": "MODIFIED", "object": node("a", "78")}):
                    api.watches[NODES].put_nowait(item)
                assert await next_events(inbox) == ["a"]
                assert watched_from(api) == ["10", "77"]
                assert reflector.lists == 1

    virtual_time.run(story())


def test_a_version_the_server_forgot_means_a_new_list_that_tells_only_differences(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("same", "1"), node("gone", "2"), node("changed", "3"))
            api.list(NODES, "50", node("same", "1"), node("changed", "40"), node("new", "41"))
            async with following(client) as (inbox, reflector):
                await next_events(inbox)
                expired = {"type": "ERROR", "object": {"kind": "Status", "reason": "Expired", "code": 410}}
                api.watches[NODES].put_nowait(expired)
                assert sorted(await next_events(inbox)) == ["-gone", "changed", "new"]
                assert reflector.lists == 2
                await until(lambda: watched_from(api) == ["10", "50"])

    virtual_time.run(story())


def test_watches_that_end_at_once_do_not_make_us_run_wild(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
            for _ in range(50):
                api.watches[NODES].put_nowait(CUT)
                api.watches[NODES].put_nowait(gone)
            async with following(client) as (inbox, _):
                await until(inbox.synced.is_set)
                before = len(api.requests)
                await asyncio.sleep(1.1)
                assert len(api.requests) - before < 10

    virtual_time.run(story())


def test_an_object_that_cannot_be_read_spoils_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            bad = {"metadata": {"name": "bad", "resourceVersion": "2"}, "spec": {"unschedulable": "perhaps"}}
            api.list(NODES, "10", node("a", "1"), bad, node("b", "3"))
            async with following(client) as (inbox, _):
                assert await next_events(inbox) == ["a", "b"]
                api.watches[NODES].put_nowait({"type": "ADDED", "object": bad})
                api.watches[NODES].put_nowait({"type": "ADDED", "object": node("c", "11")})
                assert await next_events(inbox) == ["c"]

    virtual_time.run(story())


def test_an_object_that_is_nested_without_end_stops_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            async with following(client) as (inbox, _):
                assert await next_events(inbox) == ["a"]
                deep = b"[" * 5000 + b"]" * 5000
                line = (
                    b'{"type":"ADDED","object":{"metadata":{"name":"deep","resourceVersion":"11"},"odd":%s}}\n' % deep
                )
                api.watches[NODES].put_nowait(line)
                api.watches[NODES].put_nowait({"type": "ADDED", "object": node("c", "12")})
                told: list[str] = []
                while "c" not in told:
                    told += await next_events(inbox)
                assert told == ["deep", "c"]

    virtual_time.run(story())


def test_an_object_that_cannot_be_read_any_more_is_as_it_was_until_it_can(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            bad = {"metadata": {"name": "a", "resourceVersion": "11"}, "spec": {"unschedulable": "perhaps"}}
            api.list(NODES, "10", node("a", "1"), node("b", "2"))
            api.list(NODES, "12", bad)
            api.list(NODES, "14", node("a", "13"))
            async with following(client) as (inbox, reflector):
                assert await next_events(inbox) == ["a", "b"]
                for told in ("-b", "a"):
                    await asyncio.wait_for(reflector.renew(), 5)
                    assert said(inbox.drain()) == [told]

    virtual_time.run(story())


def test_a_kind_that_the_cluster_lacks_does_not_hold_up_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (_, client), following(client, "HyperNode") as (inbox, _):
            await until(inbox.synced.is_set)
            assert inbox.drain() == []

    virtual_time.run(story())


def test_a_kind_that_was_there_is_not_forgotten_when_a_starting_server_refuses_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            budgets = RESOURCES["PodDisruptionBudget"].collection
            first = {"metadata": {"resourceVersion": "5"}, "items": [budget("a", "1")]}
            again = {"metadata": {"resourceVersion": "9"}, "items": [budget("a", "1"), budget("b", "8")]}
            api.answers["GET", budgets] = [(200, first), (403, {}), (404, {}), (200, again)]
            async with following(client, "PodDisruptionBudget") as (inbox, reflector):
                assert await next_events(inbox) == ["team/a"]
                api.watches[budgets].put_nowait({"type": "ERROR", "object": {"code": 410}})
                assert await next_events(inbox) == ["team/b"]
                assert reflector.lists == 2

    virtual_time.run(story())


def test_a_kind_that_stays_refused_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.kube.reflector.DOUBT", 0.3)

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            budgets = RESOURCES["PodDisruptionBudget"].collection
            first = {"metadata": {"resourceVersion": "5"}, "items": [budget("a", "1")]}
            api.answers["GET", budgets] = [(200, first), (403, {})]
            async with following(client, "PodDisruptionBudget") as (inbox, _):
                assert await next_events(inbox) == ["team/a"]
                api.watches[budgets].put_nowait({"type": "ERROR", "object": {"code": 410}})
                assert await next_events(inbox) == ["-team/a"]

    virtual_time.run(story())


def test_a_kind_that_may_not_be_read_is_awaited_said_loudly_and_tried_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that starts refuses for a moment what it allows: its kinds do not vanish for that."""

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            budgets = RESOURCES["PodDisruptionBudget"].collection
            refused = (403, {"message": "RBAC is not loaded yet"})
            there = {"metadata": {"resourceVersion": "9"}, "items": [budget("a", "1")]}
            api.answers["GET", budgets] = [refused, refused, refused, (200, there)]
            began = time.monotonic()
            async with following(client, "PodDisruptionBudget") as (inbox, reflector):
                await until(lambda: reflector.missing == "forbidden")
                assert inbox.missing == ["PodDisruptionBudget"]
                assert await next_events(inbox) == ["team/a"]
                assert time.monotonic() - began < 2.0
                assert reflector.missing == ""

    with caplog.at_level(logging.INFO):
        virtual_time.run(story())
    assert [r.levelname for r in caplog.records if "RBAC is not loaded yet" in r.getMessage()] == ["WARNING"]


def test_a_right_that_is_missing_for_good_holds_up_the_start_for_half_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            budgets = RESOURCES["PodDisruptionBudget"].collection
            api.answers["GET", budgets] = [(403, {"message": "you may not"})]
            began = time.monotonic()
            async with following(client, "PodDisruptionBudget") as (inbox, reflector):
                await until(inbox.synced.is_set, 60.0)
                assert 30.0 <= time.monotonic() - began < 45.0
                assert reflector.missing == "forbidden"
                there = {"metadata": {"resourceVersion": "9"}, "items": [budget("a", "1")]}
                api.answers["GET", budgets] = [(200, there)]
                assert await next_events(inbox) == ["team/a"]
                assert time.monotonic() - began < 60.0
            async with following(client, "PodDisruptionBudget", patient=False) as (inbox, _):
                pass

    with caplog.at_level(logging.INFO):
        virtual_time.run(story())
    lines = [r for r in caplog.records if "you may not" in r.getMessage()]
    assert {r.levelname for r in lines} == {"WARNING"}
    assert len(lines) == 2


def test_a_needed_kind_that_the_cluster_lacks_holds_up_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client), following(client, "Queue") as (inbox, _):
            queues = RESOURCES["Queue"].collection
            await until(lambda: len(api.sent("GET", queues)) >= 2)
            assert inbox.missing == ["Queue"]
            api.list(queues, "5")
            await until(inbox.synced.is_set)

    virtual_time.run(story())


def test_an_object_that_is_not_ours_any_more_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1", pool="batch"), node("b", "2", pool="web"))
            ours: dict[str, Any] = {"accept": lambda obj: (obj.metadata.labels or {}).get("pool") == "batch"}
            async with following(client, **ours) as (inbox, _):
                assert await next_events(inbox) == ["a"]
                api.watches[NODES].put_nowait({"type": "MODIFIED", "object": node("a", "11", pool="web")})
                assert await next_events(inbox) == ["-a"]

    virtual_time.run(story())


def test_a_watch_that_brings_garbage_is_given_up_for_a_new_list(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            api.list(NODES, "20", node("a", "1"), node("b", "15"))
            async with following(client) as (inbox, reflector):
                assert await next_events(inbox) == ["a"]
                api.watches[NODES].put_nowait(b'{"type": "ADDED", "obj\n')
                assert await next_events(inbox) == ["b"]
                assert reflector.lists == 2

    virtual_time.run(story())


def test_credentials_that_cannot_be_read_again_are_tried_until_they_can(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path, token="old") as (api, client):
            api.tokens = {"Bearer new"}
            api.list(NODES, "10", node("a", "1"))
            (tmp_path / "kubeconfig").write_text("not: [a kubeconfig")
            async with following(client) as (inbox, _):
                await asyncio.sleep(0.3)
                assert inbox.missing == ["Node"]
                write_kubeconfig(tmp_path, api.url, "new")
                assert await next_events(inbox) == ["a"]

    virtual_time.run(story())


def test_refused_credentials_are_read_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path, token="old") as (api, client):
            api.tokens = {"Bearer new"}
            write_kubeconfig(tmp_path, api.url, "new")
            api.list(NODES, "10", node("a", "1"))
            async with following(client) as (inbox, _):
                assert await next_events(inbox) == ["a"]

    virtual_time.run(story())


def test_a_heartbeat_of_a_node_is_not_told(tmp_path: Path) -> None:
    def beating(version: str, at: str, ready: str = "True") -> dict[str, Any]:
        ready_condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": at}
        return {**node("a", version), "status": {"conditions": [ready_condition]}}

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", beating("1", "2026-01-01T00:00:00Z"))
            async with following(client, keep=True) as (inbox, reflector):
                assert await next_events(inbox) == ["a"]
                api.watches[NODES].put_nowait({"type": "MODIFIED", "object": beating("11", "2026-01-01T00:05:00Z")})
                await until(lambda: reflector.versions["a"] == "11")
                assert inbox.drain() == []
                assert reflector.objects["a"].metadata.resource_version == "11"
                api.watches[NODES].put_nowait(
                    {"type": "MODIFIED", "object": beating("12", "2026-01-01T00:10:00Z", "False")}
                )
                assert await next_events(inbox) == ["a"]

    virtual_time.run(story())


def test_a_renewed_kind_is_listed_by_a_request_that_began_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            api.list(NODES, "20", node("a", "1"), node("b", "15"))
            async with following(client) as (inbox, reflector):
                assert await next_events(inbox) == ["a"]
                await asyncio.wait_for(reflector.renew(), 5)
                assert said(inbox.drain()) == ["b"]
                await until(lambda: watched_from(api) == ["10", "20"])
                api.answers["GET", NODES] = [(500, {}), (200, api.lists[NODES][0])]
                await asyncio.wait_for(asyncio.gather(reflector.renew(), reflector.renew()), 5)
                assert reflector.lists == 1  # none because the watch was lost

    virtual_time.run(story())


def test_what_lists_bring_after_the_first_is_not_kept_from_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken connections that nobody has any more would be kept with it."""
    monkeypatch.setattr("pumice.kube.reflector._BIG", 0)
    frozen: list[None] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(None))

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.list(NODES, "10", node("a", "1"))
            async with following(client) as (inbox, reflector):
                assert await next_events(inbox) == ["a"]
                for _ in range(3):
                    await asyncio.wait_for(reflector.renew(), 5)
                assert (reflector.lists, len(frozen)) == (1, 1)

    virtual_time.run(story())


def test_a_kind_that_the_cluster_lacks_is_renewed_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (_, client), following(client, "PodDisruptionBudget") as (_, reflector):
            await asyncio.wait_for(reflector.renew(), 5)
            await asyncio.wait_for(reflector.renew(), 5)

    virtual_time.run(story())


def test_a_list_reads_only_what_is_not_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy of everything, at every outage of the server, would stay as memory of the process."""
    decoded: list[str] = []

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            same = [node(f"n{i}", str(i + 1)) for i in range(7)]
            api.list(NODES, "10", *same, node("n7", "8"), node("n8", "9"))
            api.list(NODES, "20", *same, node("n7", "19"), node("new", "20"))
            async with following(client) as (inbox, reflector):
                assert len(await next_events(inbox)) == 9

                def noted(resource: Any, raw: Any) -> Any:
                    obj = read_object(resource, raw)
                    decoded.append(obj.key if obj is not None else "")
                    return obj

                monkeypatch.setattr("pumice.kube.reflector.read_object", noted)
                await asyncio.wait_for(reflector.renew(), 5)
                assert said(inbox.drain()) == ["n7", "new", "-n8"]
                assert decoded == ["n7", "new"]

    virtual_time.run(story())
