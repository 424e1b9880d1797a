"""The scenario runner: what a test builds, what a cycle decides, and assertions that fail with a reason."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice import Argument, Node, Plugin, PluginLoadError, Task, Unfit, testing
from pumice.errors import ConfigError, InvalidInput
from pumice.testing import ConfWarning, Scenario, cluster, job, node, pod, queue, session, task_of

PLAIN = ["gang", "priority"]


def test_a_gang_takes_nothing_until_it_can_take_enough(scenario: Scenario) -> None:
    """Three free slots are no use to a job that needs four."""
    scenario.node("n1", cpu=3)
    scenario.job("train", tasks=4, min_available=4, cpu=1)
    cycle = scenario.run(actions=["allocate"], plugins=["gang"])
    assert cycle.intents == []
    assert cycle.why("train").reason == "3 of 4 required tasks have a place"
    assert "1 Insufficient cpu" in cycle.why("train").text
    scenario.stays_settled(cycles=5)


def test_a_job_is_bound_where_there_is_room(scenario: Scenario) -> None:
    scenario.add(cluster("2x2gpu, 1x8gpu"), job("train", tasks=8, gpu=1, cpu=0))
    cycle = scenario.run(plugins=PLAIN)
    assert len(cycle.binds) == 8
    scenario.assert_bound("train")
    scenario.assert_bound("train-0", to=["node-0", "node-1", "node-2"])
    scenario.assert_evicted()
    scenario.assert_settled()


def test_bound_pods_run_and_their_group_shows_it(scenario: Scenario) -> None:
    scenario.cluster("1x4cpu").job("train", tasks=2).run(plugins=PLAIN)
    scenario.run()
    assert scenario.task("train-0").status.title == "Running"
    assert scenario.job_of("train").phase == "Running"
    assert scenario.node_of("node-0").used.milli_cpu == 2000


def test_a_finished_pod_makes_room_for_the_next_job(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("first", on="n1").job("second")
    scenario.run(plugins=PLAIN)
    scenario.assert_pending("second", because="Insufficient cpu")
    scenario.finish("first-0").run()
    scenario.assert_bound("second", to="n1")


def test_a_job_waits_for_room_that_a_deleted_pod_gives_back(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("first", on="n1").job("second")
    cycle = scenario.delete("first-0").run(plugins=PLAIN)
    assert cycle.pipelined == {"default/second-0": "n1"}
    scenario.run()
    scenario.assert_bound("second-0", to="n1")


def test_the_assertions_say_what_is_instead(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("a", on="n1").job("b")
    scenario.run(plugins=PLAIN)
    with pytest.raises(AssertionError, match=r"default/a-0 is on n1, not on n2"):
        scenario.assert_bound("a", to="n2")
    with pytest.raises(AssertionError, match=r"default/b-0 is Pending, not bound: .*Insufficient cpu"):
        scenario.assert_bound("b")
    with pytest.raises(AssertionError, match=r"default/a-0 is Running on n1, not pending"):
        scenario.assert_pending("a")
    with pytest.raises(AssertionError, match=r"which does not say 'taint'"):
        scenario.assert_pending("b", because="taint")
    with pytest.raises(AssertionError, match=r"evicted were none, not \['default/a-0'\]"):
        scenario.assert_evicted("a-0")


def test_settling_is_asserted_by_running_on(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("a").job("b")
    with pytest.raises(AssertionError, match=r"cycle 1 of 5 that should change nothing decided \[Bind"):  # noqa: PT012
        scenario.run(plugins=["gang"], actions=["enqueue"])
        scenario._assembly = None
        scenario.run(plugins=["gang"], actions=["enqueue"])
        scenario.node("n2", cpu=1)
        scenario._assembly = scenario._configure(None, ["gang"], None, None, None)
        scenario.assert_settled()
    scenario.assert_settled(after=1)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda s: s.task("x"), "pod 'default/x': not in this scenario; there are default/a-0"),
        (lambda s: s.job_of("x"), "job 'default/x': not in this scenario; there are default/a"),
        (lambda s: s.node_of("x"), "node 'x': not in this scenario; there are n1"),
        (lambda s: s.assert_bound("x"), "'default/x': neither a job nor a pod of this scenario"),
        (lambda s: s.finish("x"), "Pod 'default/x': not in this scenario; there are default/a-0"),
        (lambda s: s.last, "no cycle was run yet"),
        (lambda s: s.run(0, plugins=["gang"]), "cycles: must be at least 1, got 0"),
    ],
)
def test_a_name_that_is_not_there_is_named(ask: object, text: str) -> None:
    scenario = Scenario(node("n1"), job("a"))
    with pytest.raises(InvalidInput, match=text):
        ask(scenario)  # type: ignore[operator]


class OnlyEven(Plugin):
    """Nodes with an even number only."""

    name = "only-even"
    odd = Argument(False, "Nodes with an odd number instead.")

    def predicate(self, task: Task, node: Node) -> None:
        if int(node.name.rpartition("-")[2]) % 2 != self.odd:
            raise Unfit("the number of the node is wrong")


def test_a_plugin_class_can_be_listed_as_it_is_with_or_without_arguments(scenario: Scenario) -> None:
    scenario.cluster("2x4cpu").job("a", tasks=2)
    scenario.run(plugins=["gang", OnlyEven])
    scenario.assert_bound("a", to="node-0")
    scenario.job("b", tasks=2).run(plugins=[["gang"], [(OnlyEven, {"odd": "true"})]])
    scenario.assert_bound("b", to="node-1")
    scenario.job("c").run(plugins=[{"name": "only-even", "enablePredicate": False}])
    scenario.assert_bound("c", to="node-0")


def test_a_whole_conf_may_be_given_as_text_or_data(scenario: Scenario) -> None:
    scenario.cluster("1x4cpu").job("a")
    scenario.run(conf="actions: allocate\ntiers:\n- plugins:\n  - name: gang\n")
    scenario.assert_bound("a")
    scenario.job("b").run(conf={"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}, compat="volcano")
    scenario.assert_bound("b")


def test_a_conf_of_data_may_hold_classes(scenario: Scenario) -> None:
    scenario.cluster("2x8cpu").job("a")
    for entry in ({"name": OnlyEven, "arguments": {"odd": "true"}}, (OnlyEven, {"odd": "true"}), OnlyEven):
        cycle = scenario.run(conf={"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, entry]}]})
        assert cycle.errors == []
    with pytest.raises(ConfigError, match=r"tiers\[0\]"):
        scenario.run(conf={"actions": "allocate", "tiers": [{"plugins": "gang"}]})


@pytest.mark.parametrize("plugins", [None, ["predicates", "proportion", "priority"], ["predicates", "nodeplacement"]])
def test_a_scenario_speaks_the_dialect_of_kai(scenario: Scenario, plugins: Any) -> None:
    scenario.cluster("2x8cpu").add(queue("team")).job("a", queue="team", tasks=2)
    scenario.run(dialect="kai", plugins=plugins)
    scenario.assert_bound("a")
    assert all(info.name.startswith("kai/") for tier in scenario._assembly.plugins for info, _, _ in tier)  # type: ignore[union-attr]


def test_a_dialect_beside_a_conf_is_refused(scenario: Scenario) -> None:
    with pytest.raises(InvalidInput, match="write it there"):
        scenario.run(conf="actions: allocate", dialect="kai")


def test_an_evicted_pod_may_come_back_as_a_new_one() -> None:
    scenario = Scenario(node("n1", cpu=1), job("a", on="n1"), recreate=True)
    scenario.delete("a-0").run(plugins=PLAIN)
    assert scenario.task("a-0").status.title == "Releasing"
    scenario.run()
    scenario.assert_bound("a-0", to="n1")
    assert scenario.task("a-0").uid != "default/a-0"


def test_objects_leave_when_told(scenario: Scenario) -> None:
    scenario.cluster("2x4cpu").job("a", tasks=2, on="node-0").pod("stray", on="node-0", cpu=1).queue("q")
    assert scenario.node_of("node-0").used.milli_cpu == 3000
    scenario.remove("stray").remove_node("node-1").remove_job("a")
    assert set(scenario.state.nodes) == {"node-0"}
    assert "default/a" not in scenario.state.session_jobs
    scenario.advance(5)
    assert scenario.state.now == 5
    assert len(scenario.objects) == 5


def test_the_invariants_name_a_broken_sum() -> None:
    scenario = Scenario(node("n1", cpu=1), job("a", on="n1"))
    scenario.state.table.idle[0, 0] += 5
    with pytest.raises(AssertionError, match="broken laws: node n1: idle cpu is 5, its tasks make 0"):
        scenario.assert_invariants()


def test_the_invariants_name_a_cycle_that_over_commits() -> None:
    class Greedy(Plugin):
        name = "greedy"

        def on_session_close(self, ssn: object) -> None:
            scenario.state.table.idle[0, 0] -= 64000

    scenario = Scenario(node("n1"), job("a"))
    scenario.run(plugins=["gang", Greedy])
    with pytest.raises(AssertionError, match="cycle 1: node n1: cpu is over-committed by 33000"):
        scenario.assert_invariants()


@pytest.mark.parametrize(
    ("shape", "count", "resource", "amount"),
    [
        ("3x8gpu", 3, "nvidia.com/gpu", 8),
        ("8gpu", 1, "nvidia.com/gpu", 8),
        ("2x16cpu+64Gi", 2, "memory", 64 * 2**30),
        ("1x4cpu, 2x8cpu+2gpu", 3, "cpu", 4),
        ("2 x 10 pods", 2, "pods", 10),
    ],
)
def test_a_cluster_is_written_in_short(shape: str, count: int, resource: str, amount: int) -> None:
    ssn = session(cluster(shape))
    assert len(ssn.nodes) == count
    assert ssn.nodes["node-0"].allocatable[resource] == amount


def test_names_of_a_large_cluster_sort_as_they_count() -> None:
    names = [n.metadata.name for n in cluster("12x8gpu", prefix="gpu")]
    assert names[0] == "gpu-00"
    assert names == sorted(names)


@pytest.mark.parametrize("shape", ["", "3x", "axb", "3x8fpga", "8gpu;1cpu"])
def test_a_cluster_that_cannot_be_read_is_named(shape: str) -> None:
    with pytest.raises(InvalidInput, match="must be written as in 3x8gpu"):
        cluster(shape)


def test_a_taint_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidInput, match="taint 'nothing': must be written key=value:effect"):
        node("n", taints=["nothing"])
    assert node("n", taints=["a=b:NoSchedule"]).spec.taints[0].value == "b"  # type: ignore[index]


def test_a_session_by_hand_refuses_an_object_that_breaks_a_rule() -> None:
    with pytest.raises(InvalidInput, match="Pod default/p: quantity 'lots'"):
        session(pod("p", cpu="lots"))
    with pytest.raises(InvalidInput, match="pod 'default/q': not in this session; there are default/p"):
        task_of(session(pod("p")), "q")


def test_a_job_brings_priority_queue_and_running_tasks() -> None:
    ssn = session(node("n1"), queue("default"), queue("gold"), job("a", tasks=3, queue="gold", priority=7, on=["n1"]))
    a = ssn.jobs["default/a"]
    assert (a.queue, a.priority, len(a.tasks), a.ready_count) == ("gold", 7, 3, 1)
    assert a.preemptible
    assert not session(job("b", preemptible=False)).jobs["default/b"].preemptible


BUILDERS = ("node", "cluster", "queue", "job", "pod")


@pytest.mark.parametrize("name", BUILDERS)
def test_what_adds_an_object_takes_what_its_builder_takes(name: str) -> None:
    method, builder = getattr(Scenario, name), getattr(testing, name)
    _, *taken = inspect.signature(method).parameters.values()
    assert taken == list(inspect.signature(builder).parameters.values())
    assert method.__doc__.startswith(f"Add what `pumice.testing.{name}` makes.")


@pytest.mark.slow
def test_a_wrong_option_of_what_adds_an_object_is_a_type_error(tmp_path: Path) -> None:
    right = 's.node("a", cpu=4).job("x", tasks=2).queue("q", weight=2).pod("p", cpu=1).cluster("3x8gpu", prefix="n")'
    wrong = ['s.node("a", cpus=4)', 's.job("x", tasks="2")', 's.queue("q", wieght=2)', "s.pod(name=3)", "s.cluster()"]
    lines = [
        "from pumice.testing import Scenario",
        "def f(s: Scenario) -> None:",
        *(f"    {w}" for w in (right, *wrong)),
    ]
    (tmp_path / "typed.py").write_text("\n".join(lines) + "\n")
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(tmp_path / "typed.py")]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert [line.split(":")[1] for line in ran.stdout.splitlines()] == ["4", "5", "6", "7", "8"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"name": "gang", "enableJobOrdre": True}, "unknown flag 'enableJobOrdre'; did you mean 'enableJobOrder'?"),
        ({"name": "gang", "arguments": {"weight": 1}}, "plugin 'gang' does not read the argument 'weight'"),
        (("binpack", {"binpack.wieght": 1}), "does not read the argument 'binpack.wieght'; did you mean"),
    ],
)
def test_what_a_configuration_says_in_vain_is_a_warning_at_the_line_of_the_test(
    scenario: Scenario, entry: Any, said: str
) -> None:
    scenario.node("n1").job("a")
    with pytest.warns(ConfWarning, match=re.escape(said)) as told:
        scenario.run(plugins=[entry])
    assert [w.filename for w in told] == [__file__]


def test_a_class_without_a_name_is_named(scenario: Scenario) -> None:
    class Nameless(Plugin):
        pass

    with pytest.raises(PluginLoadError, match=r"test_scenario\.py:\d+: class Nameless: has no name, such as name ="):
        scenario.run(plugins=[Nameless])


@pytest.mark.parametrize("what", ["x", 3, None, {"kind": "Node"}, [node("n1"), "x"], Scenario])
def test_what_is_no_object_is_named_and_nothing_is_added(what: Any) -> None:
    s = Scenario()
    with pytest.raises(InvalidInput, match=r"no object of a cluster; node\(\), job\(\)"):
        s.add(node("n0"), what)
    assert not s.state.nodes
