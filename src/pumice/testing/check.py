"""check_plugin: whether a policy keeps the rules on which the scheduler relies."""

from __future__ import annotations

import itertools
import pickle
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from pumice.config.kai import DEFAULT_PLUGINS as PLUGINS_OF_KAI
from pumice.engine.rows import ImaginedNode, NodeRows
from pumice.engine.scope import Scope
from pumice.errors import PumiceError
from pumice.framework.arguments import Arguments
from pumice.framework.loading import check_class
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Callback, where
from pumice.framework.points.table import POINTS
from pumice.framework.registry import default_registry
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.reason import Unfit, reason_of
from pumice.model.task import Task
from pumice.testing.builders import job, node, pod, queue
from pumice.testing.scenario import Scenario
from pumice.testing.world import Given, session

Answers: TypeAlias = Mapping[str, Any]
"""Node -> what a callback says about it."""
_AMONG_NODES: Final = ("predicate", "batch_predicate", "node_order", "batch_node_order")
_BATCH: Final = ("batch_predicate", "batch_node_order")
_ORDERS: Final = ("job_order", "task_order", "queue_order", "sub_job_order")
_ACTIONS: Final = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle")
_EXTRA: Final = 2
"""How many more tasks of its kind a node is imagined to hold."""
_LATER: Final = 3600.0


def check_plugin(
    plugin: type[Plugin], arguments: Mapping[str, Any] | None = None, objects: Sequence[Given] = ()
) -> None:
    """Check that a policy keeps the rules on which the scheduler relies.

    - it can be built, registers what fits its points, and fails nowhere on a varied cluster;
    - it gives the same answers again, and its orders contradict nothing;
    - it changes nothing that it is given;
    - its `scope` is true: nothing changes when only what the scope excludes changes;
    - its `key` is true: tasks of equal keys get equal answers;
    - it decides by Volcano's actions and by KAI's (``dialect: kai``);
    - it can be pickled, as the worker processes of the simulator need it.

    *objects*: nodes, queues, jobs and pods that have what the policy looks at, beside those of the check.

    :raises AssertionError: a rule is broken; it names every one that is.
    """
    given = arguments or {}
    found = dict.fromkeys(_problems(plugin, given, objects))
    assert not found, f"{plugin.__name__}: " + "; ".join(found)


def _problems(plugin: type[Plugin], arguments: Mapping[str, Any], objects: Sequence[Given]) -> Iterator[str]:
    try:
        check_class(plugin)
        built = plugin(Arguments(arguments))
    except Exception as exc:
        yield f"cannot be built: {_words(exc)}"
        return
    yield from _pickle_problems(built)
    try:
        check = _Check(plugin, arguments, objects)
    except Exception as exc:
        yield f"on_session_open raises {_words(exc)}"
        return
    yield from check.problems()
    for dialect in ("volcano", "kai"):
        yield from _cycle_problems(plugin, arguments, objects, dialect)


def _pickle_problems(built: Plugin) -> Iterator[str]:
    try:
        again = pickle.loads(pickle.dumps(built))
    except Exception as exc:
        yield f"cannot be pickled: {_words(exc)}"
        return
    if type(again) is not type(built):
        yield f"comes out of a pickle as {type(again).__name__}"


# -- the cluster ----------------------------------------------------------------------------------------------------
def _nodes() -> list[Given]:
    marks = {"zone": "a", "disk": "fast", "rack": "r1", "kubernetes.io/hostname": "n0"}
    return [
        node("n0", cpu=8, labels=marks),
        node("n1", cpu=8, gpu=4, labels={"zone": "b", "rack": "r2"}, annotations={"owner": "research"}),
        node("n2", cpu=4, memory="8Gi", gpu=2, taints=["dedicated=gpu:PreferNoSchedule"]),
        node("n3", cpu=16, labels={"zone": "b"}, unschedulable=True),
        node("n4", cpu=2, pods=5),
        node("n5", cpu=8, gpu=8, labels={"zone": "a"}),
    ]


def _work() -> list[Given]:
    notes = {"team": "red"}
    return [
        queue("research", weight=3, capability={"cpu": 64}),
        *job("plain", tasks=3, cpu=1),
        *job("gpus", tasks=2, min_available=2, gpu=1, queue="research", priority=10, annotations=notes),
        *job("large", tasks=2, cpu=6, memory="4Gi", labels=notes, task_labels=notes),
        *job("twin", tasks=2, cpu=1, priority=3, queue="research"),
    ]


def _running(names: Sequence[str], kind: str) -> list[Given]:
    """Two pods of the same kind as those of the job `plain` on each node."""
    return [pod(f"{kind}-{name}-{n}", cpu=1, on=name) for name in names for n in range(_EXTRA)]


