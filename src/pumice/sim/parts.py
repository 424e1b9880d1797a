"""The parts of a scenario file: nodes, queues, generators, traces, faults."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from pumice.config.problems import nearest
from pumice.errors import InvalidInput, decoder_words
from pumice.model import keys
from pumice.model.api import (
    AnyObject,
    Metadata,
    NodeObject,
    NodeSpec,
    NodeStatus,
    QueueObject,
    QueueSpec,
    QueueStatus,
    Taint,
)
from pumice.model.kai import KAI_QUEUE
from pumice.sim.draws import (
    Constant,
    Draw,
    Empirical,
    Exponential,
    Gamma,
    Lognormal,
    Pareto,
    Uniform,
    Weibull,
    WeightedChoice,
)
from pumice.sim.faults import FaultKind, Faults, PlannedFault
from pumice.sim.job_manifests import JobManifests
from pumice.sim.jobs import SIM_RUN_ANNOTATION
from pumice.sim.reading import MOST, Value
from pumice.sim.recorder import MODEL_LABEL
from pumice.sim.run import default_queue, kai_queues
from pumice.sim.speed import LINEAR, Curve, SpeedTable
from pumice.sim.traces import (
    FORMATS,
    OpenbOptions,
    PhillyOptions,
    SwfOptions,
    Trace,
    read,
    read_nodes,
    recognise,
    write,
)
from pumice.sim.workload import GPU, Arrivals, Generator, Shake, TracePart

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


_PODS = 110
MOST_NODES = 100_000
_MOST_GPUS = 1024
"""The parts of a node, and of a pod."""
_OPTIONS: dict[str, type[Any]] = {"openb": OpenbOptions, "philly": PhillyOptions, "swf": SwfOptions}


# -- cluster --------------------------------------------------------------------------------------------------------
def read_nodes_of(value: Value, find: Callable[[Value], Path]) -> list[NodeObject]:
    """Nodes: a list of groups of equal ones, or a node list of the openb trace; *find* says where a file is."""
    if not value.is_list and not value.is_section:
        return [
            node(n.name, f"{n.cpu_milli}m", str(n.memory_bytes), n.gpus, model=n.gpu_model)
            for n in read_nodes(find(value))
        ]
    listed = value.items() if value.is_list else [value]
    nodes: list[NodeObject] = []
    for number, item in enumerate(listed):
        nodes += _node_group(item, number)
    return nodes


def _node_group(value: Value, number: int) -> list[NodeObject]:
    with value.section() as section:
        name, count = section.text("name", f"node{number}" if number else "node"), section.get("count")
        cpu, memory = section.text("cpu", "0"), section.text("memory", "0")
        gpus, pods = section.integer("gpu", 0, most=_MOST_GPUS), section.integer("pods", _PODS, 1)
        labels, model = section.text_map("labels"), section.text("model")
        taints = [_taint(item) for item in taints_.items()] if (taints_ := section.get("taints")) else []
        for key in ("cpu", "memory"):
            section.milli(key)
    many = 1 if count is None else count.integer(1, MOST_NODES)
    width = len(str(many - 1))
    names = [name] if count is None else [f"{name}-{n:0{width}d}" for n in range(many)]
    return [node(n, cpu, memory, gpus, pods=pods, labels=labels, taints=taints, model=model) for n in names]


def _taint(value: Value) -> Taint:
    if not value.is_section:
        text = value.text()
        rest, _, effect = text.rpartition(":")
        key, _, written = rest.partition("=")
        if not key or not effect:
            raise value.error(f"must be key=value:Effect or key:Effect, got {text!r}")
        return Taint(key=key, value=written, effect=effect)
    with value.section() as section:
        return Taint(key=section.need("key").text(), value=section.text("value"), effect=section.need("effect").text())


def node(
    name: str,
    cpu: str,
    memory: str,
    gpus: int = 0,
    *,
    pods: int = _PODS,
    labels: dict[str, str] | None = None,
    taints: Sequence[Taint] = (),
    model: str = "",
) -> NodeObject:
    """A node as the embedded cluster has it."""
    offered: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, "pods": pods}
    if gpus:
        offered[GPU] = gpus
    marks = {keys.HOSTNAME: name, **({MODEL_LABEL: model} if model else {}), **(labels or {})}
    return NodeObject(
        metadata=Metadata(name=name, uid=name, labels=marks),
        spec=NodeSpec(taints=tuple(taints) or None),
        status=NodeStatus(allocatable=offered, capacity=offered),
    )


def read_queues(value: Value) -> list[QueueObject]:
    """Queues: a list of mappings with ``name`` and the fields of a Queue's spec."""
    queues = []
    for item in value.items():
        with item.section() as section:
            name = section.need("name").text()
            for field in QueueSpec.__struct_encode_fields__:
                section.get(field)
            data = {key: entry.plain() for key, entry in item.pairs() if key != "name"}
            try:
                spec = msgspec.convert({"weight": 1, "reclaimable": True, **data}, QueueSpec)
            except msgspec.ValidationError as exc:
                raise item.error(f"queue {name!r}: {decoder_words(exc)}") from exc
        queues.append(QueueObject(metadata=Metadata(name=name, uid=name), spec=spec, status=QueueStatus(state="Open")))
    return queues


