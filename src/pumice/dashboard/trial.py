"""A job as somebody types it into a form."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pumice.errors import InvalidInput
from pumice.model.api import AnyObject
from pumice.sim.expand import expanded
from pumice.sim.job_manifests import read_job


def objects_in(text: str) -> list[AnyObject]:
    """The PodGroups and pods of manifests, and of the Jobs among them.

    :raises InvalidInput: it is no manifest; says why.
    """
    from pumice import manifests

    if not text.strip():
        raise InvalidInput("there is no manifest")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            found = manifests.read([file])
            objects = [placed.object for placed in found.objects]
            for document in found.jobs:
                objects += expanded(read_job(document.data, document.place, 0.0))
        except InvalidInput as exc:
            raise InvalidInput(str(exc).replace(str(file), "job.yaml")) from exc
    return objects
