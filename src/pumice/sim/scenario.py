"""A scenario: one YAML file with cluster, queues, workload, faults and the configurations to try."""

from __future__ import annotations

import math
import pickle
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy

from pumice import saved
from pumice.config import DEFAULT_CONF, HELM_CONF, Catalogue, LoadedConf, SchedulerConf, from_data, load
from pumice.errors import InvalidInput, read_text
from pumice.framework.plugin import Plugin
from pumice.framework.registry import Registry, default_registry
from pumice.framework.run_times import RUN_TIME_ANNOTATION
from pumice.manifests import unread_words
from pumice.model.api import NodeObject, QueueObject
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.bundle import BundleManifest, Unpacked, is_bundle, unpack
from pumice.sim.cluster import Delays
from pumice.sim.faults import Faults
from pumice.sim.job_manifests import JobManifests, read_manifests
from pumice.sim.jobs import JobSpec
from pumice.sim.parts import (
    Draft,
    check_queues,
    digest_of,
    digest_of_data,
    leave_out_orphans,
    read_faults,
    read_generator,
    read_nodes_of,
    read_queues,
    read_speed,
    read_trace,
    without_end,
)
from pumice.sim.reading import ScenarioError, Section, Value, read_tree, value_of
from pumice.sim.results.records import BLOCKS, SEED, SHAKEN, Origin, Window
from pumice.sim.run import Setting, merged
from pumice.sim.speed import Costs, Speed
from pumice.sim.traces import Trace, TraceJob
from pumice.sim.workload import DAY_S, Generator, Shake, Split, TraceJobs, TracePart

_PLANS, _ORDERS = "easybackfill", "sjf"
"""The action and the plugin that need declared run times."""
BUILT_IN = {"default": DEFAULT_CONF, "helm": HELM_CONF}
"""Configurations that a scenario can name without having a file."""