class _Check:
    """A plugin asked by hand in clusters that differ in one thing."""

    def __init__(self, plugin: type[Plugin], arguments: Mapping[str, Any], objects: Sequence[Given]) -> None:
        self._plugin, self._arguments, self._objects = plugin, arguments, list(objects)
        self._base = self._open()
        names = list(self._base.nodes)
        self._busy, self._quiet = names[::2], names[1::2]

    def _open(self, *more: Given, now: float = 0.0) -> Session:
        ssn = session(*_nodes(), *_work(), *self._objects, *more, now=now)
        ssn.open_plugin(self._plugin(Arguments(self._arguments)), self._plugin.name)
        failed = [str(error) for error in ssn.errors]
        if failed:
            raise PumiceError("; ".join(failed))
        return ssn

    def problems(self) -> Iterator[str]:
        """The problems of the callbacks, in words."""
        before = _fingerprint(self._base)
        busy = self._open(*_running(self._busy, "busy"), *job("more", tasks=2, cpu=1), queue("new"), now=_LATER)
        worlds = (self._base, self._open(), busy)
        for point in _AMONG_NODES:
            for callbacks in zip(*(ssn.callbacks(POINTS[point]) for ssn in worlds), strict=True):
                yield from self._among_nodes(point, callbacks, worlds)
        for point in _ORDERS:
            for callback in self._base.callbacks(POINTS[point]):
                if not callback.sort_key:
                    yield from _order_problems(point, callback, _ordered(self._base, point))
        if _fingerprint(self._base) != before:
            yield "changes what it is given"

    def _among_nodes(self, point: str, callbacks: Sequence[Callback], worlds: Sequence[Session]) -> Iterator[str]:
        first, again, busy = callbacks
        at = f"{point} ({where(first.fn)})"
        by_key: dict[Hashable, tuple[str, Answers]] = {}
        for uid, task in self._base.state.tasks.items():
            if task.node is not None:
                continue
            try:
                said = _ask(point, first, task, self._base)
                repeated = [_ask(point, first, task, self._base), self._elsewhere(point, again, uid, worlds[1])]
                crowded = self._elsewhere(point, busy, uid, worlds[2])
                key = _key(first, task)
            except Exception as exc:
                yield f"{at} raises {_words(exc)} for {task.key}"
                return
            for other in repeated:
                yield from _difference(said, other, said, f"{at} is not deterministic: {task.key}")
            if first.scope is Scope.STATIC:
                text = f"{at} has scope STATIC, and its answer changed with what is placed: {task.key}"
                yield from _difference(said, crowded, said, text)
            elif first.scope is Scope.NODE:
                text = f"{at} has scope NODE, and its answer changed with what is placed on other nodes: {task.key}"
                yield from _difference(said, crowded, self._quiet, text)
                yield from self._imagined(point, first, task, at)
            if first.scope is Scope.SESSION and first.key is None:
                continue  # asked for every task
            known, answers = by_key.setdefault((task.klass.id, key), (task.key, said))
            yield from _difference(answers, said, said, f"{at} says of {known} and of {task.key}, which have one key,")

    def _elsewhere(self, point: str, callback: Callback, uid: str, ssn: Session) -> Answers:
        return _ask(point, callback, ssn.state.tasks[uid], ssn)

    def _imagined(self, point: str, callback: Callback, task: Task, at: str) -> Iterator[str]:
        """A node with more tasks in mind is answered as one with these tasks on it."""
        if task.name != "plain-0":
            return
        ssn = self._open(*_running(self._busy, "real"))
        [real] = ssn.callbacks(POINTS[point])[:1]
        try:
            said = _ask(point, callback, task, self._base, extra=_EXTRA)
            truth = _ask(point, real, ssn.state.tasks[task.uid], ssn)
        except Exception as exc:
            yield f"{at} raises {_words(exc)} for a node as it would be"
            return
        text = f"{at} has scope NODE, and of a node as it would be with more tasks it says other than of such a node:"
        yield from _difference(truth, said, self._busy, f"{text} {task.key}")


def _key(callback: Callback, task: Task) -> Hashable:
    """The difference between tasks of one class: the key, or the job without one."""
    if callback.key is None:
        return task.job.uid if task.job is not None else task.uid
    key: Hashable = callback.key(task)
    return key


def _ask(point: str, callback: Callback, task: Task, ssn: Session, *, extra: int = 0) -> Answers:
    nodes = list(ssn.nodes.values())
    if point in _BATCH:
        return _ask_batch(point, callback, task, ssn, nodes, extra)
    shown: list[Node] = [ImaginedNode(found, task, extra) for found in nodes] if extra else nodes
    return {found.name: _one(callback, task, found) for found in shown}


def _one(callback: Callback, task: Task, found: Node) -> Any:
    try:
        return callback.fn(task, found)
    except Unfit as no:
        return f"unfit: {no.text}"


