"""A session: both ways to register, KAI's forms, who is asked, what every point answers when asked by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

import pumice
from pumice import (
    SKIP,
    Arguments,
    Job,
    Node,
    NodeRows,
    Plugin,
    PluginLoadError,
    Scope,
    Session,
    Task,
    Unfit,
    Verdict,
    reject,
    scope,
)
from pumice.errors import UnknownName
from pumice.framework.points import POINTS
from pumice.framework.session.questions import PluginEntry
from pumice.testing import Scenario, cluster, job, node, queue, session, task_of


def world() -> Session:
    return session(
        cluster("2x8gpu"),
        queue("default"),
        queue("other"),
        job("a", tasks=2, gpu=1, priority=2),
        job("b", gpu=1, priority=1, queue="other"),
        job("r", on="node-0", gpu=1),
    )


def ask(ssn: Session, plugin: Plugin, name: str = "") -> tuple[Task, Node]:
    ssn.open_plugin(plugin, name)
    return task_of(ssn, "a-0"), ssn.nodes["node-0"]


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(pumice, name) is not None for name in pumice.__all__)
    assert set(pumice.__all__) <= set(dir(pumice))
    with pytest.raises(AttributeError, match="module 'pumice' has no attribute 'Nothing'"):
        _ = pumice.Nothing


def test_every_point_has_its_registration_method() -> None:
    ssn = world()
    for point in POINTS.values():
        parameters = ", ".join("abcd"[: point.arity[0]])
        getattr(ssn, point.register)("mine", eval(f"lambda {parameters}: None"))
        assert [c.plugin for tier in ssn.chain(point.name) for c in tier] == ["mine"]
    ssn.add_job_starving_fns("other", lambda job: True)
    ssn.add_victim_tasks_fns("other", lambda tasks: tasks)
    assert [c.plugin for c in ssn.chain("job_starving")[0]] == ["mine", "other"]


def test_a_registration_where_no_action_asks_is_a_warning() -> None:
    class Mine(Plugin):
        name = "mine"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_target_job_fn(self.name, lambda jobs: jobs[0])

    listed = PluginEntry("mine", lambda: Mine(Arguments()), lambda _: True, unasked=frozenset({"target_job"}))
    ssn = Session(world().state, tiers=[[listed]]).open()
    assert ssn.warnings == ["plugin 'mine' registers at target_job, which no action asks"]


class ByName(Plugin):
    """Methods named after points."""

    name = "by-name"

    @scope(Scope.STATIC, key=lambda task: task.role)
    def predicate(self, task: Task, node: Node) -> None:
        if node.name == "node-0":
            raise Unfit("not this one", unresolvable=True)

    def job_ready(self, job: Job) -> Any:
        return reject("not yet")


def test_a_method_named_after_a_point_is_registered_by_itself_with_its_scope() -> None:
    ssn = world()
    task, node_ = ask(ssn, ByName(Arguments()))
    with pytest.raises(Unfit, match="not this one") as caught:
        ssn.predicate(task, node_)
    assert caught.value.code.name == "UNRESOLVABLE"
    (callback,) = ssn.chain("predicate")[0]
    assert callback.scope is Scope.STATIC
    assert callback.key is not None
    assert ssn.job_ready(task.job).text == "not yet"
    assert ssn.job_ready(task.job).plugin == "by-name"


def test_kais_forms_are_told_apart_by_their_parameters() -> None:
    ssn = world()
    asked: list[tuple[Any, ...]] = []

    class Kai(Plugin):
        name = "kai"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_predicate_fn(self.with_job)
            ssn.add_pre_predicate_fn(lambda task, job: asked.append((task, job)))
            ssn.add_node_order_fn(self.score)

        def with_job(self, task: Task, job: Job, node: Node) -> None:
            asked.append((task, job, node))

        def score(self, task: Task, node: Node, bonus: float = 3.0) -> float:
            return bonus

    task, node_ = ask(ssn, Kai(Arguments()))
    ssn.predicate(task, node_)
    assert ssn.pre_predicate(task)
    assert ssn.node_order(task, node_) == 3.0
    assert asked == [(task, task.job, node_), (task, task.job)]
    assert {c.plugin for c in ssn.chain("predicate")[0]} == {"kai"}


def test_a_function_of_any_number_of_parameters_is_taken_as_it_is() -> None:
    ssn = world()
    ssn.add_node_order_fn("any", lambda *args: float(len(args)))
    ssn.add_node_order_fn("max", cast(Any, max))
    assert len(ssn.chain("node_order")[0]) == 2


@pytest.mark.parametrize(
    ("register", "text"),
    [
        (lambda s: s.add_predicate_fn("p", lambda task: None), r"plugin 'p': predicate must take \(task, node\)"),
        (
            lambda s: s.add_job_ready_fn("p", lambda a, b: True),
            r"test_session\.py:\d+: plugin .p.: job_ready must take \(job\), but requires 2 parameters",
        ),
        (lambda s: s.add("nowhere", "p", lambda: None), "extension point 'nowhere': there is none of that name"),
        (lambda s: s.add_job_ready_fn("p"), "add_job_ready_fn: needs a function, got None for 'p'"),
        (lambda s: s.add_job_ready_fn(5, lambda job: True), "add_job_ready_fn: the name must be text, got 5"),
    ],
)
def test_a_registration_that_fits_no_form_is_a_load_error(register: Any, text: str) -> None:
    with pytest.raises(PluginLoadError, match=text):
        register(world())


def test_a_second_registration_replaces_the_first_unless_it_says_also() -> None:
    ssn = world()
    task, node_ = task_of(ssn, "a-0"), ssn.nodes["node-0"]
    ssn.add_node_order_fn("p", lambda task, node: 1.0)
    ssn.add_node_order_fn("p", lambda task, node: 2.0)
    ssn.add_batch_node_order_fn("p", lambda task, rows: np.full(len(rows), 10.0))
    ssn.add_batch_node_order_fn("p", lambda task, rows: np.full(len(rows), 20.0))
    assert ssn.node_order(task, node_) == 32.0


def test_one_function_may_answer_under_two_keys_and_is_asked_once_for_each() -> None:
    ssn = world()
    task, node_ = task_of(ssn, "a-0"), ssn.nodes["node-0"]

    def score(task: Task, rows: NodeRows) -> Any:
        return np.full(len(rows), 10.0)

    def first(task: Task) -> Any:
        return None if task.name == "a-0" else SKIP

    def others(task: Task) -> Any:
        return SKIP if task.name == "a-0" else None

    for _ in range(2):
        ssn.add_batch_node_order_fn("p", score, scope=Scope.NODE, key=first)
        ssn.add_batch_node_order_fn("p", score, scope=Scope.SESSION, key=others)
    assert [c.key for c in ssn.registered()["batch_node_order"]] == [first, others]
    assert ssn.node_order(task, node_) == 10.0


def entry(plugin: Plugin, **flags: bool) -> PluginEntry:
    return PluginEntry(plugin.name, lambda: plugin, lambda flag: flags.get(flag, True))


def test_a_flag_switches_a_plugin_off_at_its_points_alone() -> None:
    state = world().state
    ssn = Session(state, tiers=[[entry(ByName(Arguments()), enablePredicate=False)]]).open()
    task = task_of(ssn, "a-0")
    ssn.predicate(task, ssn.nodes["node-0"])
    assert not ssn.job_ready(task.job)
    assert ssn.configured("by-name")
    assert not ssn.configured("other")
    assert not ssn.flag("enableHierarchy")


def test_tiers_and_plugins_are_asked_in_their_order() -> None:
    order: list[str] = []

    def named(name: str, *, refuses: bool = False) -> PluginEntry:
        class Noting(Plugin):
            def predicate(self, task: Task, node: Node) -> None:
                order.append(self.name)
                if refuses:
                    raise Unfit(f"{self.name} says no")

        Noting.name = name
        return entry(Noting(Arguments()))

    ssn = Session(world().state, tiers=[[named("z"), named("a")], [named("m", refuses=True)]]).open()
    reason = ssn.search.objection(task_of(ssn, "a-0"), ssn.nodes["node-0"])
    assert order == ["z", "a", "m"]
    assert reason is not None
    assert (reason.plugin, reason.text) == ("m", "m says no")


def test_memory_log_and_metrics_belong_to_the_plugin_being_opened(scenario: Scenario) -> None:
    class Remembers(Plugin):
        name = "remembers"

        def on_session_open(self, ssn: Session) -> None:
            ssn.memory["opened"] = ssn.memory.get("opened", 0) + 1
            assert ssn.log.name == "pumice.plugins.remembers"

        def on_session_close(self, ssn: Session) -> None:
            ssn.metrics.gauge("opened", ssn.memory["opened"])
            ssn.metrics.counter("closed", kind="x")
            ssn.metrics.counter("closed", 2, kind="x")

    cycle = scenario.node("n1").run(3, plugins=[Remembers])
    assert cycle.gauge("opened") == 3
    assert cycle.counter("closed", kind="x") == 3
    ssn = world()
    assert ssn.log.name == "pumice.plugins"
    assert ssn.memory_of("x") == {}


def test_orders_are_asked_by_comparison_or_by_key() -> None:
    ssn = world()
    a, b, r = (ssn.jobs[f"default/{n}"] for n in "abr")
    assert ssn.job_order(a, b) == 0
    ssn.add_job_order_key_fn("p", lambda job: -job.priority)
    assert ssn.job_order(a, b) == -1
    assert ssn.orders.job_less()(a, b)
    assert sorted([b, r, a], key=ssn.orders.job_key()) == [a, b, r]
    ssn.add_job_order_fn("q", lambda left, right: 0)
    assert ssn.orders.job_less()(a, b)
    assert sorted([b, r, a], key=ssn.orders.job_key()) == [a, b, r]
    heap = ssn.orders.job_heap([r, b, a])
    assert [heap.pop().name for _ in range(3)] == ["a", "b", "r"]


def test_tasks_and_queues_have_their_orders_too() -> None:
    ssn = world()
    first, second = task_of(ssn, "a-0"), task_of(ssn, "a-1")
    assert ssn.orders.sorted_tasks([second, first]) == [first, second]
    ssn.add_task_order_fn("p", lambda left, right: 1 if left.name < right.name else -1)
    assert ssn.orders.sorted_tasks([first, second]) == [second, first]
    assert ssn.task_order(first, second) == 1
    default, other = ssn.queues["default"], ssn.queues["other"]
    assert ssn.orders.queue_less(default, other)
    assert ssn.orders.victim_queue_less(other, default, other)
    ssn.add_queue_order_fn("p", lambda left, right: 1 if left.name < right.name else -1)
    assert ssn.orders.queue_less(other, default)
    assert ssn.queue_order(other, default) == -1
    heap = ssn.orders.queue_heap([default, other])
    assert [heap.pop().name, heap.pop().name] == ["other", "default"]
    ssn.add_victim_queue_order_fn("p", lambda left, right, preemptor: -1 if left is preemptor else 1)
    assert ssn.orders.victim_queue_less(other, default, other)


def test_votes_and_verdicts_say_who_said_no() -> None:
    ssn = world()
    a = ssn.jobs["default/a"]
    assert ssn.job_pipelined(a)
    assert ssn.job_enqueueable(a)
    assert ssn.job_valid(a)
    ssn.add_job_pipelined_fn("p", lambda job: False)
    ssn.add_job_enqueueable_fn("p", lambda job: 0, key=lambda job: job.priority)
    ssn.add_job_valid_fn("p", lambda job: reject("too few", "NotEnough"))
    assert ssn.job_pipelined(a).plugin == "p"
    assert ssn.job_enqueueable(a)
    assert ssn.enqueue_key(a) == (2,)
    assert ssn.job_valid(a)[1:4] == ("too few", "p", "NotEnough")
    ssn.add_job_enqueueable_fn("q", lambda job: 1)
    assert ssn.enqueue_key(a) is None


def test_queues_are_asked_whether_they_may() -> None:
    ssn = world()
    task, default = task_of(ssn, "a-0"), ssn.queues["default"]
    assert ssn.allocatable_room(default, task, 5) == 5
    ssn.add_allocatable_fn("p", lambda queue, task: queue.name != "default", max_tasks=lambda queue, task: 3)
    ssn.add_overused_fn("p", lambda queue: queue.name == "default")
    ssn.add_preemptive_fn("p", lambda queue, tasks: len(tasks) < 2)
    assert ssn.allocatable(default, task).plugin == "p"
    assert ssn.allocatable_room(default, task, 5) == 3
    ssn.add_allocatable_fn("q", lambda queue, task: True)
    assert ssn.allocatable_room(default, task, 5) == 0
    assert ssn.overused(default) == Verdict(True, plugin="p")
    assert not ssn.overused(ssn.queues["other"])
    assert ssn.preemptive(default, [task])
    assert not ssn.preemptive(default, [task, task])


def test_victims_are_asked_for() -> None:
    ssn = world()
    task, running = task_of(ssn, "a-0"), task_of(ssn, "r-0")
    assert ssn.preemptable(task, [running]) is None
    everyone = lambda who, tasks: tasks  # noqa: E731
    ssn.add_preemptable_fn("p", everyone)
    ssn.add_reclaimable_fn("p", lambda who, tasks: ([], True))
    ssn.add_unified_evictable_fn("p", lambda context, tasks: None)
    ssn.add_victim_tasks_fn("p", lambda tasks: tasks)
    ssn.add_victim_filter_fn("p", lambda pending, victim: victim.name != "r")
    ssn.add_scenario_validator_fn("p", lambda scenario: reject("too dear"))
    assert ssn.preemptable(task, [running]) == [running]
    assert ssn.reclaimable(task, [running]) == []
    assert ssn.unified_evictable(None, [running]) is None
    assert ssn.victim_tasks([running]) == [running]
    assert not ssn.victim_filter(task.job, running.job)
    assert ssn.scenario_validator(None).text == "too dear"
    assert not ssn.job_starving(task.job)
    ssn.add_job_starving_fn("p", lambda job: True)
    assert ssn.job_starving(task.job)


def test_broadcasts_and_single_answers() -> None:
    ssn = world()
    told: list[Any] = []
    a = ssn.jobs["default/a"]
    ssn.add_job_enqueued_fn("p", told.append)
    ssn.add_pre_job_allocation_fn("p", told.append)
    ssn.add_reserved_nodes_fn("p", lambda: told.append("reserved"))
    ssn.add_target_job_fn("p", lambda jobs: jobs[-1])
    ssn.job_enqueued(a)
    ssn.pre_job_allocation(a)
    ssn.reserved_nodes()
    assert told == [a, a, "reserved"]
    assert ssn.target_job([a]) is a
    assert world().target_job([a]) is None


def test_nodes_are_scored_mapped_reduced_and_chosen() -> None:
    ssn = world()
    task = task_of(ssn, "a-0")
    nodes: Sequence[Node] = list(ssn.nodes.values())
    assert ssn.best_node(task, {"node-1": 1.0, "node-0": 1.0}) is ssn.nodes["node-0"]
    assert ssn.best_node(task, {}) is None
    told: list[list[str]] = []
    ssn.add_node_pre_order_fn("p", lambda task, rows: told.append(rows.names))
    ssn.add_node_map_fn("p", lambda task, node: 2.7 if node.name == "node-0" else 1)
    ssn.add_node_map_fn("q", lambda task, node: 1)
    ssn.add_node_reduce_fn("p", lambda task, scores: {name: score * 10 for name, score in scores.items()})
    ssn.add_batch_node_order_fn(
        "n", lambda task, rows: np.arange(len(rows), dtype=float), normalize=lambda raw, mask: raw * 100
    )
    assert ssn.batch_node_order(task, nodes) == {"node-0": 21.0, "node-1": 111.0}
    assert told == [["node-0", "node-1"]]
    ssn.add_best_node_fn("p", lambda task, scores: None)
    ssn.add_best_node_fn("q", lambda task, scores: min(scores))
    assert ssn.best_node(task, {"node-1": 9.0, "node-0": 1.0}) is ssn.nodes["node-0"]


def test_devices_and_binds_are_asked_about() -> None:
    ssn = world()
    task, node_ = task_of(ssn, "a-0"), ssn.nodes["node-0"]
    assert ssn.gpu_order(task, node_, "0") == 0.0
    ssn.add_gpu_order_fn("p", lambda task, node, gpu: float(gpu))
    ssn.add_bind_request_mutate_fn("p", lambda task, node: {"on": node, "x": "1"})
    ssn.add_bind_request_mutate_fn("q", lambda task, node: {"x": "2"})
    assert ssn.gpu_order(task, node_, "3") == 3.0
    ssn.add_gpu_order_fn("q", lambda task, node, gpu: float("nan"))
    assert ssn.gpu_order(task, node_, "3") is None
    assert ssn.bind_request_mutate(task, node_.name) == {"on": "node-0", "x": "2"}


def test_what_plugins_see_cannot_be_written() -> None:
    ssn = world()
    task, node_ = task_of(ssn, "a-0"), ssn.nodes["node-0"]
    for thing, name in (
        (task, "priority"),
        (task, "node_name"),
        (node_, "labels"),
        (node_, "idle"),
        (task.job, "min_available"),
        (ssn.queues["default"], "weight"),
        (ssn, "jobs"),
    ):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)


def test_rows_can_be_asked_like_nodes() -> None:
    ssn = world()
    seen: list[Any] = []

    def look(task: Task, rows: NodeRows) -> Any:
        seen.append((rows.names, rows.idle["nvidia.com/gpu"].tolist(), rows.labels.has("none").tolist(), len(rows)))
        return np.zeros(len(rows), dtype=np.int64)

    ssn.add_batch_predicate_fn("p", look)
    ssn.predicate(task_of(ssn, "a-0"), ssn.nodes["node-0"])
    assert seen == [(["node-0"], [7000], [False], 1)]


def test_a_plugin_may_be_opened_after_another_one_was_asked() -> None:
    ssn = world()
    task, node_ = task_of(ssn, "a-0"), ssn.nodes["node-0"]
    ssn.predicate(task, node_)
    ssn.open_plugin(ByName(Arguments()))
    with pytest.raises(Unfit, match="not this one"):
        ssn.predicate(task, node_)


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_who_writes_the_name_of_a_point_as_in_go_is_told_what_it_is_called_here(point: Any) -> None:
    ssn = session(node("n1"))
    with pytest.raises(UnknownName, match=f"the session has no 'Add{point.go}'; here it is '{point.register}'$"):
        getattr(ssn, f"Add{point.go}")
    named = point.name if point.name not in ("node_map", "node_reduce") else point.register  # asked together, in scores
    with pytest.raises(UnknownName, match=f"the session has no '{point.go}'; .* '{named}'"):
        getattr(ssn, point.go)


def test_a_name_that_the_session_lacks_is_lacking_for_everybody_who_asks() -> None:
    ssn = session(node("n1"))
    assert not hasattr(ssn, "Jobs")
    assert getattr(ssn, "_nothing", 5) == 5
    with pytest.raises(AttributeError, match="the session has no 'Jobs'; here it is 'jobs'"):
        ssn.Jobs  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"the session has no 'frobnicate'$"):
        ssn.frobnicate  # type: ignore[attr-defined]  # noqa: B018