@dataclass(frozen=True, slots=True)
class SimScenario:
    """A scenario as read: everything checked, nothing run."""

    name: str
    source: str
    setting: Setting
    configurations: dict[str, SchedulerConf]
    manifests: tuple[JobManifests, ...] = ()
    generators: tuple[Generator, ...] = ()
    traces: tuple[TracePart, ...] = ()
    checkpoint_s: float = 0.0
    speed: Speed | None = None
    """How fast jobs of traces and generators work by what they got, unless those say; None: always as fast."""
    lead_s: float = DAY_S
    """The part that is played before each part of a trace."""
    shaken: bool = False
    """Traces are varied by the seed."""
    split: Split | None = None
    """Traces are cut into parts; what is drawn is one of them."""
    plugins: Path | None = None
    """The directory of plugins, which must be there on every machine that plays."""
    classes: tuple[type[Plugin], ...] = ()
    """Plugins that are no files; they can be imported on every machine that plays."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Every file that it names, by that name."""
    bundle: BundleManifest | None = None
    """The source that the bundle names."""

    @property
    def registry(self) -> Registry:
        """The plugins and actions that its configurations may name: built in, installed, in its directory of plugins,
        its classes."""
        return registry_of(self.plugins, self.classes)

    def packed(self) -> bytes:
        """Return the scenario as bytes, to be unpacked once by each process that plays it."""
        return pickle.dumps(self)

    def workload(self) -> Iterator[JobSpec]:
        """Every job in the order of submission; the same each time it is asked for."""
        seed = self.setting.seed
        parts: list[Iterator[JobSpec]] = [
            iter(sorted(found.jobs, key=lambda job: job.submit_s)) for found in self.manifests
        ]
        saved = self.checkpoint_s
        for drawn in self.generators:
            made = TraceJobs(checkpoint_s=saved, speed=drawn.speed or self.speed, origin=drawn.origin)
            parts.append(made.jobs(drawn.jobs(seed)))
        for part in self.traces:
            jobs = TraceJobs(
                merge=part.merge,
                queue=part.queue,
                checkpoint_s=saved,
                speed=part.speed or self.speed,
                origin=str(part.trace.path),
            )
            parts.append(jobs.jobs(part.shake.jobs(part.trace.jobs, seed) if self.shaken else self._part_of(part)))
        return merged(parts)

    def _part_of(self, part: TracePart) -> Iterable[TraceJob]:
        """The jobs of a trace from the lead-in of what is measured on; all of them if nothing is cut."""
        if self.split is None or self.setting.measure is None:
            return part.trace
        begin = self.setting.measure[0] - self.split.lead_s
        return (job for job in part.trace if job.submit_s >= begin)

    @property
    def expected_jobs(self) -> float:
        """How many jobs there are to play, about, whatever the horizon."""
        given = sum(len(found.jobs) for found in self.manifests) + sum(len(part.trace) for part in self.traces)
        return given + sum(generator.arrivals.expected for generator in self.generators)

    def setting_of(self, configuration: str) -> Setting:
        """The setting of the run under one configuration."""
        warnings, conf = self.setting.warnings, self.configurations[configuration]
        lost = ""
        if _PLANS in conf.actions:
            lost = f"{_PLANS} of {configuration} has nothing to plan with, and does as allocate would"
        elif any(listed.plugin.name == _ORDERS for listed in conf.listed()):
            lost = f"{_ORDERS} of {configuration} has nothing to order by, and changes nothing"
        if lost and not self._declares():
            warnings = (
                *warnings,
                f"no job declares a run time: {lost}; annotate {RUN_TIME_ANNOTATION}, say `declared` of generators, "
                "`estimates` of traces",
            )
        return replace(self.setting, name=configuration, warnings=warnings)

    def _declares(self) -> bool:
        """Whether any job says how long it will run."""
        return (
            any(generator.declared for generator in self.generators)
            or any(job.run_time_declared_s is not None for part in self.traces for job in part.trace)
            or any(
                RUN_TIME_ANNOTATION in (notes or {})
                for found in self.manifests
                for job in found.jobs
                for notes in (job.annotations, *(kind.annotations for kind in job.kinds))
            )
        )

    def with_seed(self, seed: int) -> SimScenario:
        """The same scenario with other random draws."""
        return replace(self, setting=replace(self.setting, seed=seed))

    def drawn(self, seed: int) -> SimScenario:
        """One of many scenarios like this one: other draws and traces that are shaken, or the part of that number."""
        if self.split is not None:
            window = self.split.window(seed)
            return replace(self, setting=replace(self.setting, seed=seed, measure=window, unit=self.split.unit()))
        parts = [part for part in self.traces if part.shake]
        notes = [f"trace {part.trace.path.name} is shaken by the seed: {part.shake.in_words()}" for part in parts]
        unit = BLOCKS if any(part.shake.block_s for part in parts) else SHAKEN if parts else SEED
        setting = replace(self.setting, seed=seed, unit=unit, notes=(*self.setting.notes, *notes))
        return replace(self, setting=setting, shaken=True)

    def split_into(self, length_s: float) -> SimScenario:
        """The same scenario, of which the parts of the traces are drawn, each with a lead-in that does not count.

        :raises InvalidInput: it has other work than traces, or no part with jobs.
        """
        if self.generators or self.manifests or not self.traces:
            raise InvalidInput(
                "--split: is for a workload that is nothing but traces; jobs that are drawn have --seeds"
            )
        submits = [job.submit_s for part in self.traces for job in part.trace]
        return replace(self, split=Split.of(submits, length_s, self.lead_s, self.setting.measure))

    @property
    def is_drawn(self) -> bool:
        """Report whether anything in it depends on the seed or the part, plugins aside."""
        setting = self.setting
        if self.split is not None:
            return True
        by_chance = (setting.faults.nodes_every_s, setting.faults.pods_every_s, setting.delays.bind_failures)
        return bool(self.generators or any(part.shake for part in self.traces) or any(by_chance))

    def with_input(self, name: str, path: Path) -> SimScenario:
        """The same scenario, which also depends on a file or directory."""
        origin = self.setting.origin
        origin = msgspec.structs.replace(origin, inputs={**origin.inputs, name: digest_of(path)})
        return replace(self, setting=replace(self.setting, origin=origin))

    def with_horizon(self, seconds: float) -> SimScenario:
        """The same scenario, ended earlier or later.

        :raises InvalidInput: not later than it begins.
        """
        if seconds <= 0:
            raise InvalidInput(f"horizon: must be a duration above 0, got {seconds:g} s")
        return replace(self, setting=replace(self.setting, horizon_s=seconds))

    def under(self, configurations: dict[str, SchedulerConf]) -> SimScenario:
        """The same scenario under other configurations."""
        return replace(self, configurations=configurations)

    @property
    def queue_weights(self) -> dict[str, int]:
        """The weight of each queue."""
        found = (o for o in self.setting.objects if isinstance(o, QueueObject))
        return {queue.metadata.name: int(queue.spec.weight or 1) for queue in found}

    def with_speed(self, speed: Speed) -> SimScenario:
        """Return the scenario with jobs that work so fast; a function that other processes can import."""
        return replace(self, speed=speed)

    def with_load(self, factor: float) -> SimScenario:
        """The same scenario with jobs that arrive so many times as often; counted ones are as many more.

        :raises InvalidInput: nothing in it arrives by a generator or from a trace.
        """
        if not self.generators and not self.traces:
            raise InvalidInput("load: no generator and no trace, so no arrivals that could come more often")
        generators = tuple(replace(one, arrivals=one.arrivals.faster(factor)) for one in self.generators)
        traces = tuple(replace(part, trace=part.trace.faster(factor)) for part in self.traces)
        return replace(self, generators=generators, traces=traces)


