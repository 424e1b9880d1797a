"""Cases made of others by small changes, and what the model says of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from volcano_actions import decide

Case = dict[str, Any]
NOW = "2024-01-01T02:00:00Z"
RUNS = 12
"""What the model decides in all of so many runs is what a case states."""
_FLAGS = ("enablePreemptable", "enableReclaimable", "enableJobOrder", "enabledOverused", "enabledAllocatable")
_SCALES = {"250m": "1", "500m": "1500m", "1": "2", "2": "500m", "3": "1", "4": "3", "8": "6"}


def mutated(case: Mapping[str, Any], random: Random) -> Case:
    """The case with one to four changes."""
    out: Case = copy.deepcopy(dict(case))
    out["expect"] = {}
    for _ in range(random.randint(1, 4)):
        random.choice(CHANGES)(out, random)
    return out


def stated(case: Mapping[str, Any], seeds: int = RUNS) -> dict[str, Any]:
    """What never varies of what the model decides, as a case's ``expect`` says it."""
    runs = [decide(case, seed) for seed in range(seeds)]
    first, out = runs[0], dict[str, Any]()
    if all(run["binds"] == first["binds"] for run in runs):
        out["binds"] = first["binds"]
    elif all(run["binds"].keys() == first["binds"].keys() for run in runs):
        out["boundPods"] = sorted(first["binds"])
    if all(run["evictions"] == first["evictions"] for run in runs):
        out["evictions"] = first["evictions"]
    out["pipelined"] = {
        job: sorted({node for run in runs for node in run["pipelined"][job]})
        for job in first["pipelined"]
        if all(job in run["pipelined"] for run in runs)
    }
    out["podGroupPhases"] = {
        job: phase
        for job, phase in first["podGroupPhases"].items()
        if all(run["podGroupPhases"][job] == phase for run in runs)
    }
    out["taskStatusCounts"] = {
        job: {s: n for s, n in counts.items() if all(run["taskStatusCounts"][job][s] == n for run in runs)}
        for job, counts in first["taskStatusCounts"].items()
    }
    return out


# -- changes ----------------------------------------------------------------------------------------------------------
def _one(case: Case, kind: str, random: Random) -> Case | None:
    things = case["objects"].get(kind)
    return random.choice(things) if things else None


def _scale(listed: Case | None, random: Random) -> None:
    if listed:
        name = random.choice(sorted(listed))
        listed[name] = _SCALES.get(str(listed[name]), listed[name])


def request(case: Case, random: Random) -> None:
    pod = _one(case, "pods", random)
    if pod is not None:
        _scale((pod["spec"]["containers"][0].get("resources") or {}).get("requests"), random)


