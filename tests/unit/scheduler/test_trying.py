"""A plugin is tried when it is loaded: what cannot work whatever the cluster is an error at its author's line."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from pumice import Arguments, Node, Plugin, Scope, Session, Task, same_class, scope
from pumice.config import DEFAULT_CONF, InvalidConf, load
from pumice.errors import PumiceError
from pumice.framework.points import POINTS
from pumice.framework.points.point import HINTS
from pumice.framework.registry import Registry, default_registry
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.trying import try_plugins
from pumice.state.cluster import ClusterState

BEGIN = "from pumice import EventHandler, Plugin, Scope\n\n\nclass Mine(Plugin):\n    name = 'mine'\n\n"
"""Six lines; what follows begins in line 7."""
CONF = (
    'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: mine\n    arguments: {weight: abc}\n'
)


def opening(text: str) -> str:
    return f"{BEGIN}    def on_session_open(self, ssn):\n        {text}\n"


def tried(folder: Path, source: str) -> Assembly:
    """The configuration of ``CONF`` with this source as its plugin ``mine``."""
    (folder / "mine.py").write_text(source)
    registry = default_registry().copy()
    registry.load_directory(folder)
    return assemble(load(CONF, catalogue_of(registry), "my.conf").conf, registry)


MISTAKES = {
    "the builder raises": (
        "def New(arguments):\n    return int(arguments['weight'])\n",
        "mine.py:2: plugin 'mine': ValueError: invalid literal for int() with base 10: 'abc'",
    ),
    "the builder asks for what is not given": (
        "def New(arguments):\n    return arguments['wieght']\n",
        "mine.py:2: plugin 'mine': KeyError: 'wieght'",
    ),
    "the builder ends the program": (
        "def New(arguments):\n    raise SystemExit(3)\n",
        "mine.py:2: plugin 'mine': SystemE",
    ),
    "a name of Go's arguments": (
        "def New(arguments):\n    return arguments.GetInt('weight')\n",
        "mine.py:2: plugin 'mine': AttributeError: 'Arguments' object has no attribute 'GetInt'; here it is 'int'",
    ),
    "the class takes nothing": (
        f"{BEGIN}    def __init__(self):\n        pass\n",
        "mine.py:7: class Mine must take one parameter, the arguments",
    ),
    "New takes nothing": ("def New():\n    pass\n", "mine.py:1: New must take one parameter, the arguments"),
    "nothing is built": (
        "def New(arguments):\n    pass\n",
        "built a NoneType, not a plugin: it has neither on_session_open",
    ),
    "an argument is refused": (
        f"{BEGIN}    def __init__(self, arguments):\n        arguments.int('weight', 1)\n",
        "my.conf:6:17: tiers[0].plugins[1].arguments.weight: mine: argument weight: must be a whole number, got 'abc'",
    ),
    "a method takes too little": (
        f"{BEGIN}    def predicate(self, task): ...\n",
        "mine.py:7: plugin 'mine': predicate must take (task, node), but requires 1 parameter",
    ),
    "a function takes too much": (
        opening("ssn.add_job_ready_fn(self.name, lambda a, b: True)"),
        "mine.py:8: plugin 'mine': job_ready must take (job), but requires 2 parameters",
    ),
    "no function": (
        opening("ssn.add_predicate_fn(self.name, 3)"),
        "mine.py:8: plugin 'mine': add_predicate_fn: needs a function, got 3",
    ),
    "an unknown point": (
        opening("ssn.add('predicat', self.name, print)"),
        "mine.py:8: plugin 'mine': extension point 'predicat': there is none of that name; did you mean 'predicate'?",
    ),
    "a name of Go's session": (
        opening("ssn.AddPredicateFn(self.name, print)"),
        "mine.py:8: plugin 'mine': the session has no 'AddPredicateFn'; here it is 'add_predicate_fn'",
    ),
    "a misspelt name of the session": (
        opening("ssn.add_predicat_fn(self.name, print)"),
        "mine.py:8: plugin 'mine': the session has no 'add_predicat_fn'; did you mean 'add_predicate_fn'?",
    ),
    "a name of Go's node": (
        opening("[n.Node.Labels for n in ssn.nodes.values()]"),
        "mine.py:8: plugin 'mine': AttributeError: 'Node' object has no attribute 'Node'; here its labels and annot",
    ),
    "a handler of Go's name": (
        opening("ssn.add_event_handler(EventHandler(allocate_func=print))"),
        "mine.py:8: plugin 'mine': EventHandler takes no 'allocate_func'; here it is 'allocate'",
    ),
    "a handler that is none": (
        opening("ssn.add_event_handler(print)"),
        "mine.py:8: plugin 'mine': add_event_handler: needs an EventHandler, got <built-in function print>",
    ),
    "a handler that is no function": (
        opening("ssn.add_event_handler(EventHandler(allocate=3))"),
        "mine.py:8: plugin 'mine': EventHandler: allocate must be a function, got 3",
    ),
    "a handler that takes nothing": (
        opening("ssn.add_event_handler(EventHandler(deallocate=lambda: None))"),
        "mine.py:8: plugin 'mine': the deallocate handler must take one parameter, the event",
    ),
    "a scope that is none": (
        opening("ssn.add_predicate_fn(self.name, lambda t, n: None, scope='static')"),
        "mine.py:8: plugin 'mine': predicate: scope must be one of Scope.STATIC, Scope.NODE, Scope.SESSION, got 'sta",
    ),
    "a key that is no function": (
        opening("ssn.add_predicate_fn(self.name, lambda t, n: None, key='class')"),
        "mine.py:8: plugin 'mine': predicate: key must be a function, got 'class'",
    ),
    "a method of Go's name": (
        f"{BEGIN}    def OnSessionOpen(self, ssn): ...\n",
        "mine.py:4: class Mine: nobody calls OnSessionOpen: here it is 'on_session_open'",
    ),
    "a callback of Go's name that nobody registers": (
        f"{BEGIN}    def PredicateFn(self, task, node): ...\n",
        "mine.py:4: class Mine: nobody calls PredicateFn: here it is 'predicate'",
    ),
    "a name that is a method": (
        BEGIN.replace("name = 'mine'", "def name(self): return 'mine'"),
        'mine.py:5: class Mine: name must be text, such as name = "my-plugin", not a method',
    ),
    "a name that is a property": (
        BEGIN.replace("name = 'mine'", "name = property(lambda self: 'mine')"),
        'mine.py:5: class Mine: name must be text, such as name = "my-plugin", not a property',
    ),
    "Go's Name": (
        BEGIN.replace("name = 'mine'", "def Name(self): return 'mine'"),
        'mine.py:4: class Mine: nobody calls Name: here it is an attribute, name = "my-plugin"',
    ),
    "all of Go's names, built by New": (
        "class myPlugin:\n    def Name(self): ...\n    def OnSessionOpen(self, ssn): ...\n\n\n"
        "def New(arguments):\n    return myPlugin()\n",
        "mine.py:1: plugin 'mine' from {folder}/mine.py: built a myPlugin, not a plugin: it has neither "
        "on_session_open(ssn) nor a method named after an extension point; nobody calls Name: here it is an attribute, "
        'name = "my-plugin"; '
        "nobody calls OnSessionOpen: here it is 'on_session_open'",
    ),
    "all of Go's names, without New": (
        "class myPlugin:\n    def OnSessionOpen(self, ssn): ...\n",
        "mine.py:1: class myPlugin: must be a subclass of pumice.Plugin, or be what New(arguments) returns; nobody",
    ),
}


SLIPS = [(p.name, slip) for p in POINTS.values() for slip in (p.name[:-1], p.name[:2] + p.name[1:])]


@pytest.mark.parametrize(("point", "slip"), [s for s in SLIPS if s[1] not in POINTS])
def test_a_method_that_is_nearly_named_as_a_point_is_told_of(tmp_path: Path, point: str, slip: str) -> None:
    with pytest.raises(PumiceError) as caught:
        tried(tmp_path, f"{BEGIN}    def {slip}(self, *things): ...\n")
    assert f"mine.py:4: class Mine: nobody calls {slip}; did you mean '{point}'? Else name it '_{slip}'" in str(
        caught.value
    )


HELPERS = {
    "in a method": "    def job_orders(self, a): return 0\n\n"
    "    def job_order(self, a, b): return self.job_orders(a)\n",
    "in a comprehension": "    def node_orders(self, n): return 0.0\n\n"
    "    def batch_node_order(self, t, r): return [self.node_orders(n) for n in r]\n",
    "in a property": "    def predicates(self, t, n): ...\n\n"
    "    @property\n    def first(self): return self.predicates\n",
    "in a function of its module": "    def predicates(self, t, n): ...\n\n\n"
    "def check(plugin): plugin.predicates(1, 2)\n",
    "in a class of its module": "    def predicates(self, t, n): ...\n\n\n"
    "class Other:\n    def check(self, plugin): plugin.predicates(1, 2)\n",
    "in the class that it derives from": "    def predicate(self, t, n): return self.predicates(t, n)\n\n\n"
    "class Derived(Mine):\n    def predicates(self, t, n): ...\n\n\ndef New(arguments): return Derived(arguments)\n",
    "elsewhere, and it takes nothing": "    def job_orders(self): return 0\n",
    "elsewhere, as its name says": "    def _predicates(self, t, n): ...\n",
}


@pytest.mark.parametrize("called", HELPERS)
def test_a_helper_that_is_nearly_named_as_a_point_may_be_called_so(tmp_path: Path, called: str) -> None:
    tried(tmp_path, f"{BEGIN}{HELPERS[called]}")


@pytest.mark.parametrize("hook", ["on_session_open", "on_session_close"])
def test_what_a_plugin_may_have_beside_points_is_no_slip(tmp_path: Path, hook: str) -> None:
    tried(tmp_path, f"{BEGIN}    def {hook}(self, ssn): return None\n\n    def predicate(self, task, node): ...\n")


DECLARATIONS = [(p.name, hint) for p in POINTS.values() for hint in p.hints if hint not in ("scope", "also")]


@pytest.mark.parametrize(("point", "hint"), DECLARATIONS)
def test_whatever_is_declared_beside_an_answer_must_be_of_its_kind(tmp_path: Path, point: str, hint: str) -> None:
    rule = "a function" if HINTS[hint][0].startswith("Fn") else "True or False"
    callback = f"lambda {', '.join('abcd'[: POINTS[point].arity[0]])}: None"
    with pytest.raises(PumiceError) as caught:
        tried(tmp_path, opening(f"ssn.add_{point}_fn(self.name, {callback}, {hint}='yes')"))
    assert f"mine.py:8: plugin 'mine': {point}: {hint} must be {rule}, got 'yes'" in str(caught.value)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_wrong_whatever_the_cluster_is_one_line_at_its_authors_line(tmp_path: Path, mistake: str) -> None:
    source, said = MISTAKES[mistake]
    with pytest.raises(PumiceError) as caught:
        tried(tmp_path, source)
    text = str(caught.value)
    assert said.replace("{folder}", str(tmp_path)) in text
    assert text.startswith((str(tmp_path / "mine.py"), "my.conf:", "plugin 'mine' from"))
    assert "\n" not in text


def test_what_the_plugins_own_code_raises_there_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assembly = tried(tmp_path, opening("self.group = ssn.jobs['team/train']"))
    assert [name for tier in assembly.plugins for *_, name in tier] == ["gang", "mine"]
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert said == [
        f"{tmp_path / 'mine.py'}:8: plugin 'mine': on_session_open raised KeyError: 'team/train' on a made-up "
        "cluster of two nodes and a job"
    ]


SCORE = "    def {name}(self, task, nodes):\n        return {answer}\n"


@pytest.mark.parametrize("point", ["node_order", "batch_node_order"])
@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("", True),
        ("    @scope(Scope.NODE, key=same_class)\n", False),
        ("    @scope(Scope.STATIC)\n", False),
        ("    @scope(Scope.SESSION)\n", False),
    ],
)
@pytest.mark.parametrize("registers", [False, True])
def test_a_score_without_a_scope_is_named_with_the_line_that_makes_it_fast(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, point: str, line: str, warned: bool, registers: bool
) -> None:
    source = BEGIN.replace("Scope\n", "Scope, same_class, scope\n", 1) + line
    source += SCORE.format(name="mine" if registers else point, answer=0)
    if registers:
        source += f"\n    def on_session_open(self, ssn):\n        ssn.add_{point}_fn(self.name, self.mine)\n"
    tried(tmp_path, source)
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    if not warned:
        assert said == []
        return
    (text,) = said
    assert text.startswith(f"{tmp_path / 'mine.py'}:7: plugin 'mine': {point}: has no scope")
    assert "write @scope(Scope.NODE, key=same_class) above it" in text


def test_the_scope_of_a_method_counts_however_it_is_registered() -> None:
    class Scored(Plugin):
        name = "scored"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_node_order_fn(self.name, self.mine)

        @scope(Scope.NODE, key=same_class)
        def mine(self, task: Task, node: Node) -> float:
            return 0.0

    ssn = Session(ClusterState())
    ssn.open_plugin(Scored(Arguments()))
    (callback,) = ssn.registered()["node_order"]
    assert (callback.scope, callback.key) == (Scope.NODE, same_class)


def test_all_mistakes_of_a_conf_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("def New(arguments):\n    raise RuntimeError('boom')\n")
    (tmp_path / "odd.py").write_text(opening("ssn.Jobs").replace("'mine'", "'odd'"))
    registry = default_registry().copy()
    registry.load_directory(tmp_path)
    conf = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: odd\n- plugins:\n  - name: late\n'
    with pytest.raises(InvalidConf) as caught:
        assemble(load(conf, catalogue_of(registry)).conf, registry)
    assert [str(p).rpartition("/")[2] for p in caught.value.problems] == [
        "late.py:2: plugin 'late': RuntimeError: boom",
        "odd.py:8: plugin 'odd': the session has no 'Jobs'; here it is 'jobs'",
    ]


def assembled(plugin: type[Plugin], **arguments: Any) -> Assembly:
    registry = default_registry().copy()
    registry.register(plugin.name, plugin)
    conf = f'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: {plugin.name}\n'
    return assemble(load(conf, catalogue_of(registry)).conf, registry)


def test_the_made_up_cluster_has_two_nodes_a_queue_and_a_job() -> None:
    seen: dict[str, Any] = {}

    class Looks(Plugin):
        name = "looks"

        def on_session_open(self, ssn: Session) -> None:
            job = next(iter(ssn.jobs.values()))
            seen.update(nodes=len(ssn.nodes), queues=list(ssn.queues), tasks=len(job.tasks), queue=job.queue)
            seen.update(describes=ssn.describes, gang=ssn.configured("gang"), actions=ssn.actions)

    assembled(Looks)
    assert seen == {
        "nodes": 2,
        "queues": ["default"],
        "tasks": 2,
        "queue": "default",
        "describes": True,
        "gang": True,
        "actions": ("allocate",),
    }


def test_a_plugin_is_opened_once_when_it_is_tried_and_never_closed() -> None:
    done: list[str] = []

    class Counts(Plugin):
        name = "counts"

        def on_session_open(self, ssn: Session) -> None:
            done.append("open")
            ssn.memory["seen"] = True
            ssn.log.error("not to be heard")

        def on_session_close(self, ssn: Session) -> None:
            done.append("close")

    assembled(Counts)
    assert done == ["open"]


def test_what_a_plugin_says_of_the_made_up_cluster_is_not_heard(caplog: pytest.LogCaptureFixture) -> None:
    class Talks(Plugin):
        name = "talks"

        def on_session_open(self, ssn: Session) -> None:
            ssn.log.error("%d nodes", len(ssn.nodes))

    assembled(Talks)
    assert caplog.records == []


def test_trying_the_plugins_of_the_default_conf_takes_milliseconds() -> None:
    """Under 5 ms of a core that is ours alone; ten times that is allowed where it is shared."""
    registry = Registry()
    assembly = assemble(load(DEFAULT_CONF, catalogue_of(registry)).conf, registry)
    times = []
    for _ in range(5):
        tiers = assembly.tiers()
        started = time.process_time()
        result = try_plugins(tiers, assembly.conf.actions, assembly.compat)
        times.append(time.process_time() - started)
        assert (result.errors, result.warnings) == ([], [])
    assert min(times) < 0.05
