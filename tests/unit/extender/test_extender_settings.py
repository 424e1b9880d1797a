"""The arguments of an extender: defaults, forms, and errors that name argument, value and rule."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engine.scope import Scope
from pumice.errors import InvalidInput
from pumice.extender.asking.settings import ExtenderSettings, Transport, read_settings
from pumice.extender.plugin import Extender
from pumice.framework.plugin import Arguments
from pumice.model.selectors import label_selector_matches


def _read(**given: Any) -> ExtenderSettings:
    return read_settings(Arguments({f"extender.{name}": value for name, value in given.items()}))


def test_without_arguments_the_extender_is_off() -> None:
    settings = _read()
    assert settings.transport is None
    assert settings.verbs == {}
    assert settings.dialect == ""
    assert settings.scope is Scope.SESSION
    assert settings.ignorable is False


def test_arguments_are_read_in_volcanos_forms() -> None:
    settings = _read(
        urlPrefix="http://127.0.0.1:8888/",
        httpTimeout="1m30s",
        predicateVerb="/predicate",
        prioritizeVerb="",
        ignorable="true",
        managedResources="nvidia.com/gpu, nvidia.com/gpumem",
    )
    assert settings.transport == Transport("http://127.0.0.1:8888", timeout=90.0)
    assert settings.verbs == {"predicate": "predicate"}
    assert settings.ignorable is True
    assert settings.managed == {"nvidia.com/gpu", "nvidia.com/gpumem"}
    assert _read(managedResources=["nvidia.com/gpu"]).managed == {"nvidia.com/gpu"}


@pytest.mark.parametrize(("text", "seconds"), [("100ms", 0.1), ("1s", 1.0), ("1m", 60.0), ("0s", None), ("0", None)])
def test_a_time_out_is_a_go_duration_and_none_at_0(text: str, seconds: float | None) -> None:
    transport = _read(urlPrefix="http://x", httpTimeout=text).transport
    assert transport is not None
    assert transport.timeout == seconds


@pytest.mark.parametrize(("given", "seconds"), [("soon", 1.0), (5, 1.0), ("-1s", None), ("0s", None), ("2s", 2.0)])
def test_as_volcano_reads_it_a_time_out_that_is_none_is_a_second_and_a_negative_one_no_limit(
    given: object, seconds: float | None
) -> None:
    written = {"extender.urlPrefix": "http://x", "extender.httpTimeout": given}
    transport = read_settings(Arguments(written, typed=True)).transport
    assert transport is not None
    assert transport.timeout == seconds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"httpTimeout": "soon"}, "extender.httpTimeout.*soon"),
        ({"httpTimeout": "-1s"}, "extender.httpTimeout.*not be negative.*-1s"),
        ({"sessionBudget": "-5ms"}, "extender.sessionBudget.*not be negative"),
        ({"httpTimeout": 5}, "extender.httpTimeout.*text"),
        ({"urlPrefix": "ftp://x"}, "extender.urlPrefix.*http.*ftp"),
        ({"urlPrefix": "localhost:8080"}, "extender.urlPrefix"),
        ({"dialect": "latin"}, "extender.dialect.*one of.*latin"),
        ({"scope": "galaxy"}, "extender.scope.*static, node, session.*galaxy"),
        ({"payload": "some"}, "extender.payload.*full, names.*some"),
        ({"concurrency": 0}, "extender.concurrency.*at least 1"),
        ({"ignorable": "maybe"}, "extender.ignorable.*true or false.*maybe"),
        ({"managedResources": 7}, "extender.managedResources.*list.*7"),
        ({"failurePolicy": {"predicat": "fail"}}, "failurePolicy.*predicat"),
        ({"failurePolicy": {"predicate": "hope"}}, "failurePolicy.*fail or ignore.*hope"),
        ({"failurePolicy": 3}, "failurePolicy.*table.*3"),
        ({"certFile": "c.pem"}, "certFile.*keyFile.*together"),
        ({"bypassSelector": "app in (a)"}, "bypassSelector.*key=value"),
        ({"dialect": "kube", "jobReadyVerb": "ready"}, "jobReadyVerb.*kube dialect carries only"),
        ({"predicateVerb": 3}, "extender.predicateVerb.*text.*3"),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        _read(**given)


def test_a_failure_policy_is_a_table_or_a_text() -> None:
    as_text = _read(failurePolicy="predicate=ignore, jobReady=fail", ignorable=True)
    as_table = _read(failurePolicy={"predicate": "ignore", "jobReady": "fail"}, ignorable=True)
    assert as_text == as_table
    assert [as_text.ignores(verb) for verb in ("predicate", "jobReady", "prioritize")] == [True, False, True]


def test_the_kube_dialect_means_kube_schedulers_verbs() -> None:
    settings = _read(dialect="kube", predicateVerb="filter", prioritizeVerb="score", preemptableVerb="preempt")
    assert settings.verbs == {"batchPredicate": "filter", "prioritize": "score", "preempt": "preempt"}


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://127.0.0.1:1", False),
        ("http://localhost", False),
        ("http://[::1]:8", False),
        ("https://extender.example", False),
        ("http://extender.example", True),
        ("http://10.0.0.1:8888", True),
    ],
)
def test_plain_http_is_exposed_where_it_leaves_the_machine(url: str, exposed: bool) -> None:
    assert Transport(url).exposed is exposed


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("app=a", {"app": "a"}, True),
        ("app=a", {"app": "b"}, False),
        ("app==a,tier!=web", {"app": "a"}, True),
        ("app=a,tier!=web", {"app": "a", "tier": "web"}, False),
        ("gpu", {"gpu": ""}, True),
        ("!gpu", {"gpu": ""}, False),
    ],
)
def test_a_bypass_selector_is_written_as_for_kubectl(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert label_selector_matches(_read(bypassSelector=selector).bypass, labels) is matches


def test_a_name_becomes_part_of_the_plugins_name() -> None:
    assert Extender(Arguments({})).name == "extender"
    assert Extender(Arguments({"extender.name": "licences"})).name == "extender/licences"