# -- workload -------------------------------------------------------------------------------------------------------
def read_generator(value: Value) -> Generator:
    """A stream of jobs."""
    with value.section() as s:
        name = s.need("name").text()
        least = s.get("minAvailable")
        fraction = s.number("gpuFraction", 1.0)
        if not 0 < fraction <= 1:
            raise value.error(f"gpuFraction must be above 0 and at most 1, got {fraction:g}")
        pods, gpu = s.get("pods"), s.get("gpu")
        return Generator(
            name=name,
            arrivals=_arrivals(s.need("arrivals")),
            duration=_draw(s.need("duration"), lambda v: v.duration(above=True)),
            pods=Constant(1) if pods is None else _draw(pods, lambda v: v.number(1, most=MOST)),
            min_available=None if least is None else least.integer(1),
            gpu=Constant(0) if gpu is None else _draw(gpu, lambda v: v.number(most=_MOST_GPUS)),
            gpu_fraction=fraction,
            cpu_milli=s.milli("cpu"),
            memory_bytes=s.units("memory"),
            cpu_milli_per_gpu=s.milli("cpuPerGpu"),
            memory_bytes_per_gpu=s.units("memoryPerGpu"),
            gpu_models=tuple(s.texts("gpuModels")),
            queue=s.text("queue", "default"),
            users=s.integer("users", 0),
            priority=s.integer("priority", 0, -(2**31), 2**31 - 1),
            declared=s.number("declared", 0.0),
            speed=read_speed(s.get("speed")),
            origin=f"{value.source}:{value.line}",
        )


def read_speed(value: Value | None) -> SpeedTable | None:
    """How fast jobs work by what they got."""
    if value is None:
        return None
    with value.section() as s:
        pods, models, nodes = s.get("pods"), s.get("models"), s.get("nodes")
        linear = pods is not None and not pods.is_section and pods.one_of(("linear",)) == "linear"
        return SpeedTable(
            LINEAR if linear else _curve(pods),
            {} if models is None else {name: speed.number(above=True) for name, speed in models.pairs()},
            _curve(nodes),
        )


def _curve(value: Value | None) -> Curve:
    """Values above 0 by count, in the order of the counts."""
    if value is None:
        return ()
    found = {value.key(count).integer(1): speed.number(above=True) for count, speed in value.pairs()}
    if not found:
        raise value.error("needs at least one count with its speed")
    return tuple(sorted(found.items()))


def _arrivals(value: Value) -> Arrivals:
    with value.section() as s:
        daily = s.get("daily")
        count = s.get("count")
        weights = tuple(item.number() for item in daily.items()) if daily is not None else ()
        if daily is not None and not any(weights):
            raise daily.error("at least one weight must be above 0")
        arrivals = Arrivals(
            every_s=s.need("every").duration(above=True),
            process=found.one_of(("poisson", "regular")) if (found := s.get("process")) else "poisson",
            start_s=s.duration("from", 0.0),
            until_s=s.duration("until", math.inf),
            count=None if count is None else count.integer(0),
            daily=weights,
            batch=s.integer("batch", 1, 1),
        )
    if arrivals.count is None and not math.isfinite(arrivals.until_s):
        raise value.error("needs until or count, or jobs would arrive for ever")
    return arrivals


def _draw(value: Value, one: Callable[[Value], float]) -> Draw:
    """A number, or a distribution of numbers."""
    if not value.is_section:
        return Constant(one(value))
    pairs = value.pairs()
    if len(pairs) != 1:
        raise value.error(f"must have one key: {_DRAWS}")
    kind, given = pairs[0]
    match kind:
        case "choice":
            weights = {one(given.key(k)): v.number() for k, v in given.pairs()}
            if not any(weights.values()):
                raise given.error("at least one weight must be above 0")
            return WeightedChoice(tuple(weights), tuple(weights.values()))
        case "uniform":
            ends = [one(item) for item in given.items()]
            if len(ends) != 2 or ends[0] > ends[1]:
                raise given.error("must be two numbers, the lower first")
            return Uniform(*ends)
        case "exponential":
            return Exponential(one(given))
        case "lognormal":
            with given.section() as s:
                median, p90 = one(s.need("median")), one(s.need("p90"))
            if not 0 < median <= p90:
                raise given.error(f"median must be above 0 and at most p90, got {median:g} and {p90:g}")
            return Lognormal(median, p90)
        case "weibull":
            return Weibull(*_shaped(given, "scale", one))
        case "gamma":
            return Gamma(*_shaped(given, "mean", one))
        case "pareto":
            return Pareto(*_shaped(given, "least", one))
        case "empirical":
            values = sorted(one(item) for item in given.items())
            if not values:
                raise given.error("needs at least one value")
            return Empirical(tuple(values))
    raise value.error(f"must have one key: {_DRAWS}, got {kind!r}")