@lru_cache(maxsize=8)
def registry_of(plugins: Path | None, classes: tuple[type[Plugin], ...] = ()) -> Registry:
    """Return what exists: built in, installed, in the directory if one is given, and the classes."""
    registry = default_registry()
    if plugins is None and not classes:
        return registry
    registry = registry.copy()
    if plugins is not None:
        registry.load_directory(plugins)
    for cls in classes:
        registry.entry(cls)
    return registry


ScenarioSource = Path | Mapping[str, Any]
"""A file (also a bundle), or the same data: then paths in it are relative to the working directory."""


def plugin_directory(source: ScenarioSource) -> Path | None:
    """The directory of plugins that a scenario names, relative to its file; it is loaded before the confs are read."""
    with _open(source) as top:
        for key in _KEYS:
            top.get(key)
        said = top.get("pluginsDir")
    if said is None:
        return None
    directory = _base(source) / said.text()
    if not directory.is_dir():
        raise said.error(f"{str(directory)!r} is no directory")
    return directory


_KEYS = (
    *("name", "seed", "horizon", "cluster", "queues", "workload", "faults", "delays", "cycles", "configurations"),
    *("pluginsDir", "checkpoint", "measure", "speed", "costs"),
)


DATA = "<scenario>"
"""The source of a scenario that is no file, in messages and records."""


def _base(source: ScenarioSource) -> Path:
    return source.parent if isinstance(source, Path) else Path()


def _open(source: ScenarioSource) -> Section:
    if not isinstance(source, Path):
        return value_of(source, DATA).section()
    path = source
    if saved.is_saved(path):
        saved.read(path)
        why = f"is a saved cycle, one instant of a cluster; `pumice cycle {path} --conf FILE` shows what a conf decides"
        raise InvalidInput(f"scenario {str(path)!r}: {why} there")
    return read_tree(read_text(path, "scenario"), str(path)).section()


