"""The job controller's talk with the server, on good days and on bad ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import controller_objects as some
import msgspec
import pytest
from msgspec.structs import force_setattr
from scripted_api import ScriptedApi, serving

from pumice.clock import ManualClock
from pumice.kube.controllers.jobs import JobReconciler
from pumice.kube.controllers.store import Store, VcJob
from pumice.kube.errors import ApiRefused, NotSent
from pumice.kube.writer import ApiWriter
from pumice.model.api import AnyObject, Condition
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note

JOB = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/j"
PODS = "/api/v1/namespaces/ns/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
RUNNING = {
    "state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    "minAvailable": 2,
    "running": 2,
    "taskStatusCount": {"w": {"phase": {"Running": 2}}},
    "conditions": [{"status": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}
RESTART = [{"event": "PodFailed", "action": "RestartJob"}]


class Bench:
    """A controller over a scripted server, and what it said."""

    def __init__(self, api: ScriptedApi, client: Any, left: float = 100.0) -> None:
        self.api, self.left = api, left
        self.store = Store()
        self.notes: list[Note] = []
        self.clock = ManualClock(1_700_000_000.0)
        hand = ApiWriter(client, lambda: self.left, patient=False)
        self.jobs = JobReconciler(
            self.store, hand, lambda note, _: self.notes.append(note), self.clock, scheduler="pumice"
        )
        api.answers["PUT", f"{JOB}/status"] = [self.put]
        api.answers["POST", PODS] = [self.post]

    async def put(self, body: Any) -> tuple[int, Any]:
        job = self.store.job("ns/j")
        assert job is not None
        data = msgspec.to_builtins(job)
        meta = {**data["metadata"], "resourceVersion": str(int(job.metadata.resource_version) + 1_000_000)}
        return 200, {**data, "metadata": meta, "status": body["status"]}

    async def post(self, body: Any) -> tuple[int, Any]:
        meta = {**body["metadata"], "uid": f"new-{body['metadata']['name']}", "resourceVersion": "5000000"}
        return 201, {**body, "metadata": meta, "status": {"phase": "Pending"}}

    def sees(self, *objects: AnyObject) -> None:
        for obj in objects:
            self.store.take(obj)

    async def look(self) -> None:
        await self.jobs.look("ns/j")

    def wrote(self) -> list[str]:
        """Methods and last parts of paths, in order, without reads."""
        return [f"{m} {p.rsplit('/', 2)[-2]}/{p.rsplit('/', 1)[-1]}" for m, p, _, _ in self.api.requests if m != "GET"]


def bench(tmp_path: Path, body: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (api, client):
            await body(Bench(api, client))

    asyncio.run(run())


def test_a_new_job_gets_its_group_and_a_status_and_pods_only_once_it_is_admitted(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.sees(some.job())
        await b.look()
        assert b.wrote() == ["POST ns/podgroups", "PUT j/status"]
        made = b.api.sent("POST", "podgroups")[0]
        assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-j"
        assert made["spec"] == {
            "minMember": 2,
            "minTaskMember": {"w": 2},
            "minResources": {"cpu": "2"},
            "queue": "default",
        }
        b.sees(some.group(phase="Pending"))
        await b.look()
        assert len(b.wrote()) == 2
        b.sees(some.group(phase="Inqueue"))
        await b.look()
        assert b.wrote()[2:] == ["POST ns/pods", "POST ns/pods"]
        await b.look()
        assert b.wrote()[4:] == ["PUT j/status"]
        assert b.api.sent("PUT")[-1]["status"]["pending"] == 2
        await b.look()
        assert len(b.wrote()) == 5, "nothing is written that is no news"

    bench(tmp_path, body)


def test_a_restart_writes_the_status_first_and_then_removes_exactly_the_old_pods(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.sees(some.job(policies=RESTART, status=RUNNING), some.group(), some.pod("j-w-0"), some.pod("j-w-1", "Failed"))
        await b.look()
        assert b.wrote() == ["PUT j/status"]
        status = b.api.sent("PUT")[0]["status"]
        assert (status["state"]["phase"], status["version"], status["retryCount"]) == ("Restarting", 1, 1)
        assert status["state"]["message"] == "PodFailed: RestartJob"
        await b.look()
        assert sorted(b.wrote()[1:]) == ["DELETE pods/j-w-0", "DELETE pods/j-w-1", "PUT j/status"]
        assert [d["preconditions"]["uid"] for d in b.api.sent("DELETE")] == ["uid-j-w-0", "uid-j-w-1"]
        await b.look()
        assert len(b.wrote()) == 4, "pods that we deleted are not deleted again while the watch is late"

    bench(tmp_path, body)


def test_nothing_is_touched_if_the_job_changed_since_it_was_looked_at(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.api.answers["PUT", f"{JOB}/status"] = [(409, {"reason": "Conflict"})]
        policies = [{"event": "PodFailed", "action": "RestartTask"}]
        b.sees(
            some.job(policies=policies, status=RUNNING), some.group(), some.pod("j-w-0"), some.pod("j-w-1", "Failed")
        )
        await b.look()
        assert b.wrote() == ["PUT j/status"]
        assert b.api.sent("PUT")[0]["metadata"]["resourceVersion"] == b.store.job("ns/j").metadata.resource_version  # type: ignore[union-attr]

    bench(tmp_path, body)


def test_a_controller_that_does_not_lead_any_more_writes_nothing(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.left = 0.0
        b.sees(some.job())
        with pytest.raises(NotSent):
            await b.look()
        assert b.wrote() == []

    bench(tmp_path, body)


def test_a_group_that_is_not_the_jobs_is_left_alone(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        done = {**RUNNING, "state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}}
        b.sees(some.job(status=done), some.group(owned=False))
        await b.look()
        assert not [w for w in b.wrote() if "podgroups" in w]
        assert [n.reason for n in b.notes] == ["PodGroupError"]

    bench(tmp_path, body)


def test_the_group_of_a_job_that_is_over_goes_and_its_ended_pods_stay(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        done = {**RUNNING, "state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}}
        b.sees(some.job(status=done), some.group(), some.pod("j-w-0", "Succeeded"), some.pod("j-w-1"))
        await b.look()
        assert sorted(b.wrote()) == ["DELETE podgroups/j-uid-j", "DELETE pods/j-w-1", "PUT j/status"]

    bench(tmp_path, body)


def test_a_group_follows_its_job_and_keeps_what_others_wrote(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        job = some.job(replicas=3, status=RUNNING, queue="other")
        force_setattr(job.metadata, "labels", {"team": "red"})
        b.sees(job, some.group(), *(some.pod(f"j-w-{n}") for n in range(3)))
        await b.look()
        assert b.api.sent("PATCH") == [
            {
                "spec": {"minMember": 3, "minTaskMember": {"w": 3}, "minResources": {"cpu": "3"}, "queue": "other"},
                "metadata": {"labels": {"team": "red"}, "uid": "uid-j-uid-j"},
            }
        ]

    bench(tmp_path, body)


def test_a_pod_that_the_server_refuses_is_told_and_tried_again(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.api.answers["POST", PODS] = [(403, {"message": "exceeded quota"})]
        b.sees(some.job(status={**RUNNING, "taskStatusCount": {}}), some.group())
        with pytest.raises(ApiRefused, match="exceeded quota"):
            await b.look()
        assert b.notes[-1].reason == "FailedCreate"
        assert "exceeded quota" in b.notes[-1].message

    bench(tmp_path, body)


def test_a_finished_job_is_deleted_when_its_time_is_over_and_not_before(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        done: dict[str, Any] = {
            "state": {"phase": "Failed", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            "minAvailable": 2,
        }
        job = some.job(status={**done, "conditions": []}, ttlSecondsAfterFinished=100)
        b.clock.move_to(1767225600.0 + 99)
        b.sees(job)
        await b.look()
        assert b.wrote() == []
        b.clock.move_to(1767225600.0 + 100)
        await b.look()
        assert b.wrote() == ["DELETE jobs/j"]
        assert b.api.sent("DELETE")[0]["preconditions"] == {"uid": "uid-j"}

    bench(tmp_path, body)


def test_a_command_is_obeyed_once_and_removed(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.sees(some.job(status=RUNNING), some.group(), some.command("c1", "AbortJob", "Job", "j"))
        await b.look()
        assert b.wrote() == ["PUT j/status", "DELETE commands/c1"]
        assert b.api.sent("PUT")[0]["status"]["state"]["phase"] == "Aborting"
        await b.look()
        assert b.wrote().count("DELETE commands/c1") == 1

    bench(tmp_path, body)


def test_a_command_about_a_job_that_does_not_exist_is_removed(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.sees(some.command("c1", "AbortJob", "Job", "j"))
        await b.look()
        assert b.wrote() == ["DELETE commands/c1"]

    bench(tmp_path, body)


def test_a_job_that_breaks_a_rule_is_told_once_and_keeps_what_it_has(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.sees(some.job(minAvailable=9, status=RUNNING), some.group(), some.pod("j-w-0"))
        await b.look()
        await b.look()
        assert b.wrote() == ["PUT j/status"]
        status = b.api.sent("PUT")[0]["status"]
        assert status["state"]["phase"] == "Running"
        assert status["state"]["reason"] == "InvalidSpec"
        assert status["running"] == 2

    bench(tmp_path, body)


def test_a_job_that_is_being_deleted_is_left_alone(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        job = some.job()
        data = msgspec.to_builtins(job)
        data["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        b.sees(msgspec.convert(data, VcJob))
        await b.look()
        assert b.wrote() == []

    bench(tmp_path, body)


def test_a_job_with_names_gets_what_it_needs_once_and_nothing_of_others_is_touched(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.api.answers["POST", "/api/v1/namespaces/ns/services"] = [(409, {"reason": "AlreadyExists"})]
        b.api.answers["GET", "/api/v1/namespaces/ns/services/j"] = [(200, {"metadata": {"uid": "x"}})]
        b.sees(some.job(plugins={"svc": ["--disable-network-policy"]}))
        await b.look()
        await b.look()
        assert sorted(w for w in b.wrote() if "podgroups" not in w and "status" not in w) == [
            "POST ns/configmaps",
            "POST ns/services",
        ]
        assert [(n.reason, n.message) for n in b.notes] == [
            ("PluginError", "Service ns/j exists and is not of this job")
        ]

    bench(tmp_path, body)


def test_a_pod_that_goes_while_another_comes_was_evicted_all_the_same(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        policies = [{"event": "PodEvicted", "action": "AbortJob"}]
        b.store.synced.set()
        b.sees(some.job(replicas=3, minAvailable=2, policies=policies, status=RUNNING), some.group())
        b.sees(some.pod("j-w-0"), some.pod("j-w-1"))
        b.store.drop("OwnedPod", "ns/j-w-1")
        b.sees(some.pod("j-w-2", "Pending"))
        await b.look()
        assert b.api.sent("PUT")[0]["status"]["state"]["phase"] == "Aborting"

    bench(tmp_path, body)


def test_a_pod_that_we_sent_away_ourselves_was_not_evicted(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        policies = [{"event": "PodEvicted", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartPod"}]
        b.store.synced.set()
        b.sees(
            some.job(policies=policies, status=RUNNING), some.group(), some.pod("j-w-0"), some.pod("j-w-1", "Failed")
        )
        await b.look()
        assert b.wrote()[-1] == "DELETE pods/j-w-1"
        b.store.drop("OwnedPod", "ns/j-w-1")
        for _ in range(4):
            await b.look()
        phases = [body["status"]["state"]["phase"] for body in b.api.sent("PUT")]
        assert "Aborting" not in phases
        assert phases[:2] == ["Restarting", "Pending"]

    bench(tmp_path, body)


def test_an_eviction_is_answered_once_though_it_is_seen_twice(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        policies = [{"event": "PodEvicted", "action": "RestartTask"}]
        b.store.synced.set()
        b.sees(some.job(policies=policies, status=RUNNING), some.group(), some.pod("j-w-0"), some.pod("j-w-1"))
        b.sees(some.pod("j-w-1", deletionTimestamp="2026-01-01T00:00:00Z"))
        await b.look()
        b.store.drop("OwnedPod", "ns/j-w-0")
        await b.look()
        b.store.drop("OwnedPod", "ns/j-w-1")
        for _ in range(4):
            await b.look()
        assert b.store.job("ns/j").status["retryCount"] == 1  # type: ignore[union-attr]

    bench(tmp_path, body)


def test_a_job_whose_group_is_not_let_in_says_why(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        group = some.group(phase="Pending")
        why = "not let into queue default (capacity): no quota"
        force_setattr(group.status, "conditions", [Condition(type="Admitted", status="False", message=why)])
        b.store.take(some.job())
        b.store.take(group)
        await b.jobs.look("ns/j")
        assert Note("Job", "ns/j", "Warning", ReasonCode.UNSCHEDULABLE, why) in b.notes
        b.notes.clear()
        let_in = some.group(phase="Inqueue")
        force_setattr(
            let_in.status, "conditions", [Condition(type="Admitted", status="True", message="let into its queue")]
        )
        b.store.take(let_in)
        await b.jobs.look("ns/j")
        assert [n for n in b.notes if n.reason == "Unschedulable"] == []

    bench(tmp_path, body)


def remembered(thing: object, seen: set[int] | None = None) -> dict[str, int]:
    """Every collection that a controller and its parts hold, with its size; not what is due to be looked at."""
    seen = seen if seen is not None else set()
    found: dict[str, int] = {}
    for name, value in vars(thing).items():
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (dict, set, list)):
            if name not in ("_due", "_heap", "_listeners", "_objects", "_unlisted"):
                found[f"{type(thing).__name__}.{name}"] = len(value)
        elif type(value).__module__.startswith("pumice.kube.controllers"):
            found |= remembered(value, seen)
    return found


LEAVE = {
    "its pods first": ["Pod ns/j-w-0", "Pod ns/j-w-1", "PodGroup ns/j-uid-j", "Command ns/c1", "Job ns/j"],
    "the job first, as where a garbage collector runs": [
        "Job ns/j",
        "PodGroup ns/j-uid-j",
        "Command ns/c1",
        "Pod ns/j-w-0",
        "Pod ns/j-w-1",
    ],
}


@pytest.mark.parametrize("order", LEAVE.values(), ids=LEAVE)
@pytest.mark.parametrize("action", ["AbortJob", "RestartJob", "no such action"])
def test_a_job_that_came_and_went_leaves_nothing(tmp_path: Path, action: str, order: list[str]) -> None:
    async def body(b: Bench) -> None:
        before = remembered(b.jobs)
        assert len(before) > 8
        assert not any(before.values())
        b.store.synced.set()
        kinds = {"Pod": some.pod("j-w-0").kind_name}
        b.sees(some.job(status=RUNNING, plugins={"svc": []}, schedulerName="pumice"), some.group())
        b.sees(some.pod("j-w-0"), some.pod("j-w-1"), some.command("c1", action, "Job", "j"))
        await b.look()
        await b.look()
        b.sees(some.pod("j-w-0", deletionTimestamp="2026-01-01T00:00:00Z"))
        assert any(remembered(b.jobs).values())
        for line in order:
            kind, _, key = line.partition(" ")
            b.store.drop(kinds.get(kind, kind), key)
        await b.look()
        assert remembered(b.jobs) == before

    bench(tmp_path, body)
