from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.config import DEFAULT_CONF, Catalogue, ConfSource, InvalidConf, load

FIRST = "actions: allocate\n"
SECOND = "actions: enqueue, allocate\n"
BROKEN = "actions: alocate\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(FIRST)
    return path


def test_a_conf_is_given_once_for_each_content(path: Path, catalogue: Catalogue) -> None:
    source = ConfSource(path, catalogue)
    assert source.active is None
    assert source.active_digest is None
    first = source.poll()
    assert first is not None
    assert first.conf.actions == ("allocate",)
    assert first.conf.source == str(path)
    assert source.poll() is None
    path.write_text(SECOND)
    second = source.poll()
    assert second is not None
    assert second.conf.actions == ("enqueue", "allocate")
    assert source.active is second
    assert source.active_digest == second.conf.digest


def test_a_touched_file_is_no_new_conf(path: Path, catalogue: Catalogue) -> None:
    source = ConfSource(path, catalogue)
    source.poll()
    os.utime(path, (1, 1))
    assert source.poll() is None


def test_a_bad_conf_leaves_the_last_good_one_active(path: Path, catalogue: Catalogue) -> None:
    source = ConfSource(path, catalogue)
    good = source.poll()
    path.write_text(BROKEN)
    assert source.poll() is None
    assert source.active is good
    error = source.error
    assert isinstance(error, InvalidConf)
    assert error.problems[0].code == "unknown-action"
    assert source.poll() is None
    assert source.error is error  # told again, not checked again
    path.write_text(SECOND)
    assert source.poll() is source.active
    assert source.error is None


def test_going_back_to_the_active_content_ends_the_error_without_a_reload(path: Path, catalogue: Catalogue) -> None:
    source = ConfSource(path, catalogue)
    good = source.poll()
    path.write_text(BROKEN)
    source.poll()
    path.write_text(FIRST)
    assert source.poll() is None
    assert source.error is None
    assert source.active is good


def test_a_file_that_goes_away_and_comes_back_is_followed(path: Path, catalogue: Catalogue) -> None:
    source = ConfSource(path, catalogue)
    good = source.poll()
    path.unlink()
    assert source.poll() is None
    assert str(source.error) == f"{path}: the scheduler conf cannot be read: No such file or directory"
    assert source.active is good
    path.write_text(FIRST)
    assert source.poll() is None
    assert source.error is None
    path.unlink()
    source.poll()
    path.write_text(SECOND)
    assert source.poll() is not None


def test_a_start_without_a_good_file_keeps_the_initial_conf(tmp_path: Path, catalogue: Catalogue) -> None:
    initial = load(DEFAULT_CONF, catalogue, "built in")
    source = ConfSource(tmp_path / "nothing.yaml", catalogue, initial=initial)
    assert source.poll() is None
    assert source.active is initial
    assert source.error is not None


def test_a_swapped_config_map_is_seen(tmp_path: Path, catalogue: Catalogue) -> None:
    for name, text in (("v1", FIRST), ("v2", SECOND)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scheduler.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "scheduler.yaml").symlink_to("..data/scheduler.yaml")
    source = ConfSource(tmp_path / "scheduler.yaml", catalogue)
    source.poll()
    (tmp_path / "..new").symlink_to("v2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    swapped = source.poll()
    assert swapped is not None
    assert swapped.conf.actions == ("enqueue", "allocate")


@pytest.mark.parametrize("content", [b"actions: \xff", b"\xff\xfe"])
def test_bytes_that_are_no_utf8_are_an_error(path: Path, content: bytes, catalogue: Catalogue) -> None:
    path.write_bytes(content)
    source = ConfSource(path, catalogue)
    assert source.poll() is None
    assert f"not UTF-8: byte {content.index(0xFF)} is 0xff" in str(source.error)


def test_a_byte_order_mark_is_no_part_of_the_conf(path: Path, catalogue: Catalogue) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + FIRST.encode())
    assert ConfSource(path, catalogue, strict=True).poll() is not None


def test_strict_makes_a_warning_an_error(path: Path, catalogue: Catalogue) -> None:
    path.write_text(FIRST + "unheard: of\n")
    relaxed, strict = ConfSource(path, catalogue), ConfSource(path, catalogue, strict=True)
    loaded = relaxed.poll()
    assert loaded is not None
    assert [problem.code for problem in loaded.warnings] == ["unknown-key"]
    assert strict.poll() is None
    assert isinstance(strict.error, InvalidConf)


def test_new_plugins_make_an_unchanged_file_good(path: Path, catalogue: Catalogue) -> None:
    path.write_text("actions: allocate\ntiers: [{plugins: [{name: late}]}]\n")
    source = ConfSource(path, catalogue)
    assert source.poll() is None
    grown = Catalogue(catalogue.flags, {**catalogue.plugins, "late": None}, catalogue.actions)
    source.check_again(grown)
    assert source.poll() is not None
    assert source.poll() is None