def open_scenario(
    source: ScenarioSource,
    *,
    plugins_dir: Path | None = None,
    data: Path | None = None,
    jobs: Trace | None = None,
    horizon_s: float | None = None,
) -> SimScenario:
    """The scenario with the plugins that it names, or those of another directory.

    :raises InvalidInput: as of `read_scenario`.
    :raises PluginLoadError: a plugin cannot be loaded.
    """
    bundled: Unpacked | None = None
    if isinstance(source, Path) and is_bundle(source):
        bundled = unpack(source)
        source, plugins_dir = bundled.scenario, plugins_dir or bundled.plugins
    plugins = plugins_dir or plugin_directory(source)
    where = plugins.resolve() if plugins is not None else None
    catalogue = catalogue_of(registry_of(where))
    scenario = read_scenario(source, catalogue, data, jobs, {} if bundled is None else bundled.files)
    scenario = replace(scenario, plugins=where)
    if bundled is not None:
        kept = bundled.bundle
        confs = {name: from_data(conf, catalogue, name).conf for name, conf in kept.configurations.items()}
        scenario = replace(scenario.under(confs), bundle=kept)
        horizon_s = horizon_s or kept.horizon_s
    if horizon_s is not None:
        scenario = scenario.with_horizon(horizon_s)
    return scenario if plugins is None else scenario.with_input("plugins", plugins)


def read_scenario(
    source: ScenarioSource,
    catalogue: Catalogue,
    data: Path | None = None,
    jobs: Trace | None = None,
    files: Mapping[str, Path] = {},
) -> SimScenario:
    """The scenario in a file or in data. Paths are relative to the file; *catalogue* is what configurations may name.

    Traces and lists of nodes are looked for in *data* first, if it is given, all files in *files* before, by their
    names there. *jobs* come beside those of the workload; no seed shakes them.

    :raises InvalidInput: a key, value, manifest, trace or configuration that breaks a rule; names file and line.
    """
    draft = Draft(base=_base(source), data=data, given=files)
    if jobs is not None:
        draft.traces.append(TracePart(jobs, shake=Shake(0.0, 0.0)))
    with _open(source) as top:
        name = top.text("name", source.stem if isinstance(source, Path) else "scenario")
        seed, horizon = top.integer("seed", 0, most=2**63 - 1), top.duration("horizon", math.inf)
        top.get("pluginsDir")
        checkpoint = top.duration("checkpoint", 0.0)
        speed = read_speed(top.get("speed"))
        costs = _costs(top.get("costs"))
        _cluster(top.need("cluster"), draft)
        queues = top.get("queues")
        if queues is not None:
            draft.objects += read_queues(queues)
        workload = top.get("workload") if draft.manifests or jobs is not None else top.need("workload")
        if workload is not None:
            _workload(workload, draft)
        check_queues(draft)
        leave_out_orphans(draft)
        delays = _delays(top.get("delays"))
        period, settle, every = 1.0, True, 0.0
        cycles = top.get("cycles")
        if cycles is not None:
            with cycles.section() as section:
                period, settle = section.duration("period", 1.0) or 1.0, section.boolean("settle", True)
                tick = section.get("every")
                every = 0.0 if tick is None else tick.duration(above=True)
        measure, lead = _measure(top.get("measure"))
        faults = read_faults(top.get("faults"), [o for o in draft.objects if isinstance(o, NodeObject)])
        confs = _configurations(top.get("configurations"), catalogue, draft)
    draft.warnings += without_end(draft)
    setting = Setting(
        name=name,
        objects=tuple(draft.objects),
        seed=seed,
        horizon_s=horizon,
        delays=delays,
        faults=faults or Faults(),
        costs=costs,
        period_s=period,
        settle=settle,
        every_s=every,
        measure=measure,
        trace=_in_words(name, draft),
        warnings=tuple(draft.warnings),
        notes=tuple(draft.notes),
        origin=Origin(
            scenario=source.name if isinstance(source, Path) else DATA,
            scenario_digest=digest_of(source) if isinstance(source, Path) else digest_of_data(source, jobs),
            inputs=draft.inputs,
            python=platform.python_version(),
            numpy=numpy.__version__,
        ),
    )
    return SimScenario(
        name,
        str(source) if isinstance(source, Path) else DATA,
        setting,
        confs,
        tuple(draft.manifests),
        tuple(draft.generators),
        tuple(draft.traces),
        checkpoint,
        speed,
        lead,
        files=draft.files,
    )


