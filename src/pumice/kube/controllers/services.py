"""Names for the pods of jobs that ask for them: a Service, a ConfigMap of hosts, a NetworkPolicy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pumice.kube.controllers.hand import Hand
from pumice.kube.controllers.objects import VcJob, owner_of
from pumice.kube.kinds import Resource
from pumice.workloads.vcjob import Role, map_name, service_bodies, wants_service

_RESOURCES = {
    "ConfigMap": Resource("ConfigMap", "/api/v1", "configmaps"),
    "Service": Resource("Service", "/api/v1", "services"),
    "NetworkPolicy": Resource("NetworkPolicy", "/apis/networking.k8s.io/v1", "networkpolicies"),
}


class JobServices:
    """Sees that what the job plugin ``svc`` promises is there. It goes with the job."""

    def __init__(self, hand: Hand, complain: Callable[[VcJob, str], None]) -> None:
        self._hand, self._complain = hand, complain
        self._seen: dict[str, int] = {}
        """Job's uid -> the generation of its spec for which everything is there."""

    async def ensure(self, job: VcJob, roles: Sequence[Role]) -> None:
        """Make what is missing; a job that changed gets a new list of hosts."""
        meta = job.metadata
        if not wants_service(job.spec) or self._seen.get(meta.uid) == meta.generation:
            return
        hosts = map_name(meta.name, meta.uid, meta.generation)
        for kind, body in service_bodies(meta.name, meta.namespace, job.spec, roles, hosts).items():
            body["metadata"] |= {"namespace": meta.namespace, "ownerReferences": [owner_of(job)]}
            made = await self._hand.create(_RESOURCES[kind], meta.namespace, body)
            if made is not None or kind == "ConfigMap":  # nobody else has a map of that name
                continue
            key = f"{meta.namespace}/{body['metadata']['name']}"
            there = (await self._hand.read(_RESOURCES[kind], key) or {}).get("metadata") or {}
            if all(owner.get("uid") != meta.uid for owner in there.get("ownerReferences") or ()):
                self._complain(job, f"{kind} {key} exists and is not of this job")
        self._seen[meta.uid] = meta.generation

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._seen.pop(uid, None)
