"""A scenario: one YAML file with cluster, queues, workload, faults and the configurations to try."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pumice.config import DEFAULT_CONF, HELM_CONF, Catalogue, Loaded, SchedulerConf, from_data, load
from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.model.api import AnyObject, NodeObject, QueueObject
from pumice.sim.cluster import Delays
from pumice.sim.faults import Faults
from pumice.sim.jobs import JobSpec
from pumice.sim.manifests import Manifests, read_manifests
from pumice.sim.parts import read_faults, read_generator, read_nodes_of, read_queues, read_trace
from pumice.sim.reading import ScenarioError, Section, Value, read_tree
from pumice.sim.run import Setting, merged
from pumice.sim.traces import Trace
from pumice.sim.workload import Generator, TraceJobs

BUILT_IN = {"default": DEFAULT_CONF, "helm": HELM_CONF}
"""Configurations that a scenario can name without having a file."""


@dataclass(frozen=True, slots=True)
class TracePart:
    """A trace of the workload, and how its jobs are submitted."""

    trace: Trace
    merge: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as read: everything checked, nothing run."""

    name: str
    source: str
    setting: Setting
    configurations: dict[str, SchedulerConf]
    manifests: tuple[Manifests, ...] = ()
    generators: tuple[Generator, ...] = ()
    traces: tuple[TracePart, ...] = ()
    checkpoint_s: float = 0.0
    warnings: tuple[str, ...] = ()

    def workload(self) -> Iterator[JobSpec]:
        """Every job in the order of submission; the same each time it is asked for."""
        seed = self.setting.seed
        parts: list[Iterator[JobSpec]] = [
            iter(sorted(found.jobs, key=lambda job: job.submit_s)) for found in self.manifests
        ]
        saved = self.checkpoint_s
        for drawn in self.generators:
            parts.append(TraceJobs(checkpoint_s=saved, origin=drawn.origin).jobs(drawn.jobs(seed)))
        for part in self.traces:
            jobs = TraceJobs(merge=part.merge, queue=part.queue, checkpoint_s=saved, origin=str(part.trace.path))
            parts.append(jobs.jobs(part.trace))
        return merged(parts)

    @property
    def expected_jobs(self) -> float:
        """How many jobs there are to play, about, whatever the horizon."""
        given = sum(len(found.jobs) for found in self.manifests) + sum(len(part.trace) for part in self.traces)
        return given + sum(generator.arrivals.expected for generator in self.generators)

    def setting_of(self, configuration: str) -> Setting:
        """The setting of the run under one configuration."""
        return replace(self.setting, name=configuration)

    def with_seed(self, seed: int) -> Scenario:
        """The same scenario with other random draws."""
        return replace(self, setting=replace(self.setting, seed=seed))

    def with_horizon(self, seconds: float) -> Scenario:
        """The same scenario, ended earlier or later."""
        return replace(self, setting=replace(self.setting, horizon_s=seconds))

    def under(self, configurations: dict[str, SchedulerConf]) -> Scenario:
        """The same scenario under other configurations."""
        return replace(self, configurations=configurations)


