"""What if queues, nodes or the conf were others: what the next cycle would decide, and who fares otherwise."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from answer_desks import EVICTS, desk, proven

from pumice.answers import what_if
from pumice.answers.jobs import NoSuchThing
from pumice.answers.service import Answers
from pumice.answers.supposition import MoreNodes, QueueChange, WhatIf, read_what_if
from pumice.answers.what_if import NOT_ASKED, WhatIfAnswer, fares, summary
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.registry import default_registry
from pumice.testing import job, node, pod, queue

PLAIN = 'actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]'
OUTSIDE = """
actions: "allocate"
tiers:
- plugins:
  - {name: predicates}
  - name: extender
    arguments: {extender.urlPrefix: "http://127.0.0.1:9/", extender.predicateVerb: predicate, extender.ignorable: false}
"""
KAI = "actions: allocate\ntiers: [{plugins: [{name: predicates}, {name: proportion}]}]\ndialect: kai"


def cluster(actions: str = "enqueue, allocate, backfill") -> Answers:
    """Two full queues: `a` is at its limit, `b` waits for nodes."""
    return desk(
        queue("a", capability={"cpu": 4}),
        queue("b"),
        node("n1", cpu=8),
        node("n2", cpu=8),
        job("holds", tasks=4, cpu=1, on="n1", queue="a"),
        job("more", tasks=2, cpu=1, queue="a"),
        job("wide", tasks=9, cpu=2, queue="b"),
        actions=actions,
    )


def asked(at: Answers, **supposed: Any) -> WhatIfAnswer:
    return at.what_if(WhatIf(**supposed)).answer(apart=False)


def fates(answer: WhatIfAnswer) -> dict[str, tuple[str, str]]:
    return {effect.job: (effect.before.fate, effect.after.fate) for effect in answer.jobs}


def test_a_limit_that_is_raised_lets_a_job_start_and_its_queue_stand_otherwise() -> None:
    answer = asked(cluster(), queues={"a": QueueChange(capability={"cpu": "8"})})
    assert answer.changes == ["queue a: capability cpu 4 → 8"]
    assert fates(answer) == {"default/more": ("waits", "starts")}
    assert (answer.starting.before, answer.starting.after) == (0, 1)
    assert (answer.sooner, answer.later) == (1, 0)
    (a,) = [q for q in answer.queues if q.queue == "a"]
    assert a.before is not None
    assert a.after is not None
    assert ([s.allocated for s in a.before.shares], [s.allocated for s in a.after.shares]) == ([4], [6])


def test_a_limit_can_be_lifted_and_set() -> None:
    assert fates(asked(cluster(), queues={"a": QueueChange(capability={"cpu": None})})) == {
        "default/more": ("waits", "starts")
    }
    at = desk(queue("a"), node("n1", cpu=8), job("j", tasks=4, cpu=1, queue="a"))
    assert fates(asked(at, queues={"a": QueueChange(capability={"cpu": 2})})) == {"default/j": ("starts", "waits")}


def test_a_weight_moves_what_queues_deserve() -> None:
    answer = asked(cluster(), queues={"a": QueueChange(weight=7)})
    moved = {q.queue: q for q in answer.queues}
    assert answer.changes == ["queue a: weight 1 → 7"]
    assert moved["a"].after is not None
    assert moved["a"].after.weight == 7
    tight = desk(
        *(queue("a"), queue("b"), node("n1", cpu=8)),
        *(job(f"a{n}", cpu=1, queue="a") for n in range(9)),
        *(job(f"b{n}", cpu=1, queue="b") for n in range(9)),
    )
    answer = asked(tight, queues={"a": QueueChange(weight=3)})
    deserved = {q.queue: [s.deserved for s in side.shares] for q in answer.queues if (side := q.after) is not None}
    assert deserved == {"a": [6], "b": [2]}
    assert sorted(uid[8] for uid, (before, _) in fates(answer).items() if before == "starts") == ["b", "b"]
    assert sorted(uid[8] for uid, (_, after) in fates(answer).items() if after == "starts") == ["a", "a"]


def test_what_is_as_it_was_changes_nothing() -> None:
    for same in (
        WhatIf(queues={"a": QueueChange(weight=1, capability={"cpu": 4})}),
        WhatIf(conf=msgspec.json.encode(cluster().cycle.assembly.conf.to_data()).decode()),
    ):
        answer = cluster().what_if(same).answer(apart=False)
        assert (answer.jobs, answer.queues, answer.sooner, answer.later) == ([], [], 0, 0)
        assert summary(answer) == "Nothing would change."


def test_more_nodes_are_like_the_one_that_is_named() -> None:
    fast = msgspec.structs.replace(pod("x").spec, node_selector={"disk": "fast"})
    at = desk(
        node("n1", cpu=4, labels={"disk": "fast"}),
        node("n2", cpu=4),
        job("runs", tasks=2, cpu=4, on=["n1", "n2"]),
        job("gang", tasks=2, cpu=4, spec=fast),
        learned=proven(),
    )
    assert fates(asked(at, more=[MoreNodes(like="n1", count=2)])) == {"default/gang": ("waits", "starts")}
    assert fates(asked(at, more=[MoreNodes(like="n2", count=9)])) == {}
    one = asked(at, more=[MoreNodes(like="n1", count=1)], job="gang")
    assert one.job is not None
    assert (one.job.before.verdict, one.job.after.verdict) == ("never", "range")
    assert fares(one.job.before) == "waits, and will not start on this cluster as it is"


def test_a_node_that_is_drained_has_its_pods_placed_anew_elsewhere_or_waiting() -> None:
    there = node("n1", cpu=4), node("n2", cpu=4)
    room = desk(*there, job("moves", tasks=2, cpu=1, on="n1"))
    answer = asked(room, drained=["n1"])
    assert answer.changes == ["node n1 drained; 2 pods must move"]
    assert fates(answer) == {"default/moves": ("runs", "moves")}
    full = desk(*there, job("moves", tasks=2, cpu=1, on="n1"), job("stays", tasks=4, cpu=1, on="n2"))
    assert fates(asked(full, drained=["n1"])) == {"default/moves": ("runs", "waits")}


def test_another_conf_decides_by_its_own_actions_and_plugins() -> None:
    answer = asked(cluster(), conf=PLAIN)
    assert answer.changes == ["another conf"]
    assert fates(answer) == {"default/wide": ("waits", "starts")}  # nobody keeps gangs together there


def test_who_would_be_evicted_and_who_would_be_spared_is_named() -> None:
    at = desk(
        *(queue("a"), queue("b"), node("n1", cpu=4)),
        job("low", tasks=4, cpu=1, on="n1", queue="a", min_available=1, preemptible=True),
        job("claims", tasks=2, cpu=1, queue="b"),
    )
    conf = {**at.cycle.assembly.conf.to_data(), "actions": "enqueue, allocate, reclaim, backfill"}
    answer = asked(at, conf=msgspec.json.encode(conf).decode())
    assert (answer.evicted.before, answer.evicted.after) == (0, 2)
    assert {(e.job, e.action, e.beneficiary) for e in answer.evictions} == {
        ("default/low", "reclaim", "default/claims")
    }
    assert fates(answer) == {"default/low": ("runs", "evicted"), "default/claims": ("waits", "promised")}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "nothing to change"),
        ({"conf": "  "}, "nothing to change"),
        ({"queues": {"a": {"weigth": 3}}}, "has no field 'weigth'"),
        ({"queues": {"a": {"weight": -1}}}, ">= 0"),
        ({"queues": {"a": {"weight": "3"}}}, "must be a whole number"),
        ({"more": [{"like": "n1", "count": 0}]}, ">= 1"),
        ({"more": [{"like": "n1", "count": 10**6}]}, "<= 1000"),
        ({"drained": [3]}, "must be text"),
        ({"path": "/etc/passwd"}, "has no field 'path'"),
        ([], "must be a mapping"),
    ],
)
def test_what_cannot_be_read_is_told(data: object, said: str) -> None:
    with pytest.raises(InvalidInput) as no:
        read_what_if(data)
    assert said in str(no.value)


@pytest.mark.parametrize("field", [*QueueChange.__struct_fields__, "weigth"])
def test_a_queue_that_breaks_a_rule_is_named_with_its_field_and_its_value(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^what is supposed: queue 'b': {field} -9.5: (must be|has no field)"):
        read_what_if({"queues": {"a": {"weight": 2}, "b": {"reclaimable": True, field: -9.5}}})


@pytest.mark.parametrize(
    ("supposed", "kind", "said"),
    [
        (WhatIf(queues={"aa": QueueChange(weight=3)}), NoSuchThing, "no queue named 'aa'"),
        (WhatIf(drained=["n3"]), NoSuchThing, "no node named 'n3'"),
        (WhatIf(more=[MoreNodes(like="m1")]), NoSuchThing, "node named 'm1'"),
        (WhatIf(drained=["n1"], job="widee"), NoSuchThing, "did you mean 'wide'?"),
        (WhatIf(queues={"a": QueueChange(capability={"cpu": "many"})}), InvalidInput, "many"),
        (WhatIf(queues={"a": QueueChange(deserved={"cpu": -4})}), InvalidInput, "-4"),
        (WhatIf(conf="actions: ["), PumiceError, "conf:2:1: not YAML"),
        (WhatIf(conf='actions: "nothing"\ntiers: []'), PumiceError, "unknown action"),
        (WhatIf(conf=KAI), PumiceError, "conf"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_happens(supposed: WhatIf, kind: type[Exception], said: str) -> None:
    at = cluster()
    before = at.cycle.record()
    with pytest.raises(kind) as no:
        at.what_if(supposed).answer(apart=False)
    assert said in str(no.value)
    assert at.cycle.record() == before


def test_extenders_are_not_asked_whoever_names_them() -> None:
    """A conf may come from anybody who may ask: no address in it is called, no file of it is read."""
    at, seen = cluster(), list[str]()
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen"):
            seen.append(event)

    sys.addaudithook(hook)
    try:
        answer = asked(at, conf=OUTSIDE)
    finally:
        watching = False
    assert seen == []
    assert NOT_ASKED in answer.assumes
    assert fates(answer) == {"default/wide": ("waits", "starts")}


def test_of_those_who_wait_the_first_are_handed_over_and_the_one_that_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many wait, what passes from process to process is bounded; nobody's fate is left out."""
    jobs = (job(f"j{n}", tasks=8, cpu=1, queue="a") for n in range(9))
    at = desk(queue("a"), node("n1", cpu=8), *jobs, learned=proven("a"))
    question = at.what_if(WhatIf(queues={"a": QueueChange(weight=2)}, job="j8"))
    whole = question.answer(apart=False)
    monkeypatch.setattr(what_if, "MOST_PLAYED", 3)
    both = what_if.play_sides(question.instant, question.objects, question.asked, question.registry)
    for side in (both.before, both.after):
        assert [waiter.job for waiter in side.scene.waiters] == [f"default/j{n}" for n in (1, 2, 3, 8)]
        assert sorted(side.fates) == [f"default/j{n}" for n in range(9)]
    bounded = question.answer(apart=False)
    assert (bounded.waiting, bounded.starting, bounded.jobs) == (whole.waiting, whole.starting, whole.jobs)
    assert bounded.job is not None
    assert bounded.job.before.verdict == "range"


