"""Exit codes and messages: 0 done, 1 failed, 2 wrong usage; one line on stderr."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cli_runs import DEMO, DEMO_CONF, Pumice

from pumice.cli.app import COMMANDS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plugin", "points", "preidcate"], "no extension point named 'preidcate'; did you mean 'predicate'?"),
        (["plugin", "show", "gnag"], "no plugin named 'gnag'; did you mean 'gang'?"),
        (["cycle", "nowhere"], "nowhere: no such file"),
        (
            ["why", "lama", DEMO, "--conf", DEMO_CONF],
            "no job named 'lama'; did you mean 'llama'?",
        ),
        (["status", "queue", "visoin", "--from", DEMO], "no queue named 'visoin'; did you mean 'vision'?"),
        (["conf", "check", "nowhere.conf"], "file 'nowhere.conf': No such file or directory"),
        (["status", "--from", DEMO, "--queue", "visoin"], "no queue named 'visoin'; did you mean 'vision'?"),
    ],
)
def test_a_deliberate_failure_is_one_line_on_stderr_and_exit_code_1(
    pumice: Pumice, words: list[object], message: str
) -> None:
    ran = pumice(*words, code=1)
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("error: ")
    assert message in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plugin", "new", "Spot First"], "must be lower-case words joined by dashes"),
        (["extender", "check", "127.0.0.1:1"], "URL '127.0.0.1:1': must begin with https:// or http://"),
        (["extender", "record", "127.0.0.1:1", "tape"], "URL '127.0.0.1:1': must begin with https:// or http://"),
        (["extender", "check", "http://127.0.0.1:1", "--dialect", "latin"], "--dialect 'latin': must be one of "),
        (["extender", "serve", "gang", "--dialect", "latin"], "--dialect 'latin': must be one of "),
        (["extender", "serve", "gang", "--verb", "bind"], "--verb 'bind': must look like key=value"),
        (["extender", "serve", "gang", "--tls-private-key-file", "key.pem"], "--tls-cert-file: must be given with"),
        (["controllers", "--controllers", "jobs"], "--controllers 'jobs': must be one of job, podgroup, queue"),
        (["controllers", "--leader-elect-lease-duration", "5s"], "must be longer than renewDeadline"),
        (["controllers", "--enable-healthz", "--healthz-address", "8080"], "must be HOST:PORT"),
    ],
)
def test_a_value_that_breaks_a_rule_is_one_line_and_exit_code_2(
    pumice: Pumice, words: list[object], message: str
) -> None:
    ran = pumice(*words, code=2)
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("error: ")
    assert message in ran.err


@pytest.mark.parametrize(
    "words", [["cycle"], ["cycle", DEMO, "--frob"], ["plugin", "points", "-o", "xml"], ["nonsense"]]
)
def test_wrong_usage_is_exit_code_2(pumice: Pumice, words: list[object]) -> None:
    assert pumice(*words, code=2).out == ""


def test_several_problems_of_a_conf_are_still_one_line(pumice: Pumice, tmp_path: Path) -> None:
    conf = tmp_path / "bad.conf"
    conf.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gnag\n  - name: proirity\n')
    ran = pumice("cycle", DEMO, "--conf", conf, code=1)
    assert ran.err.count("\n") == 1
    assert "unknown plugin 'gnag'" in ran.err
    assert "(and 1 more: `pumice conf check` lists them)" in ran.err


def test_a_manifest_that_cannot_be_read_is_named_with_its_place(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: Node\nmetadata: {name: [\n")
    assert "broken.yaml:3:1: not YAML" in pumice("cycle", tmp_path, code=1).err


def test_an_object_with_a_field_of_the_wrong_type_is_named_with_its_file(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("kind: Node\nmetadata: {name: n1}\nspec: {unschedulable: perhaps}\n")
    err = pumice("cycle", tmp_path, code=1).err
    assert "node.yaml:1: Node 'n1': spec.unschedulable: must be a truth value, got text" in err


def test_kinds_that_a_scheduler_does_not_read_are_a_warning(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("kind: Node\nmetadata: {name: n1}\n---\nkind: ConfigMap\n---\nkind: Secret\n")
    assert (
        "ignored, for a scheduler does not read them: ConfigMap, Secret"
        in pumice("status", "queue", "--from", tmp_path).err
    )


def test_help_names_every_command(pumice: Pumice) -> None:
    out = pumice("--help").out
    for command in COMMANDS:
        assert f"{command.name} " in out


def test_who_forgets_the_directory_of_a_plugin_is_told_of_it(pumice: Pumice, tmp_path: Path) -> None:
    pumice("plugin", "new", "rack", "--dir", tmp_path)
    ran = pumice("cycle", tmp_path / "rack" / "cluster.yaml", "--conf", tmp_path / "rack" / "scheduler.conf", code=1)
    assert "unknown plugin 'rack'" in ran.err
    assert ran.err.endswith("; --plugins-dir loads plugins of your own\n")


def test_a_port_that_is_taken_is_told(pumice: Pumice) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = pumice("extender", "serve", "gang", "--address", f"127.0.0.1:{port}", code=1)
    assert ran.err.splitlines()[-1] == f"error: address 127.0.0.1:{port}: Address already in use"


BROKEN = {
    "bad_name.py": "from pumice import Plugin\nclass A(Plugin):\n    def name(self): return 'a'\n",
    "no_argument.py": "def New():\n    return 1\n",
    "raises.py": "def New(arguments):\n    return int(arguments['weight'])\n",
    "talks_go.py": "class T:\n    def on_session_open(self, ssn): ssn.AddPredicateFn(1)\ndef New(a): return T()\n",
}


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A directory of plugins that cannot be used, each in its own way."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name, text in BROKEN.items():
        (folder / name).write_text(text)
    return folder


def test_plugins_says_in_a_line_each_what_cannot_be_loaded(pumice: Pumice, broken: Path) -> None:
    ran = pumice("plugin", "list", "--plugins-dir", broken, code=1)
    assert ran.out == ""
    assert [line.partition(" name")[0].rpartition("/")[2] for line in ran.err.splitlines()] == [
        "bad_name.py:3: class A:",
        "no_argument.py:1: New must take one parameter, the arguments",
    ]
    ran = pumice("cycle", DEMO, "--plugins-dir", broken, code=1)
    assert ran.err.count("\n") == 1
    assert "(and 1 more: `pumice plugin list --plugins-dir` lists them)" in ran.err


def test_conf_check_says_in_a_line_each_what_cannot_be_used(pumice: Pumice, broken: Path, tmp_path: Path) -> None:
    conf = tmp_path / "my.conf"
    conf.write_text(
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: talks-go\n'
        "  - name: raises\n    arguments: {weight: abc}\n"
    )
    words = ("conf", "check", conf, "--plugins-dir", broken)
    assert [line.rpartition("/")[2].partition(":")[0] for line in pumice(*words, code=1).out.splitlines()] == [
        "bad_name.py",
        "no_argument.py",
    ]
    (broken / "bad_name.py").unlink()
    (broken / "no_argument.py").unlink()
    ran = pumice(*words, code=1)
    assert [line.rpartition("/")[2] for line in ran.out.splitlines()] == [
        "raises.py:2: plugin 'raises': ValueError: invalid literal for int() with base 10: 'abc'",
        "talks_go.py:2: plugin 'talks-go': the session has no 'AddPredicateFn'; here it is 'add_predicate_fn'",
    ]
    told = pumice(*words, "-o", "json", code=1).data
    assert (told["ok"], [p["code"] for p in told["problems"]]) == (False, ["broken-plugin", "broken-plugin"])


def test_conf_check_warns_of_what_a_plugin_raises_when_it_is_asked(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from pumice import Plugin\n\n\nclass Mine(Plugin):\n    name = 'mine'\n\n"
        "    def predicate(self, task, node):\n        return rank[task.name]\n"
    )
    (tmp_path / "my.conf").write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: mine\n')
    words = ("conf", "check", tmp_path / "my.conf", "--plugins-dir", tmp_path)
    said = f"{tmp_path}/mine.py:8: plugin 'mine': predicate: NameError: name 'rank' is not defined"
    ran = pumice(*words)
    assert "1 action, 1 plugin" in ran.out
    assert said in ran.err
    assert said in pumice(*words, "-o", "json").data["warnings"][0]


def test_what_lies_beside_plugins_is_noted_and_a_module_speaks_at_the_log_level(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("raise RuntimeError")
    (tmp_path / "mine.py").write_text(
        "import logging\nfrom pumice import Plugin\nlog = logging.getLogger(__name__)\n\n\nclass Mine(Plugin):\n"
        "    name = 'mine'\n\n    def on_session_close(self, ssn):\n        log.info('closing')\n"
    )
    conf = tmp_path / "my.conf"
    conf.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: mine\n')
    words = ("cycle", DEMO, "--conf", conf, "--plugins-dir", tmp_path)
    quiet = pumice(*words).err
    assert "test_mine.py: passed by, its name is that of a test" in quiet
    assert "closing" not in quiet
    assert "INFO pumice_plugin_mine: closing" in pumice("--log-level", "info", *words).err
    pumice("--log-level", "warning", "plugin", "points")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("talks_go.py", "talks_go.py:2: plugin 'talks-go': the session has no 'AddPredicateFn'; here it is"),
        ("raises.py", "raises.py:2: plugin 'raises': ValueError: invalid literal for int()"),
        ("no_argument.py", "no_argument.py:1: New must take one parameter, the arguments"),
    ],
)
def test_a_policy_that_cannot_work_is_not_served(pumice: Pumice, broken: Path, file: str, said: str) -> None:
    name = file.removesuffix(".py").replace("_", "-")
    plugin = f"tiers: [{{plugins: [{{name: {name}, arguments: {{weight: abc}}}}]}}]"
    (broken / "conf").write_text(f"actions: allocate\n{plugin}\n")
    ran = pumice("extender", "serve", broken / file, "--conf", broken / "conf", "--address", "127.0.0.1:0", code=1)
    assert said in ran.err
    assert ran.err.count("\n") == 1
