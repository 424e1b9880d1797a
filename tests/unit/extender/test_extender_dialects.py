"""How questions are recognised and read: units, names alone, unusual values, and what is refused."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest
from extender_samples import NODE, POD, question, recognised
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.errors import InvalidInput, PumiceError
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.told_state import ToldState
from pumice.extender.dialects import DIALECTS, QuestionReader
from pumice.extender.gojson import WireError
from pumice.model import api
from pumice.model.request import asked_by
from pumice.model.status import TaskStatus


def read(verb: p.Verb[Any], dialect: str = "", **fields: Any) -> dict[str, Any]:
    """What a question with these fields tells."""
    return QuestionReader(dialect).read(verb, json.dumps(fields).encode()).parts


@pytest.mark.parametrize(
    ("verb", "body", "dialect"),
    [
        (p.PREDICATE, b'{"task": {"UID": "u"}, "node": {"Name": "n"}}', "volcano"),
        (p.PREDICATE, b'{"task": {"uid": "u"}, "node": {"name": "n"}}', "documented"),
        (p.ON_SESSION_OPEN, b'{"Jobs": {}, "Nodes": {}, "Queues": {}}', "volcano"),
        (p.ON_SESSION_OPEN, b'{"snapshot": {}}', "documented"),
        (p.JOB_ORDER, b'{"jobs": [{"UID": "u"}]}', "volcano"),
        (p.JOB_ORDER, b'{"jobs": []}', "documented"),
        (p.JOB_ORDER, b'{"jobs": null}', "documented"),
        (p.PRIORITIZE, b'{"pod": {}, "nodes": {"items": []}}', "kube"),
        (p.BIND, b'{"PodName": "p", "Node": "n"}', "kube"),
        (p.ON_SESSION_CLOSE, b"{}", "documented"),
        (p.PREDICATE, b'{"task": {"UID": "u"}} trailing', "volcano"),
    ],
)
def test_a_question_is_recognised(verb: p.Verb[Any], body: bytes, dialect: str) -> None:
    assert recognised(verb, body) == dialect


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"nonsense", b'{"task": 5}', b'{"task": [5]}'])
def test_what_is_no_question_is_refused(body: bytes) -> None:
    with pytest.raises(WireError, match=r"request: "):
        recognised(p.PREDICATE, body)
    with pytest.raises(WireError):
        QuestionReader().read(p.PREDICATE, body)


def test_the_example_of_the_documentation_is_read() -> None:
    asked = read(
        p.PREDICATE,
        task={"namespace": "default", "name": "task-1", "resources": {"cpu": 2, "memory": 4096}},
        node={"name": "node-1", "allocatable": {"cpu": 8, "memory": 16384}},
    )
    state = ToldState()
    task, node = state.task(asked["task"]), state.node(asked["node"])
    assert (task.key, task.requests.milli_cpu, task.requests.memory) == ("default/task-1", 2000, 4 * 2**30)
    assert node is not None
    assert (node.allocatable["cpu"], node.allocatable.memory) == (8, 16 * 2**30)
    answer = DIALECTS["documented"].write_answer(p.PREDICATE, a.NodeRefusal())
    assert answer == b'{"code":0,"errorMessage":""}'


@pytest.mark.parametrize(
    ("resources", "rule"),
    [
        ({"cpu": 1e300}, "must be below"),
        ({"cpu": 1e15}, "must be below"),
        ({"cpu": -1}, "must not be negative"),
        ({"anything": -1}, "must not be negative"),
        ({"memory": 9e15}, "must be below"),
    ],
)
def test_an_amount_that_no_machine_has_is_refused(resources: dict[str, float], rule: str) -> None:
    task = {"namespace": "a", "name": "b", "resources": resources}
    with pytest.raises(PumiceError, match=rule):
        ToldState().task(read(p.ALLOCATE_FUNC, task=task)["task"])


@pytest.mark.parametrize("ledger", ["idle", "used"])
@pytest.mark.parametrize("amount", [9e15, -9e15])
def test_a_ledger_that_sums_could_not_hold_is_refused(ledger: str, amount: float) -> None:
    node = {"name": "n", "allocatable": {"cpu": 1}, ledger: {"cpu": amount}}
    with pytest.raises(WireError, match=r"request: node: amount of cpu: must be below"):
        read(p.PREDICATE, task={"namespace": "a", "name": "b", "labels": {}}, node=node)


def test_what_a_node_holds_follows_from_the_half_that_is_told() -> None:
    def ledgers(**told: Any) -> Any:
        node = {"name": "n", "allocatable": {"cpu": 8, "memory": 16}, **told}
        return read(p.PREDICATE, task={"name": "b", "labels": {}}, node=node)["node"].ledgers

    assert ledgers() is None
    assert ledgers(used={"cpu": 3}).idle[0] == 5000
    assert ledgers(idle={"cpu": 3}).used[0] == 5000


@pytest.mark.parametrize(
    ("task", "bare"),
    [
        ({"name": "t"}, True),
        ({"namespace": "a", "name": "t", "uid": "u", "nodeName": "n", "phase": "Running"}, True),
        ({"name": "t", "labels": {}}, False),
        ({"name": "t", "resources": {}}, False),
        ({"UID": "u", "Name": "t", "Namespace": "a"}, True),
        ({"UID": "u", "Name": "t", "Namespace": "a", "Pod": {}}, False),
        ({"UID": "u", "Name": "t", "Namespace": "a", "Resreq": {"MilliCPU": 500}}, False),
    ],
)
def test_a_task_is_a_mere_name_where_nothing_else_is_said(task: dict[str, Any], bare: bool) -> None:
    assert read(p.ALLOCATE_FUNC, task=task)["task"].bare is bare


def test_a_pod_says_what_the_message_says_beside_it() -> None:
    told = read(
        p.ALLOCATE_FUNC,
        task={
            "UID": "u",
            "Job": "ml/train",
            "Name": "t",
            "Namespace": "ml",
            "TaskRole": "worker",
            "NodeName": "n1",
            "Status": 32,
            "Priority": 7,
            "Preemptable": False,
            "Pod": {"metadata": {"labels": {"a": "b"}}},
        },
    )["task"]
    task = ToldState().task(told)
    assert (task.uid, task.key, task.job_key, task.role) == ("u", "ml/t", "ml/train", "worker")
    assert (task.priority, task.preemptable, task.status) == (7, False, TaskStatus.RUNNING)
    assert (task.node_name, task.labels["a"]) == ("n1", "b")


@pytest.mark.parametrize(
    ("verb", "fields", "rule"),
    [
        (p.PREDICATE, {"node": {"name": "n"}}, "missing required field `task`"),
        (p.PREDICATE, {"task": {"name": 5}, "node": {"name": "n"}}, "name: must be text, got a whole number"),
        (p.PREDICATE, {"task": {"name": "t", "phase": "Dreaming"}, "node": {"name": "n"}}, "phase: must be one of"),
        (p.PREDICATE, {"task": {"labels": {}}, "node": {"name": "n"}}, "name: is missing"),
        (p.ALLOCATE_FUNC, {"task": {"UID": "u", "Status": 3}}, "Status of task 'u': must be one of"),
        (
            p.ALLOCATE_FUNC,
            {"task": {"UID": "u", "Pod": {"metadata": {"labels": {"a": 1}}}}},
            "must be text, got a whole number",
        ),
        (p.JOB_READY, {"job": {"name": "a/b"}}, r"name: must be text matching regex"),
        (p.JOB_READY, {"job": {"UID": "a/b/c"}}, "no slash"),
        (p.BATCH_PREDICATE, {"Pod": None, "Nodes": None}, "Pod: must be given"),
        (p.BATCH_PREDICATE, {"Pod": {"spec": {"containers": [5]}}}, "must be a mapping, got a whole number"),
        (p.BATCH_PREDICATE, {"Pod": POD, "Nodes": {"items": [3]}}, "must be a mapping, got a whole number"),
        (p.BIND, {"PodName": "p"}, "request.node: must be given, got None"),
        (p.JOB_READY, {"Pod": POD}, "the kube dialect does not carry this verb"),
    ],
)
def test_a_bad_question_is_refused_with_verb_and_rule(verb: p.Verb[Any], fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(WireError, match=rf"^extender {verb}: .*{rule}"):
        read(verb, **fields)


@pytest.mark.parametrize("field", ["NodeNameToVictims", "nodeToVictims"])
def test_kube_schedulers_victims_are_read_whole_or_by_uid(field: str) -> None:
    whole = read(p.PREEMPT, Pod=POD, **cast("Any", {field: {"n1": {"Pods": [POD], "NumPDBViolations": 1}}}))
    ((victims, violations),) = whole["candidates"].values()
    assert (victims[0].pod.metadata.uid, violations) == ("uid-0", 1)
    by_uid = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}
    named = read(p.PREEMPT, pod=POD, nodenametometavictims=by_uid)
    assert [(task.pod.metadata.uid, task.bare) for task in named["candidates"]["n1"][0]] == [("u", True)]


@pytest.mark.parametrize("fields", [{"pod": POD, "nodenames": ["a"]}, {"Pod": POD, "Nodes": None, "NodeNames": ["a"]}])
def test_kube_schedulers_names_are_read_in_any_case(fields: dict[str, Any]) -> None:
    asked = read(p.BATCH_PREDICATE, **fields)
    assert [(node.node.metadata.name, node.bare) for node in asked["nodes"]] == [("a", True)]
    assert QuestionReader().read(p.BATCH_PREDICATE, json.dumps(fields).encode()).echo() is None


def test_kube_scheduler_gets_back_names_or_nodes_and_whole_scores() -> None:
    kube = DIALECTS["kube"]
    refused = a.NodeRefusals(errors={"b": "full"}, codes={"b": 2, "c": 3}, fitting=["a"])
    named = json.loads(kube.write_answer(p.BATCH_PREDICATE, refused))
    assert (named["NodeNames"], named["FailedNodes"]) == (["a"], {"b": "full"})
    assert named["FailedAndUnresolvableNodes"] == {"c": "code 3"}
    echo = (
        QuestionReader().read(p.BATCH_PREDICATE, json.dumps({"Pod": POD, "Nodes": {"items": [NODE]}}).encode()).echo()
    )
    whole = json.loads(kube.write_answer(p.BATCH_PREDICATE, a.NodeRefusals(fitting=["gpu-1"], echoed=echo)))
    assert (whole["Nodes"]["items"], whole["NodeNames"]) == ([NODE], None)
    with pytest.raises(WireError, match="must name the nodes that fit"):
        kube.write_answer(p.BATCH_PREDICATE, a.NodeRefusals())
    scores = json.loads(kube.write_answer(p.PRIORITIZE, a.Scores(scores={"b": 2.5, "a": -0.4})))
    assert scores == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 3}]
    with pytest.raises(WireError, match="number nan: JSON has no such number"):
        kube.write_answer(p.PRIORITIZE, a.Scores(scores={"a": float("nan")}))


def test_a_filter_of_kube_scheduler_that_names_no_nodes_lets_none_pass() -> None:
    answer = DIALECTS["kube"].read_answer(p.BATCH_PREDICATE, b'{"FailedNodes": {"a": "full"}}')
    assert answer.refused(["a", "b"]) == {"a": (2, "full"), "b": (2, "not among the nodes that fit")}
    assert DIALECTS["kube"].read_answer(p.PRIORITIZE, b"null").scores == {}


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside *value*."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in _places(item, (*path, key)))]


def _replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _replaced(value[path[0]], path[1:], odd)
    return changed


QUESTIONS = {
    name: [(verb, json.loads(question(p.VERBS[verb], name))) for verb in sorted(dialect.carries)]
    for name, dialect in DIALECTS.items()
}


@pytest.mark.parametrize("name", sorted(DIALECTS))
@given(data=st.data())
@settings(deadline=None, max_examples=examples(60))
def test_a_question_with_one_odd_value_is_read_or_refused(name: str, data: st.DataObject) -> None:
    verb, request = data.draw(st.sampled_from(QUESTIONS[name]))
    place = data.draw(st.sampled_from(_places(request)))
    body = json.dumps(_replaced(request, place, data.draw(odd_values))).encode()
    try:
        QuestionReader().read(p.VERBS[verb], body)
    except WireError as error:
        assert str(error)


@pytest.mark.parametrize("job", [{}, {"namespace": "ml"}, {"uid": "ml/"}, {"uid": "ml/a/b"}])
def test_a_job_without_a_name_in_a_snapshot_is_refused_by_the_reader(job: dict[str, str]) -> None:
    body = json.dumps({"snapshot": {"jobs": [job], "nodes": [], "queues": []}}).encode()
    with pytest.raises(WireError, match=r"onSessionOpen: request: PodGroup .* must have names, and no slash in them"):
        QuestionReader().read(p.VERBS["onSessionOpen"], body)


_TASK, _OTHER = '{"uid":"u","namespace":"a","name":"t"}', '{"uid":"v","namespace":"a","name":"t"}'
_N1, _N2 = '{"name":"n1"}', '{"name":"n2"}'
_ALIKE = [
    f'{{"task":{_TASK},"node":{_N1}}}',
    f'{{"task":{_TASK},"node":{_N2}}}',
    f'{{"task":{_OTHER},"node":{_N1}}}',
    f'{{"task": {_TASK}, "node": {_N1}}}',
    f'{{"task": {_TASK}, "node": {_N2}}}',
    f'{{"node":{_N1},"task":{_TASK}}}',
    f'{{"task":{_TASK},"node":{_N1},"more":{_N1}}}',
    f'{{"task":{_TASK},"node":{_N1},"more":{_N2}}}',
    f'{{"task":{_TASK},"node":{_N2},"node":{_N1}}}',
    f'{{"more":1,"task":{_TASK},"node":{_N1},"more":{_N1}}}',
    f'{{"more":1,"task":{_TASK},"node":{_N1},"more":{_N2}}}',
    f'{{"task":{_TASK},"node":{_N1}}} and more',
    f'{{"task":{_TASK},"node":{_N1}',
    f'{{"task":{_TASK},"node":{_N1}}}}}',
    f'{{"task":{_TASK},"node":{_N1},}}',
    '{"task":{"UID":"u","Name":"t"},"node":{"Name":"n1"}}',
    '{"task":{"UID":"u","Name":"t"},"node":{"name":"n1"}}',
]


def _told(reader: QuestionReader, body: str) -> Any:
    try:
        asked = reader.read(p.PREDICATE, body.encode())
    except PumiceError as error:
        return str(error)
    return asked.dialect.name, asked.parts["task"].pod.metadata, asked.parts["node"].node.metadata.name


@pytest.mark.parametrize("before", _ALIKE)
def test_a_question_is_read_alike_whatever_was_read_before(before: str) -> None:
    for body in _ALIKE:
        reader = QuestionReader()
        _told(reader, f'{{"task":{_TASK},"node":{_N2}}}')
        _told(reader, before)
        assert _told(reader, body) == _told(QuestionReader(), body)


def _about(nodes: list[str], task: str = _TASK) -> str:
    return f'{{"task":{task},"nodes":[{",".join(nodes)}]}}'


_MANY = [f'{{"name":"m{n}","labels":{{"a":"x,"}}}}' for n in range(100)]
_LISTS = [
    _about(_MANY),
    _about(_MANY, '{"uid":"v","namespace":"n","name":"other"}'),
    _about([]),
    _about(_MANY[:-1]),
    _about([*_MANY[:40], _N1, *_MANY[41:]]),
    _about([*_MANY[:40], *_MANY[41:]]),
    _about([*_MANY[:10], _N1, _N2, *_MANY[70:], *_MANY[:10]]),
    _about([*_MANY, _N1]),
    _about(_MANY[::-1]),
    _about(_MANY)[:-1],
    _about(_MANY) + "}",
    _about(_MANY) + " and more",
    _about([*_MANY, ""]),
    _about(["", *_MANY]),
    _about([*_MANY[:40], "", *_MANY[41:]]),
    _about([*_MANY[:40], '{"name":1}', *_MANY[41:]]),
    _about([*_MANY[:40], "[[", *_MANY[41:]]),
    _about([",".join(_MANY[:50]) + _MANY[50], *_MANY[51:]]),
    _about(_MANY).replace('"task"', '"task":1,"task"'),
    _about(_MANY).replace('"nodes"', '"nodes":null,"nodes"'),
    _about(_MANY).replace('"nodes"', '"Pod":{},"nodes"'),
    _about(_MANY).replace(',"nodes"', ',"more":{"a":1,"nodes"') + "}",
    _about(_MANY).replace(',"nodes"', ',"more":",\\"nodes\\":[","nodes"'),
    _about(_MANY).replace(f'"task":{_TASK},', ""),
    _about(_MANY).replace(f'"task":{_TASK}', ""),
    _about(_MANY).replace('","nodes"', '\\","nodes"'),
]


def _all_told(reader: QuestionReader, body: str) -> Any:
    try:
        asked = reader.read(p.PRIORITIZE, body.encode())
    except PumiceError as error:
        return str(error)
    return asked.dialect.name, asked.parts["task"].pod, [one.node for one in asked.parts["nodes"]]


@pytest.mark.parametrize("before", _LISTS)
def test_a_list_of_nodes_is_read_alike_whatever_was_read_before(before: str) -> None:
    reader = QuestionReader()
    for body in _LISTS:
        _all_told(reader, before)
        assert _all_told(reader, body) == _all_told(QuestionReader(), body)


def test_of_a_list_of_nodes_that_comes_again_only_what_changed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, read_now = QuestionReader(), list[bytes]()
    before = reader.read(p.PRIORITIZE, _about(_MANY).encode()).parts["nodes"]
    documented = type(DIALECTS["documented"])
    whole = documented.read_object

    def read(*about: Any) -> object:
        read_now.append(about[2])
        return whole(*about)

    monkeypatch.setattr(documented, "read_object", read)
    after = reader.read(p.BATCH_PREDICATE, _about([*_MANY[:40], _N1, *_MANY[42:]]).encode()).parts["nodes"]
    assert read_now == [_N1.encode()]
    assert all(one is other for one, other in zip(after[:40] + after[41:], before[:40] + before[42:], strict=True))


def _requests(**amounts: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": amounts}}


_SPECS: dict[str, dict[str, Any]] = {
    "storage": {"containers": [_requests(**{"ephemeral-storage": "1500m"})]},
    "huge pages": {"containers": [_requests(**{"hugepages-2Mi": "4Mi"})]},
    "not counted": {"containers": [_requests(cpu="1", foo="3", **{"count/x": "1", "requests.nvidia.com/gpu": "1"})]},
    "a sidecar": {
        "containers": [_requests(cpu=1)],
        "initContainers": [{**_requests(cpu="2"), "restartPolicy": "Always"}],
    },
    "overhead": {"containers": [_requests(cpu=0.1)], "overhead": {"cpu": "100m"}},
    "limits alone": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
    **{
        f"of the pod: {name}": {
            "containers": [_requests(**{"cpu": "1", name: "1"})],
            "resources": {"requests": {name: "4"}},
        }
        for name in ("cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "nvidia.com/gpu")
    },
    **{
        f"cpu {text!r}": {"containers": [_requests(cpu=text)]}
        for text in ("1n", "1u", "0.5m", "1.0000000001", "1e3", "1Ei", "1K", "1_000", "\u0661", "-1", "1e61", "1e999")
    },
}


@pytest.mark.parametrize("dialect", ["volcano", "kube"])
@pytest.mark.parametrize("spec", _SPECS.values(), ids=_SPECS)
def test_a_pod_asks_for_the_same_over_the_wire_as_in_the_cluster(dialect: str, spec: dict[str, Any]) -> None:
    """There is one reader of quantities and one of pods; what the one refuses the other does not take."""
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": {"phase": "Pending"}}
    node: dict[str, Any] = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    told: dict[str, dict[str, Any]] = {
        "volcano": {
            "task": {"UID": "u", "Name": "p", "Namespace": "n", "Pod": pod},
            "nodes": [{"Name": "n1", "Node": node}],
        },
        "kube": {"Pod": pod, "Nodes": {"items": [node]}},
    }
    try:
        expected = dict(asked_by(msgspec.convert(spec, api.PodSpec)).requests.items())
    except InvalidInput as refused:
        with pytest.raises(PumiceError) as error:
            ToldState().task(read(p.BATCH_PREDICATE, dialect, **told[dialect])["task"])
        assert str(refused) in str(error.value)
    else:
        assert (
            dict(ToldState().task(read(p.BATCH_PREDICATE, dialect, **told[dialect])["task"]).requests.items())
            == expected
        )
