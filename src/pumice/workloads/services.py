"""What the job plugin ``svc`` does: the pods of a job find each other by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pumice.model import keys
from pumice.workloads.vcjob import Role, VcJobSpec, pod_name

FOLDER = "/etc/volcano"
"""Where containers find a file of host names for each task."""
NAME = "svc"


def wants_service(spec: VcJobSpec) -> bool:
    """Whether a job uses the plugin."""
    return NAME in (spec.plugins or {})


def hosts_of(job: str, role: Role) -> list[str]:
    """The names by which the pods of a task are found."""
    spec = role.task.template.get("spec") or {}
    below = spec.get("subdomain") or job
    if spec.get("hostname"):
        return [f"{spec['hostname']}.{below}"]
    return [f"{pod_name(job, role.name, n)}.{below}" for n in range(role.replicas)]


def host_variables(job: str, roles: Sequence[Role]) -> dict[str, str]:
    """Environment variables with the hosts of each task, and how many there are."""
    found: dict[str, str] = {}
    for role in roles:
        hosts = hosts_of(job, role)
        found.update(zip(_variables(role), (",".join(hosts), str(len(hosts))), strict=True))
    return found


def _variables(role: Role) -> tuple[str, str]:
    word = role.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"


def host_files(job: str, roles: Sequence[Role]) -> dict[str, str]:
    """The files in `FOLDER`, by name."""
    return {f"{role.name.replace('-', '_')}.host": "\n".join(hosts_of(job, role)) for role in roles}


def map_name(job: str, uid: str, generation: int) -> str:
    """The ConfigMap that holds the files: a new one for each change of the job, so that it never has to be read."""
    return f"{job}-{NAME}-{uid[:8]}-{generation}"


def address(made: dict[str, Any], job: str, pod: str, roles: Sequence[Role], hosts: str) -> None:
    """Give a pod's spec its name in the job's domain, the names of the others, and the files of the map *hosts*."""
    made["hostname"] = made.get("hostname") or pod
    made["subdomain"] = made.get("subdomain") or job
    volume = {"name": "vcjob-hosts", "configMap": {"name": hosts}}
    made["volumes"] = [*(made.get("volumes") or ()), volume]
    variables = [
        {"name": key, "valueFrom": {"configMapKeyRef": {"name": hosts, "key": key}}}
        for role in roles
        for key in _variables(role)
    ]
    for container in (*(made.get("initContainers") or ()), *(made.get("containers") or ())):
        container["env"] = [*(container.get("env") or ()), *variables]
        mount = {"name": volume["name"], "mountPath": FOLDER}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def service_bodies(
    job: str, namespace: str, spec: VcJobSpec, roles: Sequence[Role], hosts: str
) -> dict[str, dict[str, Any]]:
    """What must exist for a job, by kind, without its owner: names, a domain, and who may come in."""
    arguments = {text.lstrip("-").partition("=")[0]: text for text in (spec.plugins or {}).get(NAME) or ()}

    def on(flag: str) -> bool:
        return flag in arguments and not arguments[flag].endswith("=false")

    members = {keys.JOB_NAME: job, keys.JOB_NAMESPACE: namespace}
    port = {"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}
    found: dict[str, dict[str, Any]] = {
        "ConfigMap": {
            "apiVersion": "v1",
            "metadata": {"name": hosts},
            "data": {**host_files(job, roles), **host_variables(job, roles)},
        },
        "Service": {
            "apiVersion": "v1",
            "metadata": {"name": job},
            "spec": {
                "clusterIP": "None",
                "selector": members,
                "publishNotReadyAddresses": on("publish-not-ready-addresses"),
                "ports": [port],
            },
        },
    }
    if not on("disable-network-policy"):
        found["NetworkPolicy"] = {
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": job},
            "spec": {
                "podSelector": {"matchLabels": members},
                "ingress": [{"from": [{"podSelector": {"matchLabels": members}}]}],
                "policyTypes": ["Ingress"],
            },
        }
    return {kind: {**body, "kind": kind} for kind, body in found.items()}
