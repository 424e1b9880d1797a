"""Random stories of pods with volumes, device claims, vGPUs and shares of GPUs, whose binds come late or fail.

The cluster is kept as plain manifests, and what may not be is counted on them alone.
"""

from __future__ import annotations

import copy
import random
import uuid
from typing import Any

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model import api, keys
from pumice.model.events import BindFailed, Gone, Seen
from pumice.model.intents import Bind, DeviceChoice, Evict, VolumeChoice
from pumice.saved.files import dump, parse
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, redacted_and_tried, replay
from pumice.state.cluster import ClusterState
from pumice.state.devices import GROUP_LABEL
from pumice.state.invariants import violations

REGISTRY = default_registry()
Object = dict[str, Any]
CARD = 1000
_TIERS: list[Object] = [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [{"name": "predicates"}]}]
_VGPU = {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}
ACTIONS = ["enqueue, allocate, backfill", "allocate, preempt, backfill", "enqueue, allocate, backfill, preempt"]


class AttachedWorld:
    """A cluster of one dialect, drawn from a seed; `step` lets things happen and runs a cycle."""

    def __init__(self, seed: int, dialect: str) -> None:
        self.rng, self.kai = random.Random(seed), dialect == "kai"
        self.objects: dict[tuple[str, str], Object] = {}
        self.under_way: dict[str, Bind] = {}
        """Pod -> its bind, sent and not seen back."""
        conf: Object = {"dialect": "kai"}
        if not self.kai:
            tiers = copy.deepcopy(_TIERS)
            tiers[1]["plugins"] += [_VGPU, {"name": self.rng.choice(["nodeorder", "binpack", "proportion"])}]
            conf = {"actions": self.rng.choice(ACTIONS), "tiers": tiers}
        self.assembly = assemble(from_data(conf, catalogue_of(REGISTRY)).conf, REGISTRY)
        self.state, self.runtime = ClusterState(scheduler_names=["ours"]), Runtime()
        self.state.now = 1_700_000_000.0
        self.made = 0
        self._cluster()

    # -- the cluster ------------------------------------------------------------------------------------------------
    def put(self, kind: str, obj: Object) -> None:
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        if "creationTimestamp" not in meta:
            self.made += 1
            meta["creationTimestamp"] = f"2023-11-14T20:{self.made // 60 % 60:02d}:{self.made % 60:02d}Z"
        self.objects[kind, key] = obj
        self.state.apply(Seen(api.decode(kind, copy.deepcopy(obj))))

    def of(self, kind: str) -> list[Object]:
        return [obj for (k, _), obj in self.objects.items() if k == kind]

    def _cluster(self) -> None:
        rng = self.rng
        self.put("Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        for name, provisioner, mode in (
            ("wait", "csi.example.com", "WaitForFirstConsumer"),
            ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        ):
            self.put(
                "StorageClass", {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
            )
        selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "big"'}}
        self.put("DeviceClass", {"metadata": {"name": "any"}, "spec": {}})
        self.put("DeviceClass", {"metadata": {"name": "big"}, "spec": {"selectors": [selector]}})
        for n in range(rng.randint(2, 4)):
            self._node(n)
        for n in range(rng.randint(1, 4)):
            self._volume_claim(f"data-{n}")
        for n in range(rng.randint(1, 3)):
            request = {"name": "r", "exactly": {"deviceClassName": rng.choice(["any", "big"])}}
            self.put("ResourceClaim", _claim(f"shared-{n}", request))
        for _ in range(rng.randint(2, 4)):
            self._job()

    def _node(self, n: int) -> None:
        rng, name = self.rng, f"n{n}"
        offered = {"cpu": str(rng.randint(2, 6)), "memory": "64Gi", "pods": str(rng.choice([2, 4, 110]))}
        meta: Object = {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": f"z{n % 2}"}}
        if gpus := rng.choice([0, 1, 2]):
            offered["nvidia.com/gpu"] = str(gpus)
        if not self.kai and rng.random() < 0.6:
            cards = range(rng.randint(1, 2))
            listed = ":".join(f"GPU-{n}{c},4,{CARD},A,true,hami-core" for c in cards)
            meta["annotations"] = {keys.VGPU_REGISTER: listed}
            offered |= {"volcano.sh/vgpu-number": "8", "volcano.sh/vgpu-memory": "9000", "volcano.sh/vgpu-cores": "800"}
        self.put("Node", {"metadata": meta, "status": {"allocatable": offered, "capacity": offered}})
        if rng.random() < 0.5:
            drivers = [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": rng.randint(1, 2)}}]
            self.put("CSINode", {"metadata": {"name": name}, "spec": {"drivers": drivers}})
        if rng.random() < 0.6:
            term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
            spec = {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
                "storageClassName": "local",
                "local": {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            }
            meta = {"name": f"pv-{name}", "uid": f"pv-{name}"}
            self.put("PersistentVolume", {"metadata": meta, "spec": spec, "status": {"phase": "Available"}})
        if devices := rng.randint(0, 3):
            models = [rng.choice(["big", "small"]) for _ in range(devices)]
            listed_devices = [
                {"name": f"d{d}", "attributes": {"gpu.example.com/model": {"string": model}}}
                for d, model in enumerate(models)
            ]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            slices = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": listed_devices}
            self.put("ResourceSlice", {"metadata": {"name": f"slice-{name}"}, "spec": slices})

    def _volume_claim(self, name: str) -> None:
        mode = self.rng.choice(["ReadWriteOnce", "ReadWriteOncePod"])
        storage = {"requests": {"storage": "1Gi"}}
        spec = {
            "storageClassName": self.rng.choice(["wait", "local"]),
            "accessModes": [mode],
            "resources": storage,
        }
        meta = {"name": name, "namespace": "team", "uid": _uid(name)}
        self.put("PersistentVolumeClaim", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def _job(self) -> None:
        rng = self.rng
        self.made += 1
        name, pods = f"j{self.made}", rng.randint(1, 3)
        spec = {"minMember": rng.randint(1, pods), "queue": "default"}
        self.put(
            "PodGroup", {"metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": {"phase": "Pending"}}
        )
        wants = rng.choice(["volume", "claim", "own claim", "part", "gpu", "plain", "volume", "claim"])
        shared, volume = rng.choice(self.of("ResourceClaim")), rng.choice(self.of("PersistentVolumeClaim"))
        for n in range(pods):
            pod = f"{name}-{n}"
            notes = {keys.GROUP_ANNOTATION: name}
            asked = {"cpu": rng.choice(["500m", "1", "2"])}
            body: Object = {"schedulerName": "ours", "priority": rng.choice([0, 0, 5])}
            status: Object = {"phase": "Pending"}
            match wants:
                case "volume":
                    source = {"claimName": volume["metadata"]["name"]}
                    body["volumes"] = [{"name": "v", "persistentVolumeClaim": source}]
                case "claim":
                    body["resourceClaims"] = [{"name": "c", "resourceClaimName": shared["metadata"]["name"]}]
                case "own claim":
                    request = {"name": "r", "exactly": {"deviceClassName": rng.choice(["any", "big"])}}
                    made = _claim(f"{pod}-c", request)
                    made["metadata"]["ownerReferences"] = [
                        {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": _uid(pod), "controller": True}
                    ]
                    self.put("ResourceClaim", made)
                    body["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "t"}]
                    status["resourceClaimStatuses"] = [{"name": "c", "resourceClaimName": f"{pod}-c"}]
                case "part" if self.kai:
                    notes[keys.GPU_FRACTION] = rng.choice(["0.3", "0.5", "0.7"])
                case "part":
                    asked |= {
                        "volcano.sh/vgpu-number": "1",
                        "volcano.sh/vgpu-memory": rng.choice(["300", "500", "1000"]),
                    }
                case "gpu":
                    asked["nvidia.com/gpu"] = "1"
            limits = {k: v for k, v in asked.items() if k != "cpu"}
            body["containers"] = [{"name": "c", "resources": {"requests": asked, "limits": limits}}]
            meta = {"name": pod, "namespace": "team", "uid": _uid(pod), "annotations": notes}
            self.put("Pod", {"metadata": meta, "spec": body, "status": status})

    # -- what happens -----------------------------------------------------------------------------------------------
    def step(self, *, redacts: bool) -> None:
        """Things happen; a cycle runs, replays in the same way, and what it decided is sent."""
        for key in list(self.under_way):
            self._answered(key)
        roll = self.rng.random()
        running = [pod for pod in self.of("Pod") if pod["status"]["phase"] == "Running"]
        if running and roll < 0.5:
            pod = self.rng.choice(running)
            pod["status"]["phase"] = self.rng.choice(["Succeeded", "Failed"])
            self.put("Pod", pod)
            self._free(pod["metadata"]["uid"])
        elif roll < 0.7:
            self._job()
        elif running and roll < 0.8:
            self._gone(self.rng.choice(running))
        self.state.now += self.rng.choice([1, 5, 60])
        saved = record(self.state, self.assembly.conf, self.runtime)
        report = run_cycle(self.state, self.assembly, self.runtime)
        assert report.errors == []
        assert violations(self.state) == []
        decided = decisions_of(report.intents)
        assert replay(parse(dump(saved)), REGISTRY).decisions == decided, "its replay decides otherwise"
        saved.decisions = decided
        if redacts:
            assert redacted_and_tried(saved, REGISTRY)[1], "without names its replay decides otherwise"
        for intent in report.intents:
            if isinstance(intent, Bind):
                self.under_way[intent.pod] = intent
            elif isinstance(intent, Evict):
                self._gone(self.objects["Pod", intent.pod])
        self.nothing_is_given_twice()

    def _answered(self, key: str) -> None:
        """A bind is carried out, fails, or takes longer."""
        bind, roll = self.under_way[key], self.rng.random()
        if roll < 0.3:
            return
        del self.under_way[key]
        if roll < 0.45:
            self.state.apply(BindFailed(bind.pod, bind.uid, "no", bind.node, self.rng.random() < 0.5))
            return
        for choice in bind.prepare:
            self._carried_out(choice, bind)
        pod = self.objects["Pod", key]
        pod["spec"]["nodeName"], pod["status"]["phase"] = bind.node, "Running"
        pod["metadata"]["annotations"] |= bind.annotations
        self.put("Pod", pod)

    def _carried_out(self, choice: VolumeChoice | DeviceChoice, bind: Bind) -> None:
        if isinstance(choice, DeviceChoice):
            claim = self.objects["ResourceClaim", choice.claim]
            status = claim.setdefault("status", {})
            if choice.allocation is not None and not status.get("allocation"):
                status["allocation"] = copy.deepcopy(choice.allocation)
            me = {"resource": "pods", "name": bind.pod.partition("/")[2], "uid": bind.uid}
            status["reservedFor"] = [*(status.get("reservedFor") or ()), me]
            self.put("ResourceClaim", claim)
            return
        claim = self.objects["PersistentVolumeClaim", choice.claim]
        if claim["spec"].get("volumeName"):
            return
        node, uid = choice.node or bind.node, claim["metadata"]["uid"]
        name = choice.volume or f"made-for-{uid}"
        if not choice.volume:
            term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": "wait",
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            }
            self.put("PersistentVolume", {"metadata": {"name": name, "uid": name}, "spec": spec})
        volume = self.objects["PersistentVolume", name]
        reference = {
            "namespace": "team",
            "name": claim["metadata"]["name"],
            "uid": uid,
            "kind": "PersistentVolumeClaim",
        }
        taken = volume["spec"].get("claimRef")
        assert taken is None or taken["uid"] == uid, f"volume {name} is given twice"
        volume["spec"]["claimRef"], volume["status"] = reference, {"phase": "Bound"}
        self.put("PersistentVolume", volume)
        claim["spec"]["volumeName"], claim["status"] = name, {"phase": "Bound"}
        claim["metadata"]["annotations"] = {keys.BIND_COMPLETED: "yes"}
        self.put("PersistentVolumeClaim", claim)

    def _gone(self, pod: Object) -> None:
        meta = pod["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        del self.objects["Pod", key]
        self.under_way.pop(key, None)
        self.state.apply(Gone("Pod", key))
        self._free(meta["uid"])

    def _free(self, uid: str) -> None:
        """As the claim controller: a pod that is done uses its claims no more; devices without users are free."""
        for claim in self.of("ResourceClaim"):
            users = (claim.get("status") or {}).get("reservedFor") or []
            if any(user["uid"] == uid for user in users):
                left = [user for user in users if user["uid"] != uid]
                waits = any(
                    c.claim == f"team/{claim['metadata']['name']}" for b in self.under_way.values() for c in b.prepare
                )
                claim["status"]["reservedFor"] = left
                if not left and not waits:
                    claim["status"] = {}
                self.put("ResourceClaim", claim)

    # -- what may not be --------------------------------------------------------------------------------------------
    def placed(self) -> dict[str, str]:
        """Pod -> node, of pods that run or whose bind is under way."""
        there = {
            f"team/{pod['metadata']['name']}": pod["spec"]["nodeName"]
            for pod in self.of("Pod")
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running"
        }
        return {**there, **{key: bind.node for key, bind in self.under_way.items()}}

    def nothing_is_given_twice(self) -> None:
        placed = self.placed()
        self._nodes_hold_their_pods(placed)
        self._claims_are_where_their_pods_are(placed)
        self._devices_have_one_claim()
        self._gpus_are_not_over_full(placed)

    def _nodes_hold_their_pods(self, placed: dict[str, str]) -> None:
        for node in self.of("Node"):
            name, offered = node["metadata"]["name"], node["status"]["allocatable"]
            pods = [self.objects["Pod", key] for key, at in placed.items() if at == name]
            asked = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods]
            assert len(pods) <= int(offered["pods"]), f"{name}: {len(pods)} pods"
            assert sum(_milli(one["cpu"]) for one in asked) <= _milli(offered["cpu"]), f"{name}: cpu over-committed"

    def _claims_are_where_their_pods_are(self, placed: dict[str, str]) -> None:
        for claim in self.of("PersistentVolumeClaim"):
            name = claim["metadata"]["name"]
            users = {key: at for key, at in placed.items() if name in _volumes(self.objects["Pod", key])}
            if "ReadWriteOncePod" in claim["spec"]["accessModes"]:
                assert len(users) <= 1, f"{name} is for one pod, and used by {sorted(users)}"
            volume = self.objects.get(("PersistentVolume", claim["spec"].get("volumeName", "")))
            where = {_only_node(volume)} if volume is not None else set()
            assert len({*users.values(), *where}) <= 1, f"{name} is on {where}, its pods on {users}"
        for name, driver in ((c["metadata"]["name"], d) for c in self.of("CSINode") for d in c["spec"]["drivers"]):
            attached = {
                v
                for key, at in placed.items()
                if at == name
                for v in _volumes(self.objects["Pod", key])
                if self.objects["PersistentVolumeClaim", f"team/{v}"]["spec"]["storageClassName"] == "wait"
            }
            assert len(attached) <= driver["allocatable"]["count"], f"{name}: {sorted(attached)} are attached"

    def _devices_have_one_claim(self) -> None:
        holders: dict[tuple[str, str], str] = {}
        for key, allocation in self._allocations().items():
            for result in allocation["devices"]["results"]:
                device = (result["pool"], result["device"])
                assert holders.setdefault(device, key) == key, f"{device} has two claims: {key} and {holders[device]}"

    def _allocations(self) -> dict[str, Object]:
        """Claim -> what it has, or was promised by a bind that is under way."""
        found = {
            f"team/{claim['metadata']['name']}": claim["status"]["allocation"]
            for claim in self.of("ResourceClaim")
            if (claim.get("status") or {}).get("allocation")
        }
        for bind in self.under_way.values():
            for choice in bind.prepare:
                if isinstance(choice, DeviceChoice) and choice.allocation is not None:
                    known = found.setdefault(choice.claim, choice.allocation)
                    assert known["devices"]["results"] == choice.allocation["devices"]["results"], choice.claim
        return found

    def _gpus_are_not_over_full(self, placed: dict[str, str]) -> None:
        cards: dict[str, int] = {}
        shares: dict[tuple[str, str], int] = {}
        whole: dict[str, int] = {}
        for key, at in placed.items():
            pod, bind = self.objects["Pod", key], self.under_way.get(key)
            notes = {**pod["metadata"]["annotations"], **(bind.annotations if bind is not None else {})}
            asked = pod["spec"]["containers"][0]["resources"]["requests"]
            if keys.GPU_FRACTION in notes:
                group = (at, notes[GROUP_LABEL])
                shares[group] = shares.get(group, 0) + round(1000 * float(notes[keys.GPU_FRACTION]))
            whole[at] = whole.get(at, 0) + int(asked.get("nvidia.com/gpu", 0))
            if "volcano.sh/vgpu-memory" in asked:
                card, _, memory, _ = notes[keys.VGPU_IDS].rstrip(":;").split(",")
                assert int(memory) == int(asked["volcano.sh/vgpu-memory"])
                cards[card] = cards.get(card, 0) + int(memory)
        assert all(memory <= CARD for memory in cards.values()), cards
        assert all(share <= 1000 for share in shares.values()), shares
        for node in self.of("Node"):
            name = node["metadata"]["name"]
            taken = whole.get(name, 0) + sum(at == name for at, _ in shares)
            assert taken <= int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)), f"{name}: {taken} GPUs taken"


def _claim(name: str, request: Object) -> Object:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": _uid(name)},
        "spec": {"devices": {"requests": [request]}},
    }


def _uid(name: str) -> str:
    """A UID in which no name stands."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def _volumes(pod: Object) -> list[str]:
    return [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"].get("volumes") or ()]


def _only_node(volume: Object) -> str:
    term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    return str(term["values"][0])


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
