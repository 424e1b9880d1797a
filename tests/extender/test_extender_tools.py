"""The tools for authors: check a running extender, record it, answer from the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from extender_service import Reply, Service
from extender_serving import Serving
from extender_world import arguments, conf, cycle, small
from typer.testing import CliRunner

from pumice.cli.app import app as command
from pumice.cli.policies import policy_builders
from pumice.config import from_data
from pumice.errors import InvalidInput
from pumice.extender import cassette
from pumice.extender.asking.calls import EXCHANGES, ReplayCallers
from pumice.extender.asking.settings import Transport
from pumice.extender.cassette import player, recorder
from pumice.extender.check import check
from pumice.extender.plugin import CALLERS, close_clients
from pumice.extender.server import app
from pumice.framework.plugin import Plugin
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle


class Odd(Plugin):
    """Refuses n1."""

    name = "odd"

    def predicate(self, task: Task, node: Node) -> None:
        if node.name == "n1":
            raise Unfit("odd")


@pytest.mark.parametrize("dialect", ["documented", "volcano", "kube"])
def test_our_own_server_passes_the_check_in_every_dialect(dialect: str) -> None:
    with Serving(app([Odd])) as serving:
        verdicts = check(Transport(serving.url), dialect=dialect)
    assert [one for one in verdicts if one.outcome != "ok"] == []
    assert len(verdicts) == (3 if dialect == "kube" else 22)


def test_the_check_names_what_breaks_the_contract() -> None:
    said: dict[str, Any] = {
        "predicate": {"code": 9},
        "prioritize": {"nodeScore": {"elsewhere": 1}},
        "batchPredicate": {"errors": {"elsewhere": "no"}},
        "preemptable": {"status": 1, "victims": [{"uid": "stranger"}]},
        "bestNode": {"nodeName": "elsewhere"},
        "jobOrder": {"ranks": {"stranger": 1}},
        "jobReady": Reply(b"<<"),
        "queueOverused": Reply(b"{}", 500),
    }
    with Service(lambda verb, body: said.get(verb, Reply(b"{}", 404))) as service:
        verdicts = {one.verb: one for one in check(Transport(service.url), dialect="documented")}
    assert {name for name, one in verdicts.items() if one.outcome == "failed"} == set(said)
    assert verdicts["jobEnqueueable"].outcome == "absent"
    assert "elsewhere" in verdicts["prioritize"].notes[0]


def test_the_check_warns_of_answers_that_change_and_of_strictness() -> None:
    count = iter(range(100))

    def answer(verb: str, body: Any) -> Any:
        if verb == "predicate":
            return {"code": 0} if "xUnknown" not in body else Reply(b"{}", 400)
        return {"nodeScore": {"check-node-1": next(count)}}

    with Service(answer) as service:
        verdicts = check(Transport(service.url), dialect="documented", verbs=["predicate", "prioritize"])
    assert [(one.verb, one.outcome) for one in verdicts] == [("predicate", "warning"), ("prioritize", "warning")]


def test_traffic_is_recorded_and_answered_from(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"

    def run(url: str) -> dict[str, str]:
        given = arguments(url, "predicate", "onSessionOpen", dialect="documented")
        return cycle(small(1), conf([[{"name": "extender", "arguments": given}]])).binds

    with Serving(app([Odd])) as real:
        recording = recorder(real.url, tape)
        with Serving(_with_lifespan(recording)) as between:
            assert run(between.url) == {"ml/train-worker-0": "n2"}
    exchanges = cassette.read(tape)
    assert [one.path for one in exchanges] == ["onSessionOpen", "predicate", "predicate"]
    with Serving(player(exchanges)) as replayed:
        assert run(replayed.url) == {"ml/train-worker-0": "n2"}
        assert replayed.post("predicate", {"new": 1})[0] == 404


def _with_lifespan(application: Any) -> Any:
    """The application with its start-up done on first use (the test server does not announce it)."""
    state: dict[str, Any] = {}

    async def run(scope: Any, receive: Any, send: Any) -> None:
        if "entered" not in state:
            state["entered"] = application.router.lifespan_context(application)
            await state["entered"].__aenter__()
        await application(scope, receive, send)

    return run


def test_the_exchanges_of_a_cycle_run_it_again_without_the_extender() -> None:
    def run(url: str, environment: dict[str, Any]) -> dict[str, str]:
        given = arguments(url, "predicate", "prioritize", "jobReady")
        data = conf([[{"name": "extender", "arguments": given}]])
        assembly = assemble(from_data(data, catalogue_of(default_registry())).conf, default_registry())
        runtime = Runtime()
        try:
            return run_cycle(small(2), assembly, runtime, environment=environment).binds
        finally:
            close_clients(runtime.memory)

    exchanges: list[dict[str, Any]] = []
    with Serving(app([Odd])) as serving:
        first = run(serving.url, {EXCHANGES: exchanges})
    assert first == {"ml/train-worker-0": "n2", "ml/train-worker-1": "n2"}
    again = run("http://127.0.0.1:9", {CALLERS: ReplayCallers(json.loads(json.dumps(exchanges)))})
    assert again == first


# -- the command line -----------------------------------------------------------------------------------------------
def test_the_check_command_prints_a_verdict_per_verb() -> None:
    runner = CliRunner()
    with Serving(app([Odd])) as serving:
        table = runner.invoke(command, ["extender", "check", serving.url])
        data = runner.invoke(command, ["extender", "check", serving.url, "-o", "json"])
    assert table.exit_code == 0, table.output
    assert "prioritize" in table.output
    assert ("predicate", "ok") in [(one["verb"], one["verdict"]) for one in json.loads(data.output)]
    nobody = runner.invoke(command, ["extender", "check", "http://127.0.0.1:9", "-o", "json"])
    assert nobody.exit_code == 1


def test_the_replay_command_compares_an_extender_with_a_cassette(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    question = {"task": {"namespace": "a", "name": "t", "labels": {}}, "node": {"name": "n1", "labels": {}}}
    good = cassette.recorded("predicate", json.dumps(question).encode(), 200, b'{"errorMessage":"odd","code":2}', 0.0)
    bad = cassette.recorded("predicate", json.dumps(question).encode(), 200, b'{"code":0,"errorMessage":""}', 0.0)
    runner = CliRunner()
    with Serving(app([Odd])) as serving:
        tape.write_bytes(cassette.write_line(good))
        same = runner.invoke(command, ["extender", "replay", str(tape), "--against", serving.url])
        tape.write_bytes(cassette.write_line(good) + cassette.write_line(bad))
        other = runner.invoke(command, ["extender", "replay", str(tape), "--against", serving.url, "-o", "json"])
    assert same.exit_code == 0, same.output
    assert other.exit_code == 1
    assert [one["number"] for one in json.loads(other.output)["differ"]] == [2]


def test_policies_are_found_by_name_and_by_file_with_their_arguments(tmp_path: Path) -> None:
    file = tmp_path / "my_policy.py"
    file.write_text(
        "from pumice import Argument, Plugin\n\n\n"
        "class Mine(Plugin):\n    name = 'mine'\n    limit = Argument(1, 'How many.')\n"
    )
    settings = tmp_path / "conf.yaml"
    settings.write_text(
        "compat: volcano\nactions: allocate\n"
        "tiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.weight: 7}\n"
    )
    (mine, packed), compat = policy_builders([str(file), "binpack"], settings)
    assert mine().name == "mine"
    assert (packed().name, packed().arguments["binpack.weight"], compat) == ("binpack", 7, "volcano")


@pytest.mark.parametrize(
    ("policies", "message"),
    [(["binpak"], "did you mean 'binpack'"), (["nowhere.py"], "does not exist")],
)
def test_what_cannot_be_served_is_named(policies: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        policy_builders(policies, None)


def test_several_workers_are_refused_where_answers_could_differ() -> None:
    refused = CliRunner().invoke(command, ["extender", "serve", "gang", "--workers", "2", "--address", "127.0.0.1:0"])
    assert refused.exit_code == 1
    assert "STATIC or NODE" in refused.output
