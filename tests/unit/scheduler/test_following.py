"""The configuration of a running scheduler follows its conf and its plugins, and keeps what works."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.config import ConfSource, load
from pumice.errors import PluginLoadError
from pumice.framework.registry import Registry, default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.scheduler.following import ConfText, Following, PluginFolder

PLUGIN = """
from pumice import Argument, Plugin


class Sized(Plugin):
    name = "sized"
    size = Argument(1, "A number.")
    number = {number}

    def __init__(self, arguments):
        {check}
"""
CONF = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
WITH = CONF + "  - name: sized\n    arguments: {size: 3}\n"


def plugin(number: int, check: str = "pass") -> str:
    return PLUGIN.format(number=number, check=check)


class Setting:
    """A conf file and a directory of plugins, followed."""

    def __init__(self, folder: Path, conf: str) -> None:
        self.conf, self.plugins = folder / "scheduler.conf", folder / "plugins"
        self.conf.write_text(conf)
        self.plugins.mkdir()
        (self.plugins / "sized.py").write_text(plugin(1))
        self.folder = PluginFolder(self.plugins, default_registry())
        registry = self.folder.load()
        assert registry is not None
        self.registry: Registry = registry
        source = ConfSource(self.conf, catalogue_of(self.registry))
        self.follow = Following(self.registry, conf=source, folder=self.folder)

    def number(self) -> int | None:
        """The number of the plugin that a new configuration builds; None if there is no new one."""
        assembly = self.follow.poll()
        if assembly is None:
            return None
        entry = next(e for tier in assembly.tiers() for e in tier if e.name == "sized")
        made = entry.build()
        return int(made.number)


def test_the_first_poll_gives_the_configuration_and_the_next_nothing(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    assert setting.follow.missing
    assert setting.number() == 1
    assert setting.follow.missing == ""
    assert setting.follow.poll() is None


def test_a_changed_module_is_used_with_the_conf_as_it_is(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    (setting.plugins / "sized.py").write_text(plugin(22))
    assert setting.number() == 22
    assert setting.follow.complaints == {"conf": "", "plugins": ""}


def test_a_file_that_was_only_touched_changes_nothing(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    (setting.plugins / "sized.py").write_text(plugin(1))
    assert setting.follow.poll() is None


@pytest.mark.parametrize("broken", ["def (", "import nothing_of_that_name", "x = 1"])
def test_a_module_that_cannot_be_loaded_is_reported_and_the_old_one_kept(tmp_path: Path, broken: str) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    (setting.plugins / "sized.py").write_text(broken)
    assert setting.follow.poll() is None
    assert "sized.py" in setting.follow.complaints["plugins"]
    assert setting.follow.poll() is None
    assert "sized.py" in setting.follow.complaints["plugins"]
    (setting.plugins / "sized.py").write_text(plugin(4))
    assert setting.number() == 4
    assert setting.follow.complaints["plugins"] == ""


def test_a_plugin_that_refuses_its_arguments_is_reported_until_it_takes_them(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    (setting.plugins / "sized.py").write_text(plugin(5, 'raise ValueError("no size fits")'))
    assert setting.follow.poll() is None
    assert setting.follow.poll() is None
    said = setting.follow.complaints["plugins"]
    assert said == f"{setting.plugins / 'sized.py'}:11: plugin 'sized': ValueError: no size fits"
    (setting.plugins / "sized.py").write_text(plugin(6))
    assert setting.number() == 6


def test_a_conf_may_name_a_plugin_that_comes_later(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    setting.conf.write_text(WITH + "  - name: late\n")
    assert setting.follow.poll() is None
    assert "late" in setting.follow.complaints["conf"]
    (setting.plugins / "late.py").write_text(plugin(7).replace('"sized"', '"late"'))
    assert setting.number() == 1
    assert setting.follow.complaints["conf"] == ""


def test_a_plugin_that_goes_while_the_conf_names_it_is_kept_and_reported(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    (setting.plugins / "sized.py").unlink()
    assert setting.follow.poll() is None
    assert "sized" in " ".join(setting.follow.complaints.values())


def test_a_conf_that_is_put_back_after_a_refusal_is_in_use_again(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    (setting.plugins / "sized.py").write_text(plugin(8, 'assert int(arguments["size"]) < 5, "too big"'))
    assert setting.number() == 8
    setting.conf.write_text(WITH.replace("3", "9"))
    assert setting.follow.poll() is None
    assert setting.follow.complaints["conf"].endswith("sized.py:11: plugin 'sized': AssertionError: too big")
    setting.conf.write_text(WITH)
    setting.follow.poll()
    assert setting.follow.complaints["conf"] == ""


def test_parts_of_a_package_are_read_again(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    (setting.plugins / "sized.py").unlink()
    package = setting.plugins / "sized"
    package.mkdir()
    (package / "number.py").write_text("NUMBER = 1\n")
    code = plugin(0).replace("number = 0", "number = NUMBER")
    (package / "__init__.py").write_text(f"from pumice_plugin_sized.number import NUMBER\n{code}")
    assert setting.number() == 1
    (package / "number.py").write_text("NUMBER = 2000\n")
    assert setting.number() == 2000


def test_without_a_conf_file_the_given_one_stays(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    conf = load(WITH, catalogue_of(setting.registry), "conf").conf
    follow = Following(setting.registry, initial=conf, folder=setting.folder)
    assert (follow.missing, follow.poll()) == ("", None)
    (setting.plugins / "sized.py").write_text(plugin(9))
    assert follow.poll() is not None


def test_a_directory_that_is_none_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(PluginLoadError, match="not a directory"):
        PluginFolder(tmp_path / "nowhere", default_registry()).load()


MISUSED = plugin(1).replace("pass", "pass\n\n    def predicate(self, task): ...")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("def (", "sized.py:1: invalid syntax"),
        (MISUSED, "sized.py:13: plugin 'sized': predicate must take (task, node), but requires 1 parameter"),
        (plugin(1, 'raise KeyError("size")'), "sized.py:11: plugin 'sized': KeyError: 'size'"),
    ],
)
def test_a_cold_start_with_a_broken_plugin_waits_until_a_file_changes(tmp_path: Path, broken: str, said: str) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "sized.py").write_text(broken)
    folder = PluginFolder(tmp_path / "plugins", default_registry())
    registry = folder.load() or default_registry()
    source = ConfSource(ConfText(WITH, "<default>"), catalogue_of(registry))
    follow = Following(registry, conf=source, folder=folder)
    for _ in range(2):
        assert follow.poll() is None
        assert follow.missing == f"waiting for the plugins: {tmp_path / 'plugins' / said}"
        assert follow.complaints["conf"] == ""
    (tmp_path / "plugins" / "sized.py").write_text(plugin(5))
    assert follow.poll() is not None
    assert (follow.missing, follow.complaints) == ("", {"conf": "", "plugins": ""})


def test_a_change_whose_parameters_fit_no_form_leaves_the_old_plugin_in_use(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    assert setting.number() == 1
    (setting.plugins / "sized.py").write_text(MISUSED)
    assert setting.follow.poll() is None
    assert "predicate must take (task, node)" in setting.follow.complaints["plugins"]
    assert setting.follow.missing == ""
    (setting.plugins / "sized.py").write_text(plugin(3))
    assert setting.number() == 3


def test_every_broken_file_of_a_directory_is_told(tmp_path: Path) -> None:
    setting = Setting(tmp_path, WITH)
    setting.number()
    (setting.plugins / "sized.py").write_text("def (")
    (setting.plugins / "other.py").write_text("x = 1")
    assert setting.follow.poll() is None
    said = setting.follow.complaints["plugins"]
    assert "other.py:1: must expose New" in said
    assert "sized.py:1: invalid syntax" in said
