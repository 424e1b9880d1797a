"""Binds, evictions, statuses and events on their way out, past everything a server can answer."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import virtual_time
from scripted_api import CUT, ScriptedApi, serving, until

from pumice.clock import ManualClock
from pumice.kube.events import SHARE, WAITING, NoteWriter
from pumice.kube.outbox import Outbox
from pumice.kube.statuses import StatusWriter
from pumice.kube.writer import ApiWriter
from pumice.model.api import AnyObject, Condition, Metadata, PodGroup, PodGroupStatus
from pumice.model.codes import ReasonCode
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed
from pumice.model.intents import Bind, Evict, Nominate, Note, StatusUpdate

POD = "/api/v1/namespaces/ns/pods/p"
BINDING = f"{POD}/binding"
CONFLICT = (409, {"reason": "Conflict", "message": "already assigned"})
BUDGET = (429, {"reason": "TooManyRequests", "details": {"causes": [{"reason": "DisruptionBudget"}]}})
GROUP_STATUS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g/status"


class Out:
    """An outbox at work, and what came back from it."""

    def __init__(self) -> None:
        self.events: list[ClusterEvent] = []
        self.left = float("inf")
        self.groups: dict[str, AnyObject] = {}
        self.binders: dict[str, Any] = {}
        self.nodes = {"n1", "n2"}
        self.namespaces: list[str] = []


@asynccontextmanager
async def sending(tmp_path: Path) -> AsyncIterator[tuple[ScriptedApi, Outbox, Out]]:
    out = Out()
    async with serving(tmp_path) as (api, client):
        writer = ApiWriter(client, lambda: out.left)
        clock = ManualClock(1_700_000_000)
        box = Outbox(
            writer,
            StatusWriter(writer, {"PodGroup": out.groups}, clock),
            NoteWriter(writer, clock, "pumice"),
            out.events.extend,
            in_flight=4,
            binders=out.binders,
            nodes=out.nodes,
            namespaces=out.namespaces,
        )
        task = asyncio.create_task(box.run())
        try:
            yield api, box, out
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def bound_to(node: str, uid: str = "u") -> tuple[int, dict[str, Any]]:
    return 200, {"metadata": {"name": "p", "namespace": "ns", "uid": uid}, "spec": {"nodeName": node}}


def run_bind(tmp_path: Path, *answers: Any, pod: Any = None) -> tuple[list[ClusterEvent], int]:
    """Bind a pod against scripted answers; returns what was reported and how many requests it took."""

    async def story() -> tuple[list[ClusterEvent], int]:
        async with sending(tmp_path) as (api, box, out):
            api.answers["POST", BINDING] = list(answers)
            if pod is not None:
                api.answers["GET", POD] = [pod]
            box.put([Bind("ns/p", "u", "n1")])
            async with asyncio.timeout(10):
                await box.finish()
            return out.events, len(api.sent("POST", BINDING))

    return virtual_time.run(story())


def test_a_bind_names_the_pods_uid_and_carries_its_annotations(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            box.put([Bind("ns/p", "u", "n1", annotations={"gpu": "0,1"})])
            await box.finish()
            (body,) = api.sent("POST", BINDING)
            assert body["metadata"] == {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"gpu": "0,1"}}
            assert body["target"]["name"] == "n1"
            assert out.events == []

    virtual_time.run(story())


def test_a_bind_whose_answer_was_lost_is_sent_again_and_found_done(tmp_path: Path) -> None:
    assert run_bind(tmp_path, CUT, CONFLICT, pod=bound_to("n1")) == ([], 2)


def test_a_bind_to_a_node_that_is_gone_is_not_sent(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            out.nodes.remove("n1")
            box.put([Bind("ns/p", "u", "n1")])
            await box.finish()
            assert out.events == [BindFailed("ns/p", "u", "the node is gone", "n1")]
            assert api.sent("POST", BINDING) == []

    virtual_time.run(story())


def test_a_pod_that_somebody_else_bound_is_a_failed_bind(tmp_path: Path) -> None:
    events, _ = run_bind(tmp_path, CONFLICT, pod=bound_to("n2"))
    assert [type(e) for e in events] == [BindFailed]


def test_another_pod_of_the_same_name_on_our_node_is_a_failed_bind(tmp_path: Path) -> None:
    events, _ = run_bind(tmp_path, CONFLICT, pod=bound_to("n1", uid="other"))
    assert [type(e) for e in events] == [BindFailed]


def test_a_busy_server_is_waited_for(tmp_path: Path) -> None:
    busy = (429, {"message": "too many requests"})
    assert run_bind(tmp_path, *[busy] * 6, (201, {})) == ([], 7)


def test_a_server_that_keeps_failing_ends_the_bind(tmp_path: Path) -> None:
    events, tries = run_bind(tmp_path, (500, {"message": "broken webhook"}), pod=bound_to(""))
    assert tries == 5
    assert [(type(e), "broken webhook" in getattr(e, "message", "")) for e in events] == [(BindFailed, True)]


def test_a_pod_that_is_gone_is_a_failed_bind(tmp_path: Path) -> None:
    events, tries = run_bind(tmp_path, (404, {"message": "not found"}))
    assert ([type(e) for e in events], tries) == ([BindFailed], 1)


def test_who_does_not_lead_sends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            out.left = 0.0
            box.put([Bind("ns/p", "u", "n1"), Evict("ns/p", "u", "n1", "preempt"), Nominate("ns/p", "u", "n1")])
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Inqueue"})])
            await box.finish()
            assert api.requests == []
            assert {type(e) for e in out.events} == {BindFailed, EvictFailed}

    virtual_time.run(story())


def test_what_is_noted_on_an_object_is_written_to_it_and_its_status_beside_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            group = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g"
            box.put([StatusUpdate("PodGroup", "ns/g", {}, {"since": "then"})])
            box.put([StatusUpdate("PodGroup", "ns/g", {}, {"gone": None})])
            await box.finish()
            sent = [(method, path, body) for method, path, _, body in api.requests]
            assert sent == [("PATCH", group, {"metadata": {"annotations": {"since": "then", "gone": None}}})]
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Running"}, {"since": "now"})])
            await box.finish()
            assert [path for _, path, _, _ in api.requests[1:]] == [group, f"{group}/status"]

    virtual_time.run(story())


def test_losing_the_lead_ends_a_bind_that_is_being_tried_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            api.answers["POST", BINDING] = [(429, {})]
            box.put([Bind("ns/p", "u", "n1")])
            await until(lambda: len(api.requests) >= 2)
            out.left = 0.0
            await until(lambda: bool(out.events))
            count = len(api.requests)
            await asyncio.sleep(0.3)
            assert len(api.requests) == count

    virtual_time.run(story())


def test_no_more_binds_are_in_flight_than_allowed(tmp_path: Path) -> None:
    async def story() -> None:
        flying, most = 0, 0

        async def slow(_: Any) -> tuple[int, Any]:
            nonlocal flying, most
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(0.02)
            flying -= 1
            return 201, {}

        async with sending(tmp_path) as (api, box, out):
            for i in range(20):
                api.answers["POST", f"/api/v1/namespaces/ns/pods/p{i}/binding"] = [slow]
            box.put([Bind(f"ns/p{i}", f"u{i}", "n1") for i in range(20)])
            await box.finish()
            assert (most, out.events) == (4, [])

    virtual_time.run(story())


class Refusing:
    """A binder that fails."""

    name = "ext"

    def bind(self, intent: Bind) -> None:
        raise RuntimeError(f"not {intent.pod}")


def test_a_bind_goes_to_the_binder_it_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            out.binders["ext"] = Refusing()
            box.put([Bind("ns/p", "u", "n1", binder="ext"), Bind("ns/q", "v", "n1", binder="missing")])
            await box.finish()
            found = {e.pod: e.message for e in out.events if isinstance(e, BindFailed)}
            assert found == {"ns/p": "not ns/p", "ns/q": "binder 'missing': there is none of that name"}
            assert [(method, path) for method, path, _, _ in api.requests] == [("GET", "/api/v1/namespaces/ns/pods/p")]

    virtual_time.run(story())


def test_a_binder_that_fails_after_it_bound_has_bound(tmp_path: Path) -> None:
    """Its answer was lost, perhaps: the pod tells."""

    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            out.binders["ext"] = Refusing()
            api.answers["GET", "/api/v1/namespaces/ns/pods/p"] = [bound_to("n1")]
            box.put([Bind("ns/p", "u", "n1", binder="ext")])
            await box.finish()
            assert [e for e in out.events if isinstance(e, BindFailed)] == []

    virtual_time.run(story())


def test_an_eviction_that_a_budget_refuses_stops_the_rest_of_its_plan_only(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            api.answers["POST", "/api/v1/namespaces/ns/pods/b/eviction"] = [BUDGET]
            where = {"a": "n1", "b": "n1", "c": "n2"}
            plan = [Evict(f"ns/{p}", f"u{p}", where[p], "preempt", beneficiary="ns/big") for p in "abc"]
            box.put([*plan, Evict("ns/d", "ud", "n", "preempt", beneficiary="ns/other")])
            await box.finish()
            evicted = sorted(p for m, p, _, _ in api.requests if m == "POST" and p.endswith("/eviction"))
            assert [p.split("/")[-2] for p in evicted] == ["a", "b", "d"]
            refused, given_up = out.events
            assert isinstance(refused, EvictFailed)
            assert (refused.pod, refused.node, refused.beneficiary) == ("ns/b", "n1", "ns/big")
            assert (refused.tried, refused.freed) == (True, True)
            rest = "the eviction of ns/b was refused"
            assert given_up == EvictFailed("ns/c", "uc", rest, "n2", "ns/big", tried=False, freed=False)
            body = api.sent("POST", "pods/a/eviction")[0]
            assert body["deleteOptions"]["preconditions"]["uid"] == "ua"

    virtual_time.run(story())


def test_an_eviction_of_a_pod_that_is_gone_or_replaced_is_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            api.answers["POST", "/api/v1/namespaces/ns/pods/a/eviction"] = [(404, {})]
            api.answers["POST", f"{POD}/eviction"] = [CONFLICT]
            api.answers["GET", POD] = [bound_to("n", uid="another")]
            box.put([Evict("ns/a", "ua", "n", "preempt"), Evict("ns/p", "u", "n", "preempt")])
            await box.finish()
            assert out.events == []

    virtual_time.run(story())


@pytest.mark.parametrize(
    ("helped", "told"),
    [
        ({}, ""),
        ({"beneficiary": "ns/big", "beneficiary_pod": "ns/big-0"}, ", to make room for big-0"),
        ({"beneficiary": "ns/big"}, ", to make room for big"),
        (
            {"beneficiary": "secret/big", "beneficiary_pod": "secret/big-0"},
            ", to make room for a pod of another namespace",
        ),
    ],
)
def test_an_eviction_is_told_to_people_with_whom_it_helps(tmp_path: Path, helped: dict[str, str], told: str) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            box.put([Evict("ns/p", "u", "n", "reclaim", **helped)])
            await until(lambda: bool(api.sent("POST", "/events")))
            (event,) = api.sent("POST", "/events")
            assert (event["reason"], event["message"]) == ("Evict", f"Pod is evicted, because of reclaim{told}")
            assert event["involvedObject"] == {
                "kind": "Pod",
                "apiVersion": "v1",
                "name": "p",
                "namespace": "ns",
                "uid": "u",
            }

    virtual_time.run(story())


def test_the_same_note_is_written_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            note = Note("PodGroup", "ns/g", "Warning", ReasonCode.UNSCHEDULABLE, "no room")
            for _ in range(5):
                box.put([note])
            box.put([Note("PodGroup", "ns/g", "Warning", ReasonCode.UNSCHEDULABLE, "another reason")])
            await until(lambda: len(api.sent("POST", "/events")) == 2)
            await asyncio.sleep(0.05)
            assert [e["message"] for e in api.sent("POST", "/events")] == ["no room", "another reason"]
            assert api.sent("POST", "/events")[0]["involvedObject"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"

    virtual_time.run(story())


def test_changes_of_one_status_in_a_moment_are_one_write(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Inqueue", "running": 0})])
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Running", "running": 3})])
            await box.finish()
            assert api.sent("PATCH", GROUP_STATUS) == [{"status": {"phase": "Running", "running": 3}}]
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Running", "running": 3})])
            await box.finish()
            assert len(api.sent("PATCH", GROUP_STATUS)) == 1

    virtual_time.run(story())


def test_a_new_group_of_the_same_name_is_told_what_the_old_one_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            for uid in ("old", "old", "new"):
                out.groups["ns/g"] = PodGroup(metadata=Metadata(name="g", namespace="ns", uid=uid))
                box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Inqueue"})])
                await box.finish()
            assert api.sent("PATCH", GROUP_STATUS) == [{"status": {"phase": "Inqueue"}}] * 2

    virtual_time.run(story())


def test_conditions_of_other_types_stay_and_unchanged_ones_keep_their_time(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    early = datetime(2020, 1, 1, tzinfo=UTC)
    old = tuple(Condition(type=t, status="True", last_transition_time=early) for t in ("Admitted", "Unschedulable"))
    group = PodGroup(metadata=Metadata(name="g", namespace="ns"), status=PodGroupStatus(conditions=old))

    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            out.groups["ns/g"] = group
            fresh = [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "m"}]
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Pending", "conditions": fresh})])
            await box.finish()
            written = api.sent("PATCH", GROUP_STATUS)[0]["status"]["conditions"]
            assert [(c["type"], c["lastTransitionTime"]) for c in written] == [
                ("Admitted", "2020-01-01T00:00:00Z"),
                ("Unschedulable", "2020-01-01T00:00:00Z"),
            ]
            assert written[1]["message"] == "m"

    virtual_time.run(story())


SAID = [(kind, status) for kind in ("Scheduled", "Unschedulable") for status in ("True", "False")]


@pytest.mark.parametrize("old", [(), *((s,) for s in SAID), (SAID[0], SAID[2])], ids=str)
@pytest.mark.parametrize("at_once", [True, False])
def test_scheduled_and_unschedulable_are_never_both_true(
    tmp_path: Path, old: tuple[tuple[str, str], ...], at_once: bool
) -> None:
    def true_ones(conditions: Any) -> set[str]:
        return {c["type"] for c in conditions if c["status"] == "True"}

    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            for told in itertools.product(SAID, repeat=2):
                conditions = tuple(Condition(type=kind, status=status, reason="R") for kind, status in old)
                meta = Metadata(name="g", namespace="ns", uid="".join(map("".join, told)))
                out.groups["ns/g"] = PodGroup(metadata=meta, status=PodGroupStatus(conditions=conditions))
                for kind, status in told:
                    fresh = [{"type": kind, "status": status, "reason": "N", "message": "m"}]
                    box.put([StatusUpdate("PodGroup", "ns/g", {"conditions": fresh})])
                    if not at_once:
                        await box.finish()
                await box.finish()
                written = api.sent("PATCH", GROUP_STATUS)[-1]["status"]["conditions"]
                kind, status = told[-1]
                assert len(true_ones(written)) <= 1, (old, told)
                assert (kind in true_ones(written)) is (status == "True")
                assert len(written) == len({c["type"] for c in written})
                if status == "True":
                    contrary = [c for c in written if c["type"] != kind]
                    assert all((c["status"], bool(c["reason"])) == ("False", True) for c in contrary)

    virtual_time.run(story())


def test_a_pod_that_is_bound_is_not_told_that_it_cannot_be(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            unfit = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
            box.put([StatusUpdate("Pod", "ns/p", {"conditions": [unfit]})])
            box.put([Bind("ns/p", "u", "n1")])
            await box.finish()
            assert api.sent("PATCH", POD) == []
            assert len(api.sent("POST", BINDING)) == 1

    virtual_time.run(story())


def test_a_nomination_is_written_when_it_changes(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            for node in ("n1", "n1", "n2"):
                box.put([Nominate("ns/p", "u", node)])
            await box.finish()
            found = [b["status"]["nominatedNodeName"] for b in api.sent("PATCH", f"{POD}/status")]
            assert found == ["n1", "n2"]

    virtual_time.run(story())


def test_statuses_give_way_to_binds_unless_somebody_waits_for_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            released = asyncio.Event()

            async def slowly(_: Any) -> tuple[int, dict[str, Any]]:
                await released.wait()
                return 201, {}

            binds = [Bind(f"ns/p{i}", f"u{i}", "n1", "ns/placed") for i in range(6)]
            for bind in binds:
                api.answers["POST", f"/api/v1/namespaces/{bind.pod.replace('/', '/pods/')}/binding"] = [slowly]
            placed = StatusUpdate("PodGroup", "ns/g", {"phase": "Running"})
            let_in = [StatusUpdate("PodGroup", f"ns/{name}", {"phase": "Inqueue"}) for name in ("placed", "next")]
            box.put([*binds, placed, *let_in])
            box.put(let_in[:1])
            await until(lambda: bool(api.sent("PATCH", "podgroups/next/status")))
            assert len(api.sent("PATCH")) == 1
            box.put([StatusUpdate("PodGroup", "ns/placed", {"phase": "Running"})])
            released.set()
            await box.finish()
            assert api.sent("PATCH", GROUP_STATUS) == [{"status": {"phase": "Running"}}]
            assert api.sent("PATCH", "podgroups/placed/status") == [{"status": {"phase": "Running"}}]
            assert len(api.sent("PATCH")) == 3

    virtual_time.run(story())


def test_statuses_do_not_give_way_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.kube.statuses.GIVES_WAY", 0.2)

    async def story() -> None:
        async with sending(tmp_path) as (api, box, _):
            busy = (429, {"message": "too many requests"})
            api.answers["POST", BINDING] = [busy]
            box.put([Bind("ns/p", "u", "n1")] * 6)
            box.put([StatusUpdate("PodGroup", "ns/g", {"phase": "Running"})])
            await until(lambda: bool(api.sent("PATCH", GROUP_STATUS)))

    virtual_time.run(story())


class Claims:
    """A binder that says that it bound everything."""

    name = "claims"

    def bind(self, intent: Bind) -> None:
        pass


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([bound_to("n1")], ""),
        ([bound_to(""), bound_to("n1")], ""),
        ([bound_to("")], "binder 'claims' says that it is bound, but the pod has no node"),
        ([bound_to("n2")], "binder 'claims' says that it is bound, but the pod is on n2"),
        ([bound_to("n1", uid="another")], "binder 'claims' says that it is bound, but the pod has no node"),
    ],
)
def test_what_a_binder_says_counts_when_the_pod_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pods: list[Any], why: str
) -> None:
    monkeypatch.setattr("pumice.kube.outbox.BOUND_WITHIN", (0.01, 0.01))

    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            out.binders["claims"] = Claims()
            api.answers["GET", POD] = list(pods)
            box.put([Bind("ns/p", "u", "n1", binder="claims")])
            await box.finish()
            assert [e.message for e in out.events if isinstance(e, BindFailed)] == ([why] if why else [])
            assert api.sent("POST") == []

    virtual_time.run(story())


def test_a_bind_that_is_withdrawn_while_it_waits_is_not_sent_and_fails_with_its_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            released = asyncio.Event()

            async def slowly(_: Any) -> tuple[int, dict[str, Any]]:
                await released.wait()
                return 201, {}

            for i in range(6):
                api.answers["POST", f"/api/v1/namespaces/ns/pods/p{i}/binding"] = [slowly]
            box.put([Bind(f"ns/p{i}", f"u{i}", "n1") for i in range(6)])
            await until(lambda: len(api.sent("POST")) == 4)
            box.withdraw({"u0": "too late", "u5": "its room is taken", "other": "unknown"})
            released.set()
            await box.finish()
            assert out.events == [BindFailed("ns/p5", "u5", "its room is taken", "n1")]
            assert len(api.sent("POST")) == 5
            assert (box._waiting, box._withdrawn) == (set(), {})

    virtual_time.run(story())


def test_an_eviction_that_is_withdrawn_does_not_stop_the_rest_of_its_plan(tmp_path: Path) -> None:
    async def story() -> None:
        async with sending(tmp_path) as (api, box, out):
            plan = [Evict(f"ns/{p}", f"u{p}", "n1", "preempt", beneficiary="ns/big") for p in "abc"]
            box.put(plan)
            box.withdraw({"ub": "in vain"})
            await box.finish()
            evicted = [p.split("/")[-2] for m, p, _, _ in api.requests if p.endswith("/eviction")]
            assert evicted == ["a", "c"]
            assert out.events == [EvictFailed("ns/b", "ub", "in vain", "n1", "ns/big", tried=False, freed=True)]
            assert (box._waiting, box._withdrawn) == (set(), {})

    virtual_time.run(story())


def test_a_namespace_with_many_events_leaves_room_for_those_of_others(tmp_path: Path) -> None:
    """A tenant with some thousand broken pods does not silence the others, nor make theirs be counted anew."""

    async def story() -> tuple[int, int, bool]:
        async with serving(tmp_path) as (_, client):
            notes = NoteWriter(ApiWriter(client, lambda: float("inf")), ManualClock(0), "pumice")
            first = Note("Pod", "quiet/p", "Warning", ReasonCode.EVICT, "said first")
            notes.put(first)
            for n in range(3 * WAITING):
                notes.put(Note("Pod", f"loud/p-{n}", "Warning", ReasonCode.EVICT, f"{n}"))
            for n in range(100):
                notes.put(Note("Pod", f"quiet/p-{n}", "Warning", ReasonCode.EVICT, f"{n}"))
            waiting = Counter(note.key.partition("/")[0] for note, _ in notes._queue._queue)  # type: ignore[attr-defined]
            return waiting["quiet"], waiting["loud"], first in notes._said

    quiet, loud, remembered = asyncio.run(story())
    assert (quiet, remembered) == (101, True)
    assert 0 < loud <= WAITING // SHARE


def test_what_is_written_on_an_object_names_nothing_of_other_namespaces(tmp_path: Path) -> None:
    """Whoever may read an object reads what is written on it, and need not know of other tenants."""

    async def story() -> str:
        async with sending(tmp_path) as (api, box, out):
            out.namespaces.extend(["ns", "other"])
            out.groups["ns/g"] = PodGroup(Metadata("g", "ns"))
            why = "would delay other/secret-1, which has a reservation; ns/own and 1/2 nodes, 4 nvidia.com/gpu"
            condition = {"type": "Unschedulable", "status": "True", "reason": "x", "message": why}
            box.put(
                [
                    Note(
                        "PodGroup", "ns/g", "Warning", ReasonCode.EVICTED_IN_TURN, f"evicted for other/secret-2: {why}"
                    ),
                    StatusUpdate("PodGroup", "ns/g", {"conditions": [condition]}),
                ]
            )
            await until(lambda: len(api.requests) >= 2)
            return repr(api.requests)

    said = asyncio.run(story())
    assert "secret" not in said
    assert said.count("(another namespace), which has a reservation; ns/own and 1/2 nodes, 4 nvidia.com/gpu") == 2
