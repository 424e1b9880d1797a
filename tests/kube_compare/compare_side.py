"""One scheduler's turn of a scenario: its namespace, its nodes, its objects, and where its pods went."""

from __future__ import annotations

import json
import re
import time
import zlib
from typing import Any

from kube_bed import Bed, Refusal, plural_of

KUBE = "default-scheduler"
_GROUP = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
_ROOM = {"cpu": "4", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
STABLE = 1.0
"""Seconds for which nothing changed: then a turn is over."""
LONGEST = 30.0


def container(cpu: str = "", name: str = "c", **more: Any) -> dict[str, Any]:
    """A container with a request of CPU."""
    resources = {"requests": {"cpu": cpu} if cpu else {}, **more.pop("resources", {})}
    return {"name": name, "image": "none", "resources": resources, **more}


class Side:
    """What one scheduler is given. Names of cluster objects end with its letter; answers are without it."""

    def __init__(self, bed: Bed, scheduler: str, scenario: str) -> None:
        self._bed, self._scheduler = bed, scheduler
        self.letter = "k" if scheduler == KUBE else "p"
        self.namespace = f"{scenario.replace('_', '-')[:50]}-{self.letter}"
        self._number = zlib.crc32(scenario.encode())
        self._made: list[str] = []
        self.create("Namespace", self.namespace, "v1")

    # -- making -----------------------------------------------------------------------------------------------------
    def full(self, name: str) -> str:
        """The name of a cluster object of this side."""
        return f"{name}-{self.letter}"

    def create(self, kind: str, name: str, version: str, *, space: bool = False, **body: Any) -> dict[str, Any]:
        """Create an object, in the namespace if *space*; ``metadata`` in the body is added to its metadata."""
        meta = {"name": name, **({"namespace": self.namespace} if space else {}), **body.pop("metadata", {})}
        made = self._bed.create({"apiVersion": version, "kind": kind, "metadata": meta, **body})
        prefix = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        where = f"/namespaces/{self.namespace}" if space else ""
        self._made.append(f"{prefix}{where}/{plural_of(kind)}/{name}")
        return made

    def node(self, name: str, cpu: str = "4", *, room: dict[str, str] | None = None, **more: Any) -> None:
        """A node that is ready; *labels* and the fields of its spec."""
        room = {**_ROOM, "cpu": cpu, **(room or {})}
        labels = {"kubernetes.io/hostname": self.full(name), **more.pop("labels", {})}
        ready = more.pop("ready", "True")
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": ready}]}
        self.create("Node", self.full(name), "v1", metadata={"labels": labels}, spec=more, status=status)

    def pod(self, name: str, cpu: str = "1", *, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """A pod, in a PodGroup of its own on our side."""
        if self._scheduler != KUBE:
            group = {"minMember": 1, "queue": "default"}
            self.create(_GROUP["kind"], name, _GROUP["apiVersion"], space=True, spec=group)
        spec = {"containers": [container(cpu)], "terminationGracePeriodSeconds": 0, **spec}
        meta = {"labels": labels or {}, "annotations": {"scheduling.k8s.io/group-name": name}}
        self.create("Pod", name, "v1", space=True, metadata=meta, spec={"schedulerName": self._scheduler, **spec})

    def placed(self, name: str, cpu: str = "1", **spec: Any) -> None:
        """A pod; waits until it has a node, or is told that there is none."""
        self.pod(name, cpu, **spec)
        self._wait(lambda: self._told(self._get(name)))

    def storage_class(self, name: str, mode: str = "WaitForFirstConsumer", **more: Any) -> str:
        """A storage class; returns its full name."""
        more = {"provisioner": "x.csi", "volumeBindingMode": mode, **more}
        self.create("StorageClass", self.full(name), "storage.k8s.io/v1", **more)
        return self.full(name)

    def claim(self, name: str, storage_class: str, *, mode: str = "ReadWriteOnce", **spec: Any) -> None:
        """A claim of a gigabyte."""
        spec |= {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": [mode]}
        self.create("PersistentVolumeClaim", name, "v1", space=True, spec={"storageClassName": storage_class, **spec})

    def volume(self, name: str, storage_class: str, node: str = "", claim: str = "", **spec: Any) -> None:
        """A volume of a gigabyte, reachable from one node, bound to a claim."""
        if node:
            term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self.full(node)]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
        if claim:
            spec["claimRef"] = {"name": claim, "namespace": self.namespace, "kind": "PersistentVolumeClaim"}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
        spec = {"hostPath": {"path": "/x"}, **spec} if "csi" not in spec else spec
        self.create("PersistentVolume", self.full(name), "v1", spec={"storageClassName": storage_class, **spec})

    def bind_claim(self, claim: str, volume: str) -> None:
        """Do what the volume controller does: the claim has the volume."""
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{claim}"
        self._bed.call("PATCH", path, {"spec": {"volumeName": self.full(volume)}}, patch="merge")
        note = {"pv.kubernetes.io/bind-completed": "yes"}
        self._bed.call("PATCH", path, {"metadata": {"annotations": note}}, patch="merge")
        self._bed.call("PATCH", f"{path}/status", {"status": {"phase": "Bound"}}, patch="merge")
        volume_path = f"/api/v1/persistentvolumes/{self.full(volume)}/status"
        self._bed.call("PATCH", volume_path, {"status": {"phase": "Bound"}}, patch="merge")

    def device_class(self, name: str = "gpu", **spec: Any) -> str:
        """A class of the devices of this side; returns its full name."""
        ours = {"cel": {"expression": f'device.driver == "{self.driver}"'}}
        self.create("DeviceClass", self.full(name), "resource.k8s.io/v1", spec={"selectors": [ours], **spec})
        return self.full(name)

    @property
    def driver(self) -> str:
        """The name of the driver of this side's devices."""
        return f"{self._number}-{self.letter}.example.com"

    def devices(self, node: str, *devices: dict[str, Any], **more: Any) -> None:
        """The devices of a node, or of what *more* names instead (``node=""``)."""
        pool = {"name": self.full(node or "shared"), "generation": 1, "resourceSliceCount": 1}
        where = {"nodeName": self.full(node)} if node else {}
        spec = {"driver": self.driver, "pool": pool, "devices": list(devices), **where, **more}
        self.create("ResourceSlice", self.full(node or "shared"), "resource.k8s.io/v1", spec=spec)

    def device_claim(self, name: str, *requests: dict[str, Any], **devices: Any) -> None:
        """A claim of devices."""
        spec = {"devices": {"requests": list(requests), **devices}}
        self.create("ResourceClaim", name, "resource.k8s.io/v1", space=True, spec=spec)

    def device_pod(self, name: str, *claims: str, **spec: Any) -> None:
        """A pod with claims of devices; waits for its node, or for the word that there is none."""
        used = container("1", resources={"claims": [{"name": claim} for claim in claims]})
        named = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        self.placed(name, containers=[used], resourceClaims=named, **spec)

    # -- changing ---------------------------------------------------------------------------------------------------
    def patch(self, name: str, body: dict[str, Any], sub: str = "", *, patch: str = "strategic-merge") -> None:
        """Change a pod, or its subresource."""
        path = f"{self._pods}/{name}{f'/{sub}' if sub else ''}"
        self._bed.call("PATCH", path, body, patch=patch)

    def run(self, name: str, cpu: str = "") -> None:
        """Let a pod run; *cpu* is what its kubelet gives it."""
        status: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        if cpu:
            given = {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
            about = {"name": "c", "image": "none", "imageID": "", "ready": True, "restartCount": 0, "started": True}
            status["containerStatuses"] = [{**about, "state": {"running": {}}, **given}]
        self.patch(name, {"status": status}, "status")

    def resize(self, name: str, cpu: str) -> None:
        """Ask for another amount of CPU for a running pod."""
        change = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        self.patch(name, {"spec": {"containers": [change]}}, "resize")

    def delete(self, name: str, grace: int = 0) -> None:
        """Delete a pod."""
        self._bed.call("DELETE", f"{self._pods}/{name}", {"gracePeriodSeconds": grace})

    # -- looking ----------------------------------------------------------------------------------------------------
    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._bed.call("GET", f"{self._pods}/{name}")
        return found

    @staticmethod
    def _told(pod: dict[str, Any]) -> bool:
        conditions = pod["status"].get("conditions", ())
        no = any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
        return bool(pod["spec"].get("nodeName")) or no

    def _wait(self, done: Any) -> None:
        end = time.monotonic() + LONGEST
        while not done() and time.monotonic() < end:
            time.sleep(0.1)

    def where(self) -> dict[str, str]:
        """Pod -> node; ``-`` for none."""
        items = self._bed.call("GET", self._pods)["items"]
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "-") for pod in items}
        return {name: node.removesuffix(f"-{self.letter}") for name, node in nodes.items()}

    def settled(self) -> dict[str, str]:
        """Where the pods are once each has a node or was told that there is none, and nothing changes any more."""
        self._wait(lambda: all(self._told(pod) for pod in self._bed.call("GET", self._pods)["items"]))
        last, since, end = self.where(), time.monotonic(), time.monotonic() + LONGEST
        while time.monotonic() - since < STABLE and time.monotonic() < end:
            time.sleep(0.2)
            now = self.where()
            if now != last:
                last, since = now, time.monotonic()
        return last

    def allocation(self, claim: str) -> dict[str, Any]:
        """The status of a claim of devices, without the letter, UIDs and times."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{claim}"
        return self._plain(self._bed.call("GET", path).get("status", {}))

    def extended(self, pod: str) -> dict[str, Any]:
        """What was written for the extended resources of a pod: the claim, and what the pod's status says of it."""
        told = self._get(pod)["status"]["extendedResourceClaimStatus"]
        path = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{told.pop('resourceClaimName')}"
        claim = self._bed.call("GET", path)
        meta = {part: claim["metadata"].get(part) for part in ("annotations", "finalizers", "ownerReferences")}
        return self._plain({"pod": told, "spec": claim["spec"], "status": claim["status"], **meta})

    def _plain(self, data: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(data, sort_keys=True)
        text = re.sub(rf"-{self.letter}\b", "", text)
        text = re.sub(r'"(uid|allocationTimestamp)": "[^"]*"', r'"\1": "-"', text)
        found: dict[str, Any] = json.loads(text)
        return found

    # -- the end ----------------------------------------------------------------------------------------------------
    def clean(self) -> None:
        """Remove everything that was made, newest first."""
        for path in reversed(self._made):
            for method, body in (("PATCH", {"metadata": {"finalizers": None}}), ("DELETE", {"gracePeriodSeconds": 0})):
                try:
                    self._bed.call(method, path, body, patch="merge")
                except Refusal as no:
                    # a claim with spaces in its parameters cannot be patched; its driver is that of one scenario
                    if no.code not in (404, 409, 422):
                        raise
