"""The cluster that files stand for: manifests with a conf, or a saved cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice import manifests, saved
from pumice.cli import render
from pumice.cli.options import load_conf
from pumice.config import SchedulerConf
from pumice.errors import InvalidInput, decoder_words
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.manifests import ManifestDocument, unread_words
from pumice.model import api, keys
from pumice.model.events import Seen
from pumice.model.kai import KAI_QUEUE
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.scheduler.assembly import assemble
from pumice.scheduler.recording import NextCycle, restored
from pumice.sim.job_manifests import expanded, job_of, jobs_of, joining_pods, read_job
from pumice.sim.run import default_queue, kai_queues
from pumice.state.cluster import ClusterState
from pumice.words import counted
from pumice.workloads.grouping import KAI_SCHEDULER, OWN_GROUP, is_grouped_by_kai, kai_group, own_group

SCHEDULERS: Final = ("", "pumice", "volcano", KAI_SCHEDULER)
"""The schedulers whose pending pods get a PodGroup, as the controllers make it."""
_SKIPPED: Final = f"with {keys.KAI_SKIP_GROUPER} and without a PodGroup ({keys.POD_GROUP_ANNOTATION})"
_NAMED: Final = 10
"""At most so many pods are named in a warning."""


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
        created = _created(document)
        job = read_job(document.data, document.place, created)
        if job.key in running:
            continue
        joining = joining_pods(document.data, job)
        if joining is None:
            found += expanded(job)
        for pod in joining or ():
            stamp = datetime.fromtimestamp(created, UTC) if created else None
            found.append(replace(pod, metadata=replace(pod.metadata, creation_timestamp=stamp)))
    return found, sorted(there.unread)


def _created(document: ManifestDocument) -> float:
    """When an object was created, in seconds; 0 where it does not say."""
    try:
        meta = msgspec.convert(document.data.get("metadata") or {}, api.Metadata)
    except msgspec.ValidationError as exc:
        raise InvalidInput(f"{document.place}: Job: {decoder_words(exc)}") from exc
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0


def grouped(objects: Iterable[api.AnyObject]) -> tuple[list[api.AnyObject], list[str]]:
    """The objects with a PodGroup of its own for each pending pod that names none; and what is left out, in words.

    Pods of one Job or controller share a group. Pods that name another scheduler are left out.
    """
    found: list[api.AnyObject] = []
    groups: dict[str, api.PodGroup] = {}
    left: dict[str, list[str]] = {}
    for obj in objects:
        if isinstance(obj, api.Pod) and obj.status.phase == "Pending" and not obj.spec.node_name:
            meta, notes = obj.metadata, obj.metadata.annotations or {}
            if group_named(notes, obj.spec):
                pass
            elif notes.get(keys.KAI_SKIP_GROUPER) == "true":
                left.setdefault(_SKIPPED, []).append(obj.key)
            elif obj.spec.scheduler_name not in SCHEDULERS:
                left.setdefault(f"of scheduler {obj.spec.scheduler_name!r}", []).append(obj.key)
            else:
                owner = next((o for o in meta.owner_references or () if o.controller), None)
                name = job_of(obj) or f"{OWN_GROUP}{owner.uid if owner is not None else meta.uid or meta.name}"
                group: api.PodGroup
                if is_grouped_by_kai(obj.spec, meta.labels, notes):
                    group = kai_group(name, meta, meta, obj.spec)
                else:
                    group, _ = own_group(meta, obj.spec, name, {})
                stamped = replace(group.metadata, creation_timestamp=meta.creation_timestamp)
                groups.setdefault(group.key, replace(group, metadata=stamped))
                obj = replace(obj, metadata=replace(meta, annotations={**notes, GROUP_ANNOTATION: name}))
        found.append(obj)
    there = {obj.key for obj in found if isinstance(obj, api.PodGroup)}
    warnings = [
        f"{counted(len(pods), 'pod')} {'was' if len(pods) == 1 else 'were'} left out, {why}: "
        f"{', '.join(pods[:_NAMED])}{', …' if len(pods) > _NAMED else ''}"
        for why, pods in sorted(left.items())
    ]
    return [*(group for key, group in groups.items() if key not in there), *found], warnings


def state_of(objects: Sequence[api.AnyObject]) -> ClusterState:
    """The cluster that the objects make up; its clock stands at the newest creation time among them.

    The queue ``default`` is there as in every cluster, whether they name it or not, and if a job is in KAI's
    ``default-queue``, that one too.
    """
    state = ClusterState()
    stamps = [o.metadata.creation_timestamp for o in objects if o.metadata.creation_timestamp is not None]
    state.now = max((s.timestamp() for s in stamps), default=0.0)
    for obj in objects:
        state.apply(Seen(obj))
    if "default" not in state.queues:
        state.apply(Seen(default_queue()))
    if any(job.queue == KAI_QUEUE for job in state.jobs.values()) and KAI_QUEUE not in state.queues:
        for queue in kai_queues():
            if queue.metadata.name not in state.queues:
                state.apply(Seen(queue))
    return state


def cycle_of(paths: Sequence[Path], conf: SchedulerConf | None, registry: Registry) -> NextCycle:
    """The cycle that the paths stand for, not run yet; manifests run with *conf*, else with the default one.

    Extenders of a conf are asked for manifests; for a saved cycle they answer from the file (see `recording.replay`).

    :raises InvalidInput: the paths do not hold a cluster.
    """
    if len(paths) == 1 and saved.is_saved(paths[0]):
        cycle = saved.read(paths[0])
        if conf is not None:
            cycle.conf, cycle.conf_source = conf.to_data(), conf.source
        return restored(cycle, registry, conf=conf)
    state, warnings = _read(paths)
    assembly = assemble(conf or load_conf(None, registry), registry)
    return NextCycle(state, assembly, Runtime(), warnings=tuple(warnings))


def _read(paths: Sequence[Path]) -> tuple[ClusterState, list[str]]:
    """The cluster that manifests hold, and what is wrong with it or left out, which goes to stderr too."""
    objects, unread = read_objects(paths)
    objects, warnings = grouped(objects)
    warnings += unread_words(unread)
    state = state_of(objects)
    warnings += [f"{kind} {key}: {problem}" for (kind, key), problem in sorted(state.problems.items())]
    for text in warnings:
        render.warning(text)
    if not state.nodes and not state.jobs:
        raise InvalidInput(f"{', '.join(map(str, paths))}: no Node, PodGroup or pod of ours among the manifests")
    return state, warnings