def _ask_batch(point: str, callback: Callback, task: Task, ssn: Session, nodes: Sequence[Node], extra: int) -> Answers:
    index = np.array([found.row for found in nodes])
    more = np.full(len(nodes), extra) if extra else None
    rows = NodeRows(ssn.state.table, index, more, task.klass if extra else None)
    try:
        said = callback.fn(task, rows)
    except Unfit as no:
        return {found.name: f"unfit: {no.text}" for found in nodes}
    values = np.zeros(len(nodes)) if said is None else np.asarray(said)
    if values.shape != (len(nodes),):
        raise TypeError(f"one answer per row: {len(nodes)} rows, shape {values.shape}")
    if point == "batch_predicate" and values.dtype != np.bool_:
        return {found.name: reason_of(int(value)).text for found, value in zip(nodes, values, strict=True)}
    return {found.name: value.item() for found, value in zip(nodes, values, strict=True)}


def _difference(one: Answers, other: Answers, names: Any, text: str) -> Iterator[str]:
    """The first node of which two answers differ."""
    for name in names:
        if one[name] != other[name]:
            yield f"{text} on {name} {one[name]!r} and {other[name]!r}"
            return


# -- orders ---------------------------------------------------------------------------------------------------------
def _ordered(ssn: Session, point: str) -> list[Any]:
    if point == "queue_order":
        return list(ssn.queues.values())
    if point == "job_order":
        return list(ssn.jobs.values())
    if point == "sub_job_order":
        return [found.whole() for found in ssn.jobs.values()]
    return [task for found in ssn.jobs.values() for task in found.tasks.values()]


def _order_problems(point: str, callback: Callback, things: Sequence[Any]) -> Iterator[str]:
    at = f"{point} ({where(callback.fn)})"
    first: Callable[[Any, Any], Any] = callback.fn
    try:
        below = {(a, b): first(things[a], things[b]) for a in range(len(things)) for b in range(len(things))}
    except Exception as exc:
        yield f"{at} raises {_words(exc)}"
        return
    for a, b in itertools.combinations_with_replacement(range(len(things)), 2):
        if (below[a, b] > 0) - (below[a, b] < 0) != (below[b, a] < 0) - (below[b, a] > 0):
            yield f"{at} is no order: {things[a]!r} and {things[b]!r}: {below[a, b]}, the other way {below[b, a]}"
            return
    for a, b, c in itertools.permutations(range(len(things)), 3):
        if below[a, b] < 0 and below[b, c] < 0 and not below[a, c] < 0:
            named = f"{things[a]!r} is before {things[b]!r}, that before {things[c]!r}"
            yield f"{at} is no order: {named}, but not the first"
            return


# -- cycles ---------------------------------------------------------------------------------------------------------
def _cycle_problems(
    plugin: type[Plugin], arguments: Mapping[str, Any], objects: Sequence[Given], dialect: str
) -> Iterator[str]:
    """The failures when the real scheduler asks it."""
    decided = []
    for _ in range(2):
        scenario = Scenario(*_nodes(), *_work(), *_running(["n0", "n1"], "old"), *objects)
        try:
            _run(scenario, plugin, arguments, dialect)
        except Exception as exc:
            yield f"dialect {dialect}: {_words(exc)}"
            return
        for done in scenario.cycles:
            yield from (f"dialect {dialect}: {error}" for error in done.errors)
        try:
            scenario.assert_invariants()
        except AssertionError as exc:
            yield f"dialect {dialect}: {exc}"
        decided.append([str(intent) for done in scenario.cycles for intent in done.intents])
    if decided[0] != decided[1]:
        yield f"dialect {dialect}: the same cluster is decided otherwise a second time"


def _run(scenario: Scenario, plugin: type[Plugin], arguments: Mapping[str, Any], dialect: str) -> None:
    entry = {"name": plugin, "arguments": dict(arguments)} if arguments else {"name": plugin}
    if dialect == "kai":
        known = default_registry().plugins
        tiers = [{"plugins": [*({"name": name} for name in PLUGINS_OF_KAI if f"kai/{name}" in known), entry]}]
        scenario.run(conf={"dialect": "kai", "tiers": tiers})
    else:
        tiers = [
            {"plugins": [{"name": "priority"}, {"name": "gang"}]},
            {"plugins": [{"name": "predicates"}, {"name": "proportion"}, entry]},
        ]
        scenario.run(conf={"actions": ", ".join(_ACTIONS), "tiers": tiers})
    scenario.add(*job("late", tasks=2, cpu=1, priority=20)).advance(_LATER)
    scenario.run(2)


def _fingerprint(ssn: Session) -> Hashable:
    """Everything that a plugin could change."""
    state = ssn.state
    tasks = tuple((t.uid, t.status, t.node_name, t.priority, tuple(t.labels.items())) for t in state.tasks.values())
    jobs = tuple((j.uid, j.queue, j.priority, j.min_available, j.version) for j in ssn.jobs.values())
    return tasks, jobs, tuple(ssn.queues), state.table.block.tobytes()


def _words(exc: BaseException) -> str:
    """An exception with the line that it comes from."""
    frames = traceback.extract_tb(exc.__traceback__)
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(exc).__name__}: {exc}{at}"
