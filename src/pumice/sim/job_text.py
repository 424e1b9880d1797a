"""A job as somebody types it, into a form or into a question."""

from __future__ import annotations

from pumice import manifests
from pumice.errors import InvalidInput
from pumice.model.api import AnyObject
from pumice.sim.expand import expanded
from pumice.sim.job_manifests import read_job


def objects_in(text: str, name: str = "job.yaml") -> list[AnyObject]:
    """The PodGroups and pods of manifests, and of the Jobs among them; *name* stands in what is said about them.

    :raises InvalidInput: it is no manifest; says why.
    """
    if not text.strip():
        raise InvalidInput("there is no manifest")
    found = manifests.parse(text, name)
    objects = [placed.object for placed in found.objects]
    for document in found.jobs:
        objects += expanded(read_job(document.data, document.place, 0.0))
    return objects
