"""Kubernetes manifests from files and directories: YAML with several documents, JSON, and Lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from pumice.cli.options import read_text
from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.events import Seen
from pumice.sim.expand import expanded
from pumice.sim.jobs import JobSpec
from pumice.sim.manifests import jobs_of, read_job
from pumice.sim.run import default_queue
from pumice.state.cluster import ClusterState

_SUFFIXES = (".yaml", ".yml", ".json")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAMESPACED = (
    *(api.Pod, api.PodGroup, api.ResourceQuota, api.PodDisruptionBudget, api.PersistentVolumeClaim),
    *(api.CSIStorageCapacity, api.ResourceClaim),
)


def read_objects(paths: Sequence[Path]) -> tuple[list[api.AnyObject], list[str]]:
    """Every object below the paths in the order of the files, and the kinds that a scheduler does not read.

    Jobs whose pods are not among the objects come last, as the PodGroup and the pods that a job controller makes of
    them. A scheduler conf among the manifests (a document without ``kind``) is passed by.
    :raises InvalidInput: a path that does not exist, or a document that is not a Kubernetes object; names the file.
    """
    found: list[api.AnyObject] = []
    unread: set[str] = set()
    jobs: list[JobSpec] = []
    for file in _files(paths):
        for document in _documents(file):
            kind = document.get("kind", "")
            try:
                if kind == "Job":
                    jobs.append(read_job(document, str(file), _created(document)))
                elif kind in api.KINDS:
                    found.append(_complete(api.decode(kind, document)))
                elif kind:
                    unread.add(kind)
            except (InvalidInput, msgspec.ValidationError) as exc:
                raise InvalidInput(f"{file}: {exc}") from exc
    there = jobs_of(obj for obj in found if isinstance(obj, api.Pod))
    found += [obj for job in jobs if job.key not in there for obj in expanded(job)]
    return found, sorted(unread)


def _created(document: Mapping[str, Any]) -> float:
    """When an object was created, in seconds; 0 where it does not say."""
    meta = msgspec.convert(document.get("metadata") or {}, api.Metadata)
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0


def _complete(obj: api.AnyObject) -> api.AnyObject:
    """Fill in what an API server would: the namespace, and that a new pod is pending."""
    if isinstance(obj, _NAMESPACED):
        obj = api.with_namespace(obj, "default")
    if isinstance(obj, api.Pod) and not obj.status.phase:
        obj = replace(obj, status=replace(obj.status, phase="Pending"))
    return obj


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


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"path {str(path)!r}: does not exist")
        yield from [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES)


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    text = read_text(file)
    try:
        documents = [json.loads(text)] if file.suffix == ".json" else list(yaml.load_all(text, _Loader))
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"{file}:{exc.lineno}:{exc.colno}: not JSON: {exc.msg}") from exc
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise InvalidInput(f"{place}: not YAML: {getattr(exc, 'problem', None) or 'cannot be read'}") from exc
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise InvalidInput(f"{file}: must hold Kubernetes objects, got a {type(document).__name__}")
        if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            inner = document["kind"].removesuffix("List")
            yield from ({"kind": inner, **item} if inner else item for item in document["items"])
        else:
            yield document
