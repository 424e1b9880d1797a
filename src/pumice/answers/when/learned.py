"""The knowledge of the past: read from a folder, and collected from a running scheduler."""

from __future__ import annotations

import logging
import math
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from pumice.answers.when.calibration import Calibration, StartRange
from pumice.answers.when.forward import Amounts, Arrival, Holder, Lane, Place, Pods, PodShape, Scene, Waiter, forecast
from pumice.answers.when.run_times import Kind, Run, RunTimes
from pumice.errors import InvalidInput
from pumice.history import lines
from pumice.history.files import Read
from pumice.history.lines import Begins, Conf, JobLine, Line, Over, PodsLeft, PodsPlaced
from pumice.model.resources import CPU, MEMORY, Resources, dim
from pumice.model.task import GPU_RESOURCES

DRAWS = 3
"""Plays of which the median is taken: their own spread says nothing, as hundreds of draws average out in each."""


LATELY, ENOUGH_CAME = 500, 20
"""Submissions that are remembered to know who will come, and how few are too few."""


class StartForecast(NamedTuple):
    """A prediction that was made, to see how it comes out."""

    job: str
    now: float
    said: float
    range: StartRange | None
    place: int
    """Among all that waited, by priority and age."""


@dataclass(slots=True, eq=False)
class PastJob:
    """A job that waits or runs."""

    job: str
    kind: Kind
    pods: Pods
    """The pods that it needs to start."""
    submitted: float
    rank: float = 0.0
    """The order of jobs: the lower, then the older."""
    declared: float = math.inf
    since: float | None = None
    """When it got its places; None while it waits."""
    places: Sequence[Place] = ()
    run: Run | None = None
    number: int = 0


@dataclass(slots=True)
class Past:
    """Follows the jobs of a cluster, and knows at each moment what was known then.

    A job that comes, and still waits when everything of that instant has happened, is predicted if *wants* says so.
    """

    wants: Callable[[PastJob], bool]
    told: Callable[[StartForecast], None] | None = None
    room: Mapping[str, Amounts] = field(default_factory=dict)
    """The amounts of each node that takes pods."""
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    times: RunTimes = field(default_factory=RunTimes)
    calibration: Calibration = field(default_factory=Calibration)
    now: float = -math.inf
    _jobs: dict[str, PastJob] = field(default_factory=dict)
    _waiting: list[tuple[float, float, int, PastJob]] = field(default_factory=list)
    _running: dict[str, PastJob] = field(default_factory=dict)
    _fresh: list[PastJob] = field(default_factory=list)
    _count: int = 0
    _came: deque[tuple[float, Kind, Pods]] = field(default_factory=lambda: deque(maxlen=LATELY))

    def coming(self) -> list[Arrival]:
        """Recent arrivals, with the time since the first of them; empty if there are too few."""
        if len(self._came) < ENOUGH_CAME:
            return []
        first = self._came[0][0]
        return [Arrival(at - first, kind, pods) for at, kind, pods in self._came]

    def advance(self, at: float) -> None:
        """Everything before this time has happened."""
        if at <= self.now:
            return
        fresh, self._fresh = self._fresh, []
        for job in fresh:
            if job.since is None and self._jobs.get(job.job) is job and self.wants(job):
                self._predict(job)
        self.now = at

    def came(self, job: PastJob) -> None:
        """A job is there, and waits."""
        self._count += 1
        job.number = self._count
        self._jobs[job.job] = job
        self._wait(job)
        self._fresh.append(job)
        self._came.append((self.now, job.kind, job.pods))

    def began(self, name: str, places: Sequence[Place], *, known: bool = True) -> None:
        """A job has its places; *known*: since just now."""
        job = self._jobs[name]
        self._wait_no_more(job)
        job.since, job.places = self.now, places
        job.run = self.times.began(job.kind, job.submitted, self.now) if known else None
        self._running[name] = job
        self.calibration.started(name, self.now)

    def interrupted(self, name: str) -> None:
        """A job lost its places, and waits again."""
        job = self._running.pop(name)
        if job.run is not None:
            self.times.dropped(job.run)
        job.since, job.run, job.places = None, None, ()
        self._wait(job)

    def ended(self, name: str) -> None:
        """A job is over, whether it ran or not."""
        job = self._jobs.pop(name)
        if job.since is None:
            self._wait_no_more(job)
            self.calibration.gone(name)
            return
        del self._running[name]
        if job.run is not None:
            self.times.ended(job.run, self.now)

    def knows(self, name: str) -> PastJob | None:
        """A job that waits or runs."""
        return self._jobs.get(name)

    def names(self) -> list[str]:
        """All of them."""
        return list(self._jobs)

    def scene(self) -> Scene:
        """Running jobs, pending jobs, and free amounts."""
        holders = [
            Holder(j.kind, j.places, j.since or 0.0, j.declared, j.submitted, j.job) for j in self._running.values()
        ]
        queue = [Waiter(j.job, j.kind, j.pods, j.declared, j.submitted) for _, _, _, j in self._waiting]
        free = dict(self.room)
        for job in self._running.values():
            for node, held in job.places:
                if node in free:
                    free[node] = tuple(map(sub, free[node], held))
        return Scene(self.now, free, holders, queue, self.lanes, coming=self.coming())

    def _predict(self, job: PastJob) -> None:
        said = forecast(self.scene(), self.times, draws=DRAWS, seed=job.number, last=job.job)[job.job]
        if not math.isfinite(said):
            return
        given = self.calibration.predicted(job.job, job.kind.queue, self.now, said)
        if self.told is not None:
            place = bisect_left(self._waiting, self._turn(job)) + 1
            self.told(StartForecast(job.job, self.now, said, given, place))

    def _turn(self, job: PastJob) -> tuple[float, float, int]:
        return job.rank, job.submitted, job.number

    def _wait(self, job: PastJob) -> None:
        insort(self._waiting, (*self._turn(job), job))

    def _wait_no_more(self, job: PastJob) -> None:
        del self._waiting[bisect_left(self._waiting, self._turn(job))]


