"""The cluster that manifests stand for, where nobody runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from pumice import manifests
from pumice.errors import InvalidInput
from pumice.manifests import ManifestDocument
from pumice.model import api
from pumice.model.events import Seen
from pumice.sim.expand import expanded
from pumice.sim.job_manifests import jobs_of, read_job
from pumice.sim.run import default_queue
from pumice.state.cluster import ClusterState


def read_objects(paths: Sequence[Path]) -> tuple[list[api.AnyObject], list[str]]:
    """Every object below the paths in the order of the files, and the kinds that a scheduler does not read.

    Jobs whose pods are not among the objects come last, as the PodGroup and the pods that a job controller makes of
    them.
    :raises InvalidInput: a path that does not exist, or a document that is not a Kubernetes object; names the file.
    """
    there = manifests.read(paths)
    found = [placed.object for placed in there.objects]
    running = jobs_of(obj for obj in found if isinstance(obj, api.Pod))
    for document in there.jobs:
        job = read_job(document.data, document.place, _created(document))
        if job.key not in running:
            found += expanded(job)
    return found, sorted(there.unread)


def _created(document: ManifestDocument) -> float:
    """When an object was created, in seconds; 0 where it does not say."""
    try:
        meta = msgspec.convert(document.data.get("metadata") or {}, api.Metadata)
    except msgspec.ValidationError as exc:
        raise InvalidInput(f"{document.place}: Job: {exc}") from exc
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0


def state_of(objects: Sequence[api.AnyObject]) -> ClusterState:
    """The cluster that the objects make up; its clock stands at the newest creation time among them.

    The queue ``default`` is there as in every cluster, whether they name it or not.
    """
    state = ClusterState()
    stamps = [o.metadata.creation_timestamp for o in objects if o.metadata.creation_timestamp is not None]
    state.now = max((s.timestamp() for s in stamps), default=0.0)
    for obj in objects:
        state.apply(Seen(obj))
    if "default" not in state.queues:
        state.apply(Seen(default_queue()))
    return state