_DRAWS = "choice, uniform, exponential, lognormal, weibull, gamma, pareto or empirical"


def _shaped(value: Value, size: str, one: Callable[[Value], float]) -> tuple[float, float]:
    """A size above 0, which has the quantity's unit, and a shape."""
    with value.section() as s:
        found, shape = one(s.need(size)), s.need("shape").number(above=True)
    if not found > 0:
        raise value.error(f"{size} must be above 0, got {found:g}")
    return found, shape


def read_trace(value: Value, find: Callable[[Value], Path]) -> TracePart:
    """A trace, and how its jobs are submitted; *find* says where a file is."""
    with value.section() as s:
        path = find(s.need("file"))
        known = found.one_of(FORMATS) if (found := s.get("format")) else None
        window = s.get("window")
        ends = [item.duration() for item in window.items()] if window is not None else []
        if window is not None and len(ends) != 2:
            raise window.error("must be two times, the start and the end")
        limit = s.get("limit")
        estimates = found.one_of(("trace", "exact", "none")) if (found := s.get("estimates")) else "trace"
        options = s.get("options")
        trace = read(
            path,
            known,  # type: ignore[arg-type]
            window=(ends[0], ends[1]) if ends else None,
            sample=s.number("sample", 1.0),
            limit=None if limit is None else limit.integer(),
            compress=s.number("compress", 1.0),
            rebase=s.boolean("rebase", False),
            estimates=estimates,  # type: ignore[arg-type]
            options=None if options is None else _options(options, known or recognise(path)),
        )
        queues = found.one_of(("create", "declared")) if (found := s.get("queues")) else "create"
        shake = s.get("shake")
        return TracePart(
            trace,
            merge=s.boolean("onePod", False),
            queue=s.text("queue"),
            create_queues=queues == "create",
            shake=Shake() if shake is None else _shake(shake),
            speed=read_speed(s.get("speed")),
        )


def _shake(value: Value) -> Shake:
    with value.section() as s:
        drop = s.number("drop", Shake().drop)
        if drop >= 1:
            raise value.error(f"drop must be a part of all jobs, from 0 to below 1, got {drop:g}")
        return Shake(s.duration("jitter", Shake().jitter_s), drop, s.duration("blocks", 0.0))


def _options(value: Value, kind: str) -> Any:
    cls = _OPTIONS.get(kind)
    if cls is None:
        raise value.error(f"the format {kind} has no options")
    names = {_camel(name): name for name in cls.__dataclass_fields__}
    given: dict[str, Any] = {}
    with value.section() as s:
        for camel, name in names.items():
            found = s.get(camel)
            if found is not None:
                given[name] = found.plain()
    return cls(**given)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


# -- faults ---------------------------------------------------------------------------------------------------------
def read_faults(value: Value | None, nodes: Sequence[NodeObject]) -> Faults:
    """Faults: planned by time, and drawn from the seed."""
    if value is None:
        return Faults()
    names = {n.metadata.name for n in nodes}
    with value.section() as s:
        planned = s.get("planned")
        listed = tuple(_planned(item, names) for item in planned.items()) if planned is not None else ()
        every = repair = pods = 0.0
        drawn = s.get("nodes")
        if drawn is not None:
            with drawn.section() as part:
                every, repair = part.need("every").duration(above=True), part.duration("repair", 3600.0)
        failing = s.get("pods")
        if failing is not None:
            with failing.section() as part:
                pods = part.need("every").duration(above=True)
    return Faults(listed, every, repair or 3600.0, pods)


def _planned(value: Value, names: set[str]) -> PlannedFault:
    kinds: tuple[FaultKind, ...] = ("fail", "drain", "cordon", "return", "join", "evict")
    with value.section() as s:
        at = s.need("at").duration()
        length = s.duration("for", math.inf)
        what: FaultKind | None = None
        affected: list[str] = []
        objects: list[NodeObject] = []
        losses: list[tuple[str, int]] = []
        for kind in kinds:
            found = s.get(kind)
            if found is None:
                continue
            if what is not None:
                raise value.error(f"must have one of {', '.join(kinds)}, has {what} and {kind}")
            what = kind
            if kind == "join":
                objects = read_nodes_of(found, lambda file: Path(file.text()))
                names |= {obj.metadata.name for obj in objects}
            elif kind == "evict":
                losses = [(job if "/" in job else f"default/{job}", pods.integer(1)) for job, pods in found.pairs()]
            else:
                affected = found.texts()
                unknown = next((n for n in affected if n not in names), None)
                if unknown is not None:
                    raise found.error(f"node {unknown!r} is not in the cluster")
        if what is None:
            raise value.error(f"must have one of {', '.join(kinds)}")
    return PlannedFault(at, what, tuple(affected), length, tuple(objects), tuple(losses))