def size_of(asks: Amounts) -> int:
    """The size class of what a job asks for: GPUs up to 16; of others, below zero, CPUs by powers of two."""
    cpu, _, gpus = asks
    return min(-(-gpus // 1000), 16) if gpus else -max(cpu // 1000, 1).bit_length()


SHARING = frozenset({"proportion", "capacity"})
"""Plugins under which the queue goes first that has least of its part."""
_STOPPED = ("evicted", "deleted", "node", "unbound")


class Listener:
    """Tells a `Past` what lines say."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._nodes: dict[str, Amounts] = {}
        self._models: dict[str, str] = {}
        self._only: dict[tuple[str, ...], frozenset[str]] = {}
        """Models of GPUs -> the nodes that have them."""
        self._queues: dict[str, dict[str, Any]] = {}
        self._holds: dict[str, dict[str, str]] = {}
        """Job -> its pods that have a place, and where."""
        self._lines: dict[str, JobLine] = {}
        self._stopped: set[str] = set()
        """Jobs that lost pods at this instant, perhaps because they are over."""
        self._shares = False
        self._stale = False
        """Nodes or queues are not as they were."""
        self._unseen: set[str] | None = None
        """Jobs that a new file has not named yet."""

    def hear(self, line: Line) -> None:
        """Something happened."""
        past = self._past
        if line.at > past.now:
            if self._unseen:
                self._close_unseen()
            self._unseen = None
            self._interrupt()
            if self._stale:
                self._weigh()
            past.advance(line.at)
        match line:
            case Begins():
                self._unseen = set(past.names())
            case Conf():
                self._shares = bool(SHARING & set(_plugins(line.data)))
                self._stale = True
            case lines.NodeLine():
                size = (line.cpu, line.memory, line.gpus * 1000)
                self._nodes.pop(line.name, None)
                if not line.closed:
                    self._nodes[line.name] = size
                self._models[line.name] = line.model
                self._measure()
            case lines.NodeGone():
                self._nodes.pop(line.name, None)
                self._models.pop(line.name, None)
                self._measure()
            case lines.QueueLine():
                self._queues[line.name] = line.spec
                self._stale = True
            case lines.QueueGone():
                self._queues.pop(line.name, None)
                self._stale = True
            case JobLine():
                self._job(line)
            case PodsPlaced() if line.job in self._lines:
                self._placed(line)
            case PodsLeft() if line.job in self._lines:
                self._left(line)
            case Over() if line.job in self._lines:
                self._over(line.job)
            case _:
                pass

    # -- jobs -------------------------------------------------------------------------------------------------------
    def _job(self, line: JobLine) -> None:
        known = self._lines.get(line.job)
        if self._unseen:
            self._unseen.discard(line.job)
        if known is not None and known.created != line.created:
            self._over(line.job)
            known = None
        self._lines[line.job] = line
        if known is None:
            self._holds[line.job] = {}
            came = min(line.created or line.at, line.at)
            declared = line.declared or math.inf
            kind = Kind(line.queue, size_of(_asks(line.pods)))
            self._past.came(PastJob(line.job, kind, self._needed(line), came, -line.priority, declared))
        elif (job := self._past.knows(line.job)) is not None:
            job.pods = self._needed(line)

    def _needed(self, line: JobLine) -> Pods:
        """The pods that it needs to start."""
        left, needed = _needs(line), []
        for pods in line.pods:
            count = min(pods.count, left)
            left -= count
            if count:
                each = (pods.cpu, pods.memory, pods.gpus * pods.share)
                needed.append((count, PodShape(each, self._nodes_with(pods.models))))
        return tuple(needed) or ((1, PodShape((0, 0, 0))),)

    def _nodes_with(self, models: tuple[str, ...]) -> frozenset[str] | None:
        if not models:
            return None
        if models not in self._only:
            self._only[models] = frozenset(node for node, model in self._models.items() if model in models)
        return self._only[models]

    def _placed(self, line: PodsPlaced) -> None:
        holds = self._holds[line.job]
        holds.update(line.pods)
        job = self._past.knows(line.job)
        if job is not None and job.since is None and len(holds) >= _needs(self._lines[line.job]):
            self._past.began(line.job, self._places(line.job), known=not line.found)
        elif job is not None and job.since is not None:
            job.places = self._places(line.job)

    def _places(self, name: str) -> list[Place]:
        """The nodes of a job's pods; pods of several shapes count as equal, because the history does not tell them
        apart."""
        pods = self._lines[name].pods
        many = max(sum(p.count for p in pods), 1)
        each = tuple(amount // many for amount in _asks(pods))
        return [(node, each) for node in self._holds[name].values()]

    def _left(self, line: PodsLeft) -> None:
        for pod in line.pods:
            self._holds[line.job].pop(pod, None)
        if line.how in _STOPPED:
            self._stopped.add(line.job)

    def _interrupt(self) -> None:
        """Jobs that lost pods they need, and are not over: they wait again."""
        for name in self._stopped:
            job = self._past.knows(name)
            if job is not None and job.since is not None and len(self._holds[name]) < _needs(self._lines[name]):
                self._past.interrupted(name)
        self._stopped.clear()

    def _over(self, name: str) -> None:
        del self._lines[name], self._holds[name]
        if self._past.knows(name) is not None:
            self._past.ended(name)

    def _close_unseen(self) -> None:
        """An object that a new file does not name ended at an unknown time while no history was written."""
        for name in self._unseen or ():
            job = self._past.knows(name)
            if job is not None and job.since is not None:
                self._past.interrupted(name)
            if name in self._lines:
                self._over(name)

    # -- room -------------------------------------------------------------------------------------------------------
    def _measure(self) -> None:
        self._only.clear()
        self._stale = True

    def _weigh(self) -> None:
        self._stale = False
        self._past.room = self._nodes
        room: Amounts = tuple(map(sum, zip(*self._nodes.values(), strict=True))) or (0, 0, 0)
        found = {name: lane_of(spec, room, self._shares) for name, spec in self._queues.items()}
        self._past.lanes = {name: lane for name, lane in found.items() if lane != Lane()}


def lane_of(spec: dict[str, Any], room: Amounts, shares: bool) -> Lane:
    """The share of a queue by its object: parts by weight, unless it sets a deserved amount."""
    deserved = None
    if shares:
        written = spec.get("deserved")
        weight = spec.get("weight") or 1
        deserved = amounts_of(written, room) if written else tuple(has * weight for has in room)
    most = spec.get("capability")
    return Lane(deserved, amounts_of(most, (2**62,) * 3) if most else None)


def amounts_of(written: dict[str, Any], others: Amounts) -> Amounts:
    """Amounts of a manifest; *others* where it names none."""
    found = Resources.parse(written)
    gpus = [name for name in GPU_RESOURCES if name in written]
    return (
        int(found.get(CPU)) if "cpu" in written else others[0],
        int(found.get(MEMORY)) if "memory" in written else others[1],
        sum(int(found.get(dim(name))) for name in gpus) if gpus else others[2],
    )


def _asks(pods: tuple[lines.Pods, ...]) -> Amounts:
    return (
        sum(p.count * p.cpu for p in pods),
        sum(p.count * p.memory for p in pods),
        sum(p.count * p.gpus * p.share for p in pods),
    )


def _needs(line: JobLine) -> int:
    return min(max(line.minimum, 1), max(sum(p.count for p in line.pods), 1))


def _plugins(conf: dict[str, Any]) -> list[str]:
    """The names of the plugins of a configuration."""
    return [plugin.get("name", "") for tier in conf.get("tiers") or () for plugin in tier.get("plugins") or ()]


log = logging.getLogger("pumice.when")

TESTED = 400
"""Past submissions of a history that are predicted again, at most, to see how predictions come out."""
FILES = 8
"""The newest files of a history that are read; each tells at its beginning all that was there."""
EVERY = 60.0
"""Seconds between two submissions that a running scheduler predicts, at least."""


class Learned:
    """Run times and errors. The caller holds its lock."""

    def __init__(self, every: float = EVERY) -> None:
        self.lock = threading.Lock()
        self.every = every
        self._next = -1e18
        self.past = Past(self._wants)
        self._listener = Listener(self.past)

    def hear(self, lines: Iterable[Line]) -> None:
        """Something happened."""
        with self.lock:
            for line in lines:
                self._listener.hear(line)

    def _wants(self, job: PastJob) -> bool:
        """Whether the start of a job that came just now is predicted: one in a while."""
        if self.past.now < self._next:
            return False
        self._next = self.past.now + self.every
        return True


def learn(path: Path) -> Learned:
    """The content of a history.

    :raises InvalidInput: there is none.
    """
    learned = Learned()
    hear_history(Read(path), learned)
    return learned


def hear_history(read: Read, learned: Learned, part: int = 500) -> None:
    """Hear the newest files of a history; the lock is given back between parts.

    :raises InvalidInput: there is nothing in it.
    """
    read.files = read.files[-FILES:]
    lines = iter(read)
    begins = ends = next(lines).at
    for line in lines:
        ends = line.at
    learned.every = max((ends - begins) / TESTED, 1.0)
    some: list[Line] = []
    for line in read:
        some.append(line)
        if len(some) >= part:
            learned.hear(some)
            some = []
    learned.hear(some)
    learned.every = EVERY


class LearningWriter:
    """Takes the lines of a history in for forecasts, on a thread of its own."""

    def __init__(self, learned: Learned, read: Path | None = None) -> None:
        """*read*: what was written before, to begin with."""
        self._learned = learned
        self._read: Read | None = None
        try:
            self._read = Read(read) if read is not None else None
        except InvalidInput:
            log.info("when: nothing to learn from yet in %s", read)
        self._heard: SimpleQueue[list[Line] | None] = SimpleQueue()
        self._begun = False
        self._thread: threading.Thread | None = None

    @property
    def wants_another(self) -> bool:
        """Whether a new file should begin."""
        return not self._begun

    def another(self) -> None:
        """Begin another file."""
        self._begun = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="learning", daemon=True)
            self._thread.start()

    def write(self, lines: Iterable[Line]) -> None:
        """Pass lines to the learner."""
        self._heard.put(list(lines))

    def close_file(self) -> None:
        """End the file that is written to."""
        self._begun = False

    def close(self) -> None:
        """End, when all was heard."""
        if self._thread is not None:
            self._heard.put(None)
            self._thread.join()
            self._thread = None

    def _listen(self) -> None:
        if self._read is not None:
            try:
                hear_history(self._read, self._learned)
            except Exception:
                log.exception("when: the history could not be learned from; what happens from now on is")
        while (some := self._heard.get()) is not None:
            try:
                self._learned.hear(some)
            except Exception:
                log.exception("when: could not learn from what happened")
                return
