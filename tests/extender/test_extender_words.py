"""What an extender says when it refuses, or when it fails, is what the user reads."""

from __future__ import annotations

import pytest
from extender_service import Reply, Service
from extender_world import arguments, cluster, conf, group, node, pod

from pumice.config import from_data
from pumice.extender.plugin import close_clients
from pumice.framework.explaining.explain import Explanation, explain
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle

WORDS = "the GPU database is down"
DOWN = Reply(f'{{"errorMessage": "{WORDS}"}}'.encode(), 500)
STAGES = {
    "onSessionOpen": ("valid", "ExtenderUnavailable"),
    "jobEnqueueable": ("enqueue", "NotLetIn"),
    "jobValid": ("valid", "NotValid"),
    "queueOverused": ("queue", "QueueRefused"),
    "allocatable": ("queue", "QueueRefused"),
    "predicate": ("nodes", "NoNodeFits"),
    "prioritize": ("nodes", "NoNodeFits"),
    "jobReady": ("ready", "GangNotReady"),
    "allocateFunc": ("objection", "PlacementRefused"),
}
SAID = {
    "jobValid": {"status": False, "errorMessage": WORDS},
    "allocatable": {"status": False, "errorMessage": WORDS},
    "predicate": {"code": 2, "errorMessage": WORDS},
    "jobReady": {"status": False, "errorMessage": WORDS},
    "allocateFunc": {"errorMessage": WORDS},
}


def why(verb: str, answer: object) -> Explanation:
    """One cycle with an extender that answers one verb in one way; why the job waits."""
    state = cluster([node("n1", gpu=4)], [pod("train-worker-0")], [group(members=1, phase="Pending")])
    registry, runtime = default_registry(), Runtime()
    found: list[Explanation] = []
    with Service(lambda _, __: answer) as service:
        given = arguments(service.url, verb, ignorable=False)
        data = conf([[{"name": "gang"}, {"name": "extender", "arguments": given}]])
        assembly = assemble(from_data(data, catalogue_of(registry), source="test").conf, registry)
        try:
            run_cycle(state, assembly, runtime, inspect=lambda ssn: found.append(explain(ssn, ssn.jobs["ml/train"])))
        finally:
            close_clients(runtime.memory)
    assert service.calls[verb]
    return found[0]


@pytest.mark.parametrize("verb", STAGES)
def test_the_message_of_an_error_is_read_and_no_advice_is_made_up(verb: str) -> None:
    found = why(verb, DOWN)
    assert (str(found.stage), found.code) == STAGES[verb]
    assert WORDS in found.text
    assert found.unblock == ([f"n1 would fit but for this: {found.reasons[0].text}"] if verb == "predicate" else [])


@pytest.mark.parametrize("verb", SAID)
def test_the_message_of_a_refusal_is_read_and_no_advice_is_made_up(verb: str) -> None:
    found = why(verb, SAID[verb])
    assert (str(found.stage), found.code) == STAGES[verb]
    assert WORDS in found.text
    assert found.unblock == ([f"n1 would fit but for this: {WORDS}"] if verb == "predicate" else [])


@pytest.mark.parametrize(
    ("verb", "answer"), [("jobEnqueueable", {"status": -1}), ("queueOverused", {"overused": True})]
)
def test_an_extender_that_says_no_without_a_word_is_named(verb: str, answer: object) -> None:
    found = why(verb, answer)
    assert (str(found.stage), found.code, found.plugin) == (*STAGES[verb], "extender")
    assert "the extender says" in found.text
    assert found.unblock == []