def requests(case: Case, random: Random) -> None:
    """All pods of a job ask for something else."""
    pod = _one(case, "pods", random)
    group = (pod["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name") if pod else None
    more = random.choice(["250m", "500m", "1", "2", "3"])
    for other in case["objects"].get("pods") or ():
        if group and (other["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name") == group:
            listed = (other["spec"]["containers"][0].get("resources") or {}).get("requests")
            if listed and "cpu" in listed:
                listed["cpu"] = more


def room(case: Case, random: Random) -> None:
    node = _one(case, "nodes", random)
    if node is not None:
        node["status"]["allocatable"]["cpu"] = random.choice(["2", "3", "4", "6", "8", "16"])


def slots(case: Case, random: Random) -> None:
    node = _one(case, "nodes", random)
    if node is not None:
        node["status"]["allocatable"]["pods"] = random.choice(["2", "4", "110"])


def gang(case: Case, random: Random) -> None:
    group = _one(case, "podGroups", random)
    if group is not None:
        group["spec"]["minMember"] = max(0, (group["spec"].get("minMember") or 0) + random.choice([-2, -1, 1, 2]))


def role(case: Case, random: Random) -> None:
    pod, group = _one(case, "pods", random), _one(case, "podGroups", random)
    if pod is not None and group is not None:
        name = random.choice(["main", "a", "b"])
        pod["metadata"].setdefault("annotations", {})["volcano.sh/task-spec"] = name
        if random.random() < 0.4:
            group["spec"]["minTaskMember"] = {name: random.randint(1, 2)}


def phase(case: Case, random: Random) -> None:
    group = _one(case, "podGroups", random)
    if group is not None:
        group["status"]["phase"] = random.choice(["Pending", "Inqueue", "Running"])


def minimum(case: Case, random: Random) -> None:
    group = _one(case, "podGroups", random)
    if group is not None:
        group["spec"]["minResources"] = {"cpu": random.choice(["500m", "1", "3", "6"]), "memory": "1Gi"}


def priority(case: Case, random: Random) -> None:
    group, named = _one(case, "podGroups", random), _one(case, "priorityClasses", random)
    if group is not None and named is not None:
        group["spec"]["priorityClassName"] = named["metadata"]["name"]


def task_priority(case: Case, random: Random) -> None:
    pod = _one(case, "pods", random)
    if pod is not None:
        pod["metadata"].setdefault("annotations", {})["volcano.sh/task-priority"] = str(random.randint(0, 3))


def preemptable(case: Case, random: Random) -> None:
    pod = _one(case, "pods", random)
    if pod is not None:
        pod["metadata"].setdefault("annotations", {})["volcano.sh/preemptable"] = random.choice(["true", "false"])


def runs(case: Case, random: Random) -> None:
    pod, node = _one(case, "pods", random), _one(case, "nodes", random)
    if pod is not None and node is not None:
        if pod["spec"].get("nodeName"):
            del pod["spec"]["nodeName"]
            pod["status"] = {"phase": "Pending"}
        else:
            pod["spec"]["nodeName"] = node["metadata"]["name"]
            pod["status"] = {"phase": random.choice(["Running", "Running", "Pending", "Failed", "Succeeded"])}


def leaves(case: Case, random: Random) -> None:
    pod = _one(case, "pods", random)
    if pod is not None and pod["spec"].get("nodeName"):
        pod["metadata"]["deletionTimestamp"] = pod["metadata"].get("creationTimestamp") or "2024-01-01T00:00:00Z"


def cooling(case: Case, random: Random) -> None:
    """A pod was scheduled half an hour ago, and is to be left alone for a shorter or a longer time."""
    pod = _one(case, "pods", random)
    if pod is not None and pod["spec"].get("nodeName"):
        since = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW.replace("02:00", "01:30")}
        pod["status"]["conditions"] = [since]
        where = pod["metadata"].setdefault(random.choice(["labels", "annotations"]), {})
        where["volcano.sh/cooldown-time"] = random.choice(["10m", "29m", "31m", "2h"])


def nothing(case: Case, random: Random) -> None:
    """A pod asks for nothing."""
    pod = _one(case, "pods", random)
    if pod is not None and not pod["spec"].get("nodeName"):
        pod["spec"]["containers"][0].pop("resources", None)


def gated(case: Case, random: Random) -> None:
    pod = _one(case, "pods", random)
    if pod is not None and not pod["spec"].get("nodeName"):
        gate = random.choice(["example.com/hold", "scheduling.volcano.sh/queue-allocation-gate"])
        pod["spec"]["schedulingGates"] = [{"name": gate}]


def queue_amount(case: Case, random: Random) -> None:
    queue = _one(case, "queues", random)
    if queue is not None:
        amount = {"cpu": random.choice(["0", "1", "2", "4", "8"])}
        if random.random() < 0.5:
            amount["memory"] = random.choice(["1Gi", "4Gi", "16Gi"])
        which = random.choice(["capability", "deserved", "guarantee"])
        queue["spec"][which] = {"resource": amount} if which == "guarantee" else amount


def queue_field(case: Case, random: Random) -> None:
    queue = _one(case, "queues", random)
    if queue is not None:
        name, values = random.choice([("weight", (1, 2, 5)), ("reclaimable", (True, False)), ("priority", (0, 1, 10))])
        queue["spec"][name] = random.choice(values)


def queue_state(case: Case, random: Random) -> None:
    queue = _one(case, "queues", random)
    if queue is not None:
        queue.setdefault("status", {})["state"] = random.choice(["Open", "Closed", "Closing"])


def other_queue(case: Case, random: Random) -> None:
    group, queue = _one(case, "podGroups", random), _one(case, "queues", random)
    if group is not None and queue is not None:
        group["spec"]["queue"] = queue["metadata"]["name"]


def flag(case: Case, random: Random) -> None:
    random.choice(random.choice(case["conf"]["tiers"])["plugins"])[random.choice(_FLAGS)] = random.random() < 0.3


def tier(case: Case, random: Random) -> None:
    """A plugin moves to another tier."""
    tiers = case["conf"]["tiers"]
    mine = random.choice(tiers)["plugins"]
    if len(mine) > 1:
        random.choice(tiers)["plugins"].append(mine.pop(random.randrange(len(mine))))


def actions(case: Case, random: Random) -> None:
    chains = ("enqueue, allocate, preempt, reclaim, backfill", "allocate, preempt", "enqueue, reclaim, allocate")
    case["conf"]["actions"] = random.choice(
        (*chains, "preempt", "reclaim", "enqueue, allocate, backfill", "allocate, reclaim, preempt")
    )


def gone(case: Case, random: Random) -> None:
    pods = case["objects"].get("pods")
    if pods and len(pods) > 1:
        pods.pop(random.randrange(len(pods)))


CHANGES: tuple[Callable[[Case, Random], None], ...] = (
    *(request, requests, room, slots, gang, role, phase, minimum, priority, task_priority, preemptable, runs, leaves),
    *(
        cooling,
        cooling,
        nothing,
        gated,
        queue_amount,
        queue_amount,
        queue_field,
        queue_state,
        other_queue,
        flag,
        tier,
        actions,
        gone,
    ),
)