@dataclass(slots=True)
class _Draft:
    objects: list[AnyObject] = field(default_factory=list)
    manifests: list[Manifests] = field(default_factory=list)
    generators: list[Generator] = field(default_factory=list)
    traces: list[TracePart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plugin_directory(path: Path) -> Path | None:
    """The directory of plugins that a scenario names, relative to its file; it is loaded before the confs are read."""
    with _open(path) as top:
        for key in _KEYS:
            top.get(key)
        said = top.get("pluginsDir")
    if said is None:
        return None
    directory = path.parent / said.text()
    if not directory.is_dir():
        raise said.error(f"{str(directory)!r} is no directory")
    return directory


_KEYS = (
    *("name", "seed", "horizon", "cluster", "queues", "workload", "faults", "delays", "cycles", "configurations"),
    *("pluginsDir", "checkpoint"),
)


def _open(path: Path) -> Section:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise InvalidInput(f"scenario {str(path)!r}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"scenario {str(path)!r}: is not UTF-8 text") from exc
    return read_tree(text, str(path)).section()


def read_scenario(path: Path, catalogue: Catalogue) -> Scenario:
    """The scenario in a file. Paths in it are relative to the file; *catalogue* is what configurations may name.

    :raises InvalidInput: a key, value, manifest, trace or configuration that breaks a rule; names file and line.
    """
    draft = _Draft()
    with _open(path) as top:
        name = top.text("name", path.stem)
        seed, horizon = top.integer("seed", 0), top.duration("horizon", math.inf)
        top.get("pluginsDir")
        checkpoint = top.duration("checkpoint", 0.0)
        _cluster(top.need("cluster"), path.parent, draft)
        queues = top.get("queues")
        if queues is not None:
            draft.objects += read_queues(queues)
        _workload(top.need("workload"), path.parent, draft)
        _check_queues(draft)
        _leave_out_orphans(draft)
        delays = _delays(top.get("delays"))
        period, settle = 1.0, True
        cycles = top.get("cycles")
        if cycles is not None:
            with cycles.section() as section:
                period, settle = section.duration("period", 1.0) or 1.0, section.boolean("settle", True)
        faults = read_faults(top.get("faults"), [o for o in draft.objects if isinstance(o, NodeObject)])
        confs = _configurations(top.get("configurations"), path.parent, catalogue, draft)
    setting = Setting(
        name=name,
        objects=tuple(draft.objects),
        seed=seed,
        horizon_s=horizon,
        delays=delays,
        faults=faults or Faults(),
        period_s=period,
        settle=settle,
        trace=_in_words(name, draft),
        notes=tuple(draft.notes),
    )
    return Scenario(
        name,
        str(path),
        setting,
        confs,
        tuple(draft.manifests),
        tuple(draft.generators),
        tuple(draft.traces),
        checkpoint,
        tuple(draft.warnings),
    )


def _cluster(value: Value, base: Path, draft: _Draft) -> None:
    with value.section() as section:
        nodes = section.get("nodes")
        if nodes is not None:
            draft.objects += read_nodes_of(nodes, base)
        files = section.get("manifests")
        if files is not None:
            for file in files.texts():
                _take(read_manifests(base / file), draft)
    names = [o.metadata.name for o in draft.objects if isinstance(o, NodeObject)]
    if not names:
        raise value.error("needs at least one node, in nodes or in manifests")
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise value.error(f"node {twice!r} is there twice")


def _take(found: Manifests, draft: _Draft) -> None:
    draft.objects += found.objects
    if found.jobs:
        draft.manifests.append(found)
    if found.unread:
        draft.warnings.append(f"manifests: kinds that are not read: {', '.join(sorted(found.unread))}")


def _workload(value: Value, base: Path, draft: _Draft) -> None:
    before = len(draft.manifests)
    with value.section() as section:
        files = section.get("manifests")
        for item in files.items() if files is not None and files.is_list else [files] if files is not None else []:
            if not item.is_section:
                _take(read_manifests(base / item.text()), draft)
                continue
            with item.section() as entry:
                file, at = entry.need("file").text(), entry.duration("at", 0.0)
                run = entry.get("run")
                _take(read_manifests(base / file, at, None if run is None else run.duration()), draft)
        generators = section.get("generators")
        if generators is not None:
            draft.generators += [read_generator(item) for item in generators.items()]
        trace = section.get("trace")
        for item in trace.items() if trace is not None and trace.is_list else [trace] if trace is not None else []:
            read, merge, queue = read_trace(item, base)
            draft.traces.append(TracePart(read, merge, queue))
            draft.notes += read.notes
    if len(draft.manifests) == before and not draft.generators and not draft.traces and not before:
        raise value.error("needs manifests, generators or a trace")
    names = [g.name for g in draft.generators]
    if len(set(names)) < len(names):
        raise value.error(f"generators must have different names, got {', '.join(names)}")


def _check_queues(draft: _Draft) -> None:
    """Refuse a generator that submits to a queue that is not there; of jobs that others wrote, only warn."""
    there = {"default", *(o.metadata.name for o in draft.objects if isinstance(o, QueueObject))}
    for generator in draft.generators:
        if generator.queue not in there:
            meant = nearest(generator.queue, there)
            hint = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(sorted(there))}"
            raise InvalidInput(f"{generator.origin}: generator {generator.name!r}: no queue {generator.queue!r}{hint}")
    wanted = [job.queue for found in draft.manifests for job in found.jobs]
    wanted += [part.queue or job.queue for part in draft.traces for job in part.trace]
    for queue, jobs in sorted(Counter(wanted).items()):
        if queue not in there:
            draft.warnings.append(f"queue {queue!r} is not there: {jobs:,} jobs that name it will wait for ever")


def _leave_out_orphans(draft: _Draft) -> None:
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


def _delays(value: Value | None) -> Delays:
    if value is None:
        return Delays()
    with value.section() as section:
        failures = section.number("bindFailures", 0.0)
        if failures > 1:
            raise value.error(f"bindFailures must be a probability from 0 to 1, got {failures:g}")
        return Delays(
            bind=section.duration("bind", 0.0),
            start=section.duration("start", 0.0),
            eviction=section.duration("eviction", 1.0),
            bind_failures=failures,
        )


def _configurations(value: Value | None, base: Path, catalogue: Catalogue, draft: _Draft) -> dict[str, SchedulerConf]:
    if value is None:
        return {"default": load(DEFAULT_CONF, catalogue, "<default>").conf}
    confs: dict[str, SchedulerConf] = {}
    for name, item in value.pairs():
        if item.is_section:
            data = item.plain()
            assert isinstance(data, dict)
            loaded = from_data(data, catalogue, f"{item.source}:{item.line}: {item.path}")
        elif item.text() in BUILT_IN:
            loaded = load(BUILT_IN[item.text()], catalogue, f"<{item.text()}>")
        elif not (base / item.text()).is_file():
            raise item.error(f"must be {', '.join(BUILT_IN)}, a file or a conf, and there is no file {item.text()!r}")
        else:
            loaded = load_conf_file(base / item.text(), catalogue)
        draft.warnings += [str(problem) for problem in loaded.warnings]
        confs[name] = loaded.conf
    if not confs:
        raise value.error("needs at least one configuration")
    return confs


def load_conf_file(path: Path, catalogue: Catalogue) -> Loaded:
    """A configuration from a file.

    :raises InvalidInput: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise InvalidInput(f"configuration {str(path)!r}: {exc.strerror}") from exc
    return load(text, catalogue, str(path))


def _in_words(name: str, draft: _Draft) -> str:
    parts = [f"{part.trace.format} trace {part.trace.path.name} ({len(part.trace):,} jobs)" for part in draft.traces]
    parts += [f"generator {generator.name}" for generator in draft.generators]
    jobs = sum(len(found.jobs) for found in draft.manifests)
    parts += [f"{jobs} jobs from manifests"] if jobs else []
    return f"{name}: {', '.join(parts)}"


__all__ = ["BUILT_IN", "Scenario", "ScenarioError", "TracePart", "plugin_directory", "read_scenario"]