# -- in a process of its own ----------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_process_of_its_own_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    question = cluster(EVICTS).what_if(WhatIf(queues={"a": QueueChange(capability={"cpu": 8})}, job="wide"))
    ours, theirs = question.answer(apart=False), question.answer()
    assert msgspec.structs.replace(theirs, milliseconds=ours.milliseconds) == ours
    assert msgspec.json.decode(msgspec.json.encode(theirs), type=WhatIfAnswer) == theirs
    with pytest.raises(InvalidInput, match="unknown action"):
        cluster().what_if(WhatIf(conf='actions: "nothing"\ntiers: []')).answer()


@pytest.mark.slow
def test_it_knows_the_plugins_of_our_directories_and_is_told_of_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    (tmp_path / "nosy.py").write_text(
        "import os\nfrom pumice import Plugin, reject\n\n\nclass Nosy(Plugin):\n    name = 'nosy'\n\n"
        "    def on_session_open(self, ssn):\n        print('printed')\n"
        "        said = ' '.join(sorted(name for name in os.environ if 'KUBE' in name))\n"
        "        ssn.add_job_valid_fn(self.name, lambda job: reject(f'no: {said}') if said else None)\n"
    )
    registry = default_registry().copy()
    registry.load_directory(tmp_path)
    at = cluster()
    at.cycle.assembly.registry = registry
    conf = 'actions: "allocate"\ntiers: [{plugins: [{name: predicates}, {name: nosy}]}]'
    assert fates(at.what_if(WhatIf(conf=conf)).answer()) == {"default/wide": ("waits", "starts")}


