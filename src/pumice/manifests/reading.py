"""Manifests -> the objects that a scheduler reads, and jobs, which a controller makes pods of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pumice.errors import InvalidInput
from pumice.manifests.completing import completed
from pumice.manifests.documents import ManifestDocument, documents, documents_of_text
from pumice.model import api

JOB: Final = "Job"
EXPANDED_ELSEWHERE: Final = frozenset(
    (
        *("CronJob", "DaemonSet", "Deployment", "JAXJob", "JobSet", "LeaderWorkerSet", "MPIJob", "Notebook"),
        *("PodCliqueSet", "PyTorchJob", "RayCluster", "RayJob", "RayService", "ReplicaSet", "ReplicationController"),
        *("SparkApplication", "StatefulSet", "TFJob", "TrainJob", "Workflow", "XGBoostJob"),
    )
)
"""Workloads of which a controller of their own makes pods."""
CONFIGURATIONS: Final = frozenset(("SchedulingShard", "Config"))


class Placed(NamedTuple):
    """An object and where it stands: ``jobs.yaml:12``."""

    object: api.AnyObject
    place: str


@dataclass(slots=True)
class Manifests:
    """What files of manifests hold, in their order."""

    objects: list[Placed] = field(default_factory=list)
    """What a scheduler reads, completed as an API server does."""
    jobs: list[ManifestDocument] = field(default_factory=list)
    """Jobs of Volcano and of Kubernetes, as they stand there."""
    unread: set[str] = field(default_factory=set)
    """Kinds that nothing here reads."""


def read(paths: Sequence[Path]) -> Manifests:
    """Everything that files and directories hold. What is no object (a scheduler conf, say) is passed by.

    :raises InvalidInput: a path that does not exist, or a document that breaks a rule; names file and line.
    """
    return _read(documents(paths))


def read_text(text: str, name: str) -> Manifests:
    """Everything that a text of YAML or JSON holds; *name* is what it is called in what is said about it.

    :raises InvalidInput: a document that breaks a rule; names the line.
    """
    return _read(documents_of_text(text, name))


def unread_words(kinds: Iterable[str]) -> list[str]:
    """Return what is said about kinds that were left out, and what to do, a line for each case."""
    left = sorted(kinds)
    workloads = [kind for kind in left if kind in EXPANDED_ELSEWHERE]
    confs = [kind for kind in left if kind in CONFIGURATIONS]
    others = [kind for kind in left if kind not in EXPANDED_ELSEWHERE and kind not in CONFIGURATIONS]
    lines = []
    if workloads:
        lines.append(
            f"pods of {', '.join(workloads)} are made by a controller, so these objects were left out; give the pods "
            "and PodGroups that it made (kubectl get pods,podgroups -o yaml)"
        )
    if confs:
        lines.append(f"{', '.join(confs)} is a configuration and was left out; pass a SchedulingShard with --conf")
    if others:
        lines.append(f"a scheduler does not read objects of kind {', '.join(others)}")
    return lines


def _read(listed: Iterable[ManifestDocument]) -> Manifests:
    found = Manifests()
    for document in listed:
        kind = document.kind
        if kind == JOB:
            found.jobs.append(document)
        elif api.class_of(kind, document.data) is not None:
            try:
                found.objects.append(Placed(completed(api.decode(kind, document.data)), document.place))
            except (InvalidInput, RecursionError) as exc:
                raise InvalidInput(f"{document.place}: {exc}") from exc
        elif kind:
            found.unread.add(kind)
        elif "metadata" in document.data:
            raise InvalidInput(f"{document.place}: an object must say its kind")
    return found
