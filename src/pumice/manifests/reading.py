"""Manifests -> the objects that a scheduler reads, and jobs, which a controller makes pods of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pumice.errors import InvalidInput
from pumice.manifests.completing import completed
from pumice.manifests.documents import ManifestDocument, documents
from pumice.model import api

JOB: Final = "Job"


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
    """Everything that files and directories hold. A document without ``kind`` (a scheduler conf, say) is passed by.

    :raises InvalidInput: a path that does not exist, or a document that breaks a rule; names file and line.
    """
    found = Manifests()
    for document in documents(paths):
        kind = document.kind
        if kind == JOB:
            found.jobs.append(document)
        elif kind in api.KINDS:
            try:
                found.objects.append(Placed(completed(api.decode(kind, document.data)), document.place))
            except (InvalidInput, RecursionError) as exc:
                raise InvalidInput(f"{document.place}: {exc}") from exc
        elif kind:
            found.unread.add(kind)
    return found