def test_one_is_answered_at_a_time_and_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    question = cluster().what_if(WhatIf(drained=["n1"]))
    held = threading.Lock()
    monkeypatch.setattr(what_if, "_one", held)
    with held, pytest.raises(what_if.NotNow) as no:
        question.answer()
    assert no.value.retryable
    with pytest.raises(PumiceError, match="no answer within"):
        what_if.play_apart(question.instant, question.objects, question.asked, default_registry(), seconds=0.01)
    assert not held.locked()


def test_a_process_that_dies_is_a_failure_with_its_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho out of memory >&2\nexit 9\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(PumiceError, match="out of memory"):
        cluster().what_if(WhatIf(drained=["n1"])).answer()


def test_a_running_job_of_a_drained_node_moves_and_does_not_start() -> None:
    at = desk(node("n1", cpu=4), node("n2", cpu=4), job("serves", tasks=2, cpu=1, on="n1"), learned=proven())
    answer = at.what_if(WhatIf(drained=["n1"])).answer(apart=False)
    (effect,) = answer.jobs
    assert (effect.before.fate, effect.after.fate) == ("runs", "moves")
    assert (fares(effect.before), fares(effect.after)) == ("runs on n1", "restarts on n2")
    assert (answer.sooner, answer.later, answer.moved, answer.starting.after) == (0, 0, 1, 0)
    assert summary(answer).startswith("1 running job restarts on other nodes;")
