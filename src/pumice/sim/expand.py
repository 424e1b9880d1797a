"""Jobs as the objects that a job controller makes of them, for those who look at a cluster without running it."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.model.api import AnyObject, Metadata, Pod, PodStatus
from pumice.sim.controller import group_of
from pumice.sim.jobs import JobSpec


def expanded(spec: JobSpec) -> Iterator[AnyObject]:
    """The PodGroup and the pods that a job has at first, all pending."""
    group = group_of(spec, spec.submit_s)
    yield group
    pods = [(kind, name) for kind in spec.kinds for name in kind.names]
    for kind, name in pods[: spec.parallelism or len(pods)]:
        meta = Metadata(
            name=name,
            namespace=spec.namespace,
            uid=f"{spec.namespace}/{name}",
            creation_timestamp=group.metadata.creation_timestamp,
            labels=kind.labels,
            annotations=kind.annotations,
        )
        yield Pod(metadata=meta, spec=kind.spec, status=PodStatus(phase="Pending"))
