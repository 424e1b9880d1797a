"""A scenario in the making: what was read so far, and what is checked when all of it is there."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.model.api import AnyObject, NodeObject, QueueObject
from pumice.model.kai import KAI_QUEUE
from pumice.sim.job_manifests import JobManifests
from pumice.sim.jobs import SIM_RUN_ANNOTATION
from pumice.sim.reading import Value
from pumice.sim.run import default_queue, kai_queues
from pumice.sim.traces import Trace, write
from pumice.sim.workload import Generator, TracePart

_QUEUES_NAMED = 5


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, or of all Python files of a directory."""
    if path.is_dir():
        files = sorted(path.rglob("*.py"))
        listed = "".join(f"{file.relative_to(path)} {digest_of(file)}\n" for file in files)
        return hashlib.sha256(listed.encode()).hexdigest()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of_data(data: Mapping[str, Any], jobs: Trace | None) -> str:
    """The SHA-256 of a scenario that is no file, and of jobs that were given beside it."""
    stream = StringIO()
    write(jobs or (), stream)
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(f"{text}\n{stream.getvalue()}".encode()).hexdigest()


@dataclass(slots=True)
class Draft:
    """The parts of a scenario, as they are read."""

    objects: list[AnyObject] = field(default_factory=list)
    manifests: list[JobManifests] = field(default_factory=list)
    generators: list[Generator] = field(default_factory=list)
    traces: list[TracePart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    base: Path = field(default_factory=Path)
    """The folder of the files that it names."""
    data: Path | None = None
    """The folder in which its traces and lists of nodes are looked for first."""
    given: Mapping[str, Path] = field(default_factory=dict)
    """Files of a bundle, by the names that the scenario has for them."""
    files: dict[str, Path] = field(default_factory=dict)
    """Every file that was read, by its name."""

    def read(self, name: str) -> Path:
        """The path of a file that the scenario names; it is remembered as an input."""
        return self._noted(name, self.base / name)

    def read_data(self, value: Value) -> Path:
        """The path of a trace or a list of nodes: in the folder that was given, or beside the scenario."""
        name = value.text()
        found = [folder / name for folder in (self.data, self.base) if folder is not None]
        for path in found:
            if name in self.given or path.is_file():
                return self._noted(name, path)
        where = "beside the scenario" if self.data is None else f"in {str(self.data)!r}, nor beside the scenario"
        raise value.error(f"{name!r} is not {where}; say with --data DIR where the data is")

    def _noted(self, name: str, path: Path) -> Path:
        path = self.given.get(name, path)
        if path.is_file():
            self.files[name] = path
        return path

    @property
    def inputs(self) -> dict[str, str]:
        """The digest of every file that was read, by its name."""
        return {name: digest_of(path) for name, path in sorted(self.files.items())}


def check_queues(draft: Draft) -> None:
    """Make the queues that traces name; refuse a generator that submits to one which is not there; else warn."""
    there = {"default", *(o.metadata.name for o in draft.objects if isinstance(o, QueueObject))}
    for generator in draft.generators:
        if generator.queue not in there:
            meant = nearest(generator.queue, there)
            hint = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(sorted(there))}"
            raise InvalidInput(f"{generator.origin}: generator {generator.name!r}: no queue {generator.queue!r}{hint}")
    for part in draft.traces:
        named = {part.queue or job.queue for job in part.trace} - there
        if part.create_queues and named:
            draft.objects += [default_queue(name) for name in sorted(named)]
            draft.notes.append(
                f"{len(named):,} queue{'' if len(named) == 1 else 's'} that {part.trace.path.name} names and `queues` "
                f"does not, made with weight 1: {', '.join(sorted(named)[:_QUEUES_NAMED])}"
                f"{', …' if len(named) > _QUEUES_NAMED else ''}"
            )
            there |= named
    wanted = [job.queue for found in draft.manifests for job in found.jobs]
    wanted += [part.queue or job.queue for part in draft.traces for job in part.trace]
    if KAI_QUEUE in wanted and KAI_QUEUE not in there:
        draft.objects += [queue for queue in kai_queues() if queue.metadata.name not in there]
        there |= {KAI_QUEUE}
    missing = {queue: jobs for queue, jobs in sorted(Counter(wanted).items()) if queue not in there}
    for queue, jobs in missing.items():
        meant = nearest(queue, there)
        hint = f"did you mean {meant!r}? Else declare" if meant else "declare"
        many = "1 job that names it never starts" if jobs == 1 else f"{jobs:,} jobs that name it never start"
        draft.warnings.append(f"no queue {queue!r}: {many}; {hint} it under `queues`")
    if missing and sum(missing.values()) == len(wanted) and not draft.generators:
        raise InvalidInput(
            f"workload: none of the {len(wanted):,} jobs can start: no queue {', '.join(map(repr, missing))}; declare "
            "them under `queues`, or say `queues: create` or `queue: NAME` of the trace"
        )


def without_end(draft: Draft) -> list[str]:
    """A warning if pods say nothing of their run time: they run to the end, and nothing else would tell."""
    endless = [
        (job, sum(len(kind.names) for kind in job.kinds if math.isinf(kind.run_s)))
        for found in draft.manifests
        for job in found.jobs
        if any(math.isinf(kind.run_s) for kind in job.kinds)
    ]
    if not endless:
        return []
    pods = sum(count for _, count in endless)
    subject = f"{pods:,} pod{'' if pods == 1 else 's'} of {len(endless):,} job{'' if len(endless) == 1 else 's'}"
    return [
        f"run time unknown: {subject} ({endless[0][0].key}{', …' if len(endless) > 1 else ''}) never end; annotate "
        f"{SIM_RUN_ANNOTATION}, or say `run` of the manifests"
    ]


def leave_out_orphans(draft: Draft) -> None:
    """Leave out pods that run on a node which is not there, as those of a cluster that was saved in a bad moment do."""
    there = {o.metadata.name for o in draft.objects if isinstance(o, NodeObject)}
    for found in draft.manifests:
        for at, job in enumerate(found.jobs):
            lost = {pod: node for pod, node in job.placed.items() if node not in there}
            if not lost:
                continue
            kinds = tuple(kind for kind in job.kinds if not lost.keys() & set(kind.names))
            found.jobs[at] = replace(job, kinds=kinds)
            draft.warnings += [
                f"{job.origin}: pod {job.namespace}/{pod} runs on node {node!r}, which is not there: left out"
                for pod, node in lost.items()
            ]
        found.jobs[:] = [job for job in found.jobs if job.kinds]