def _cluster(value: Value, draft: Draft) -> None:
    with value.section() as section:
        nodes = section.get("nodes")
        if nodes is not None:
            draft.objects += read_nodes_of(nodes, draft.read_data)
        files = section.get("manifests")
        if files is not None:
            for file in files.texts():
                _take(read_manifests(draft.read(file)), draft)
    names = [o.metadata.name for o in draft.objects if isinstance(o, NodeObject)]
    if not names:
        raise value.error("needs at least one node, in nodes or in manifests")
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise value.error(f"node {twice!r} is there twice")


def _take(found: JobManifests, draft: Draft) -> None:
    draft.objects += found.objects
    if found.jobs:
        draft.manifests.append(found)
    draft.warnings += [f"manifests: {text}" for text in unread_words(found.unread)]


def _workload(value: Value, draft: Draft) -> None:
    before = len(draft.manifests)
    with value.section() as section:
        files = section.get("manifests")
        for item in files.items() if files is not None and files.is_list else [files] if files is not None else []:
            if not item.is_section:
                _take(read_manifests(draft.read(item.text())), draft)
                continue
            with item.section() as entry:
                file, at = entry.need("file").text(), entry.duration("at", 0.0)
                run = entry.get("run")
                _take(read_manifests(draft.read(file), at, None if run is None else run.duration()), draft)
        generators = section.get("generators")
        if generators is not None:
            draft.generators += [read_generator(item) for item in generators.items()]
        trace = section.get("trace")
        for item in trace.items() if trace is not None and trace.is_list else [trace] if trace is not None else []:
            part = read_trace(item, draft.read_data)
            draft.traces.append(part)
            draft.notes += part.trace.notes
    if len(draft.manifests) == before and not draft.generators and not draft.traces and not before:
        raise value.error("needs manifests, generators or a trace")
    names = [g.name for g in draft.generators]
    if len(set(names)) < len(names):
        raise value.error(f"generators must have different names, got {', '.join(names)}")


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


def _costs(value: Value | None) -> Costs:
    if value is None:
        return Costs()
    with value.section() as section:
        return Costs(*(section.duration(key, 0.0) for key in ("checkpoint", "restart", "resize")))


def _measure(value: Value | None) -> tuple[Window | None, float]:
    """When jobs are submitted that count, and how much is played before each part of a trace."""
    if value is None:
        return None, DAY_S
    with value.section() as section:
        begin, end, lead = section.get("from"), section.get("to"), section.duration("leadIn", DAY_S)
    if begin is None and end is None:
        return None, lead
    if end is None:
        raise value.error("needs the key 'to'")
    window = (0.0 if begin is None else begin.duration(), end.duration())
    if not window[0] < window[1]:
        raise end.error("must be later than from")
    return window, lead


def _configurations(value: Value | None, catalogue: Catalogue, draft: Draft) -> dict[str, SchedulerConf]:
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
        elif not draft.read(item.text()).is_file():
            raise item.error(f"must be {', '.join(BUILT_IN)}, a file or a conf, and there is no file {item.text()!r}")
        else:
            loaded = load_conf_file(draft.read(item.text()), catalogue)
        draft.warnings += [str(problem) for problem in loaded.warnings]
        confs[name] = loaded.conf
    if not confs:
        raise value.error("needs at least one configuration")
    return confs


def load_conf_file(path: Path, catalogue: Catalogue) -> LoadedConf:
    """A configuration from a file.

    :raises InvalidInput: the file cannot be read.
    """
    return load(read_text(path, "configuration"), catalogue, str(path))


def _in_words(name: str, draft: Draft) -> str:
    parts = [f"{part.trace.format} trace {part.trace.path.name} ({len(part.trace):,} jobs)" for part in draft.traces]
    parts += [f"generator {generator.name}" for generator in draft.generators]
    jobs = sum(len(found.jobs) for found in draft.manifests)
    parts += [f"{jobs} jobs from manifests"] if jobs else []
    return f"{name}: {', '.join(parts)}"


__all__ = [
    "BUILT_IN",
    "ScenarioError",
    "ScenarioSource",
    "SimScenario",
    "TracePart",
    "open_scenario",
    "plugin_directory",
    "read_scenario",
    "registry_of",
]
