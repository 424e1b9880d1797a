"""A plugin of one's own plays a cycle when its conf is checked: mistakes in its callbacks are told before its use."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.rehearsal import rehearse

BEGIN = "from pumice import Plugin\n\n\nclass Mine(Plugin):\n    name = 'mine'\n\n    def on_session_open(self, ssn):\n"
"""Seven lines; what is registered stands in line 8."""


def found(folder: Path, registering: str, actions: str = "enqueue, allocate, backfill", *beside: str) -> list[str]:
    """What a plugin that registers this is told of a conf with it and others."""
    (folder / "mine.py").write_text(f"{BEGIN}        {registering}\n")
    registry = default_registry().copy()
    registry.load_directory(folder)
    names = "".join(f"  - name: {name}\n" for name in ("mine", *beside))
    text = f'actions: "{actions}"\ntiers:\n- plugins:\n{names}'
    return rehearse(assemble(load(text, catalogue_of(registry), "my.conf").conf, registry))


POINTS = {
    "job_order": "job, other",
    "predicate": "task, node",
    "node_order": "task, node",
    "job_enqueueable": "job",
    "job_ready": "job",
    "allocatable": "queue, task",
    "overused": "queue",
    "job_valid": "job",
    "pre_predicate": "task",
    "batch_node_order": "task, nodes",
}


@pytest.mark.parametrize("point", list(POINTS))
def test_a_callback_that_fails_is_told_with_its_point_at_its_authors_line(tmp_path: Path, point: str) -> None:
    (told,) = found(tmp_path, f"ssn.add_{point}_fn(self.name, lambda {POINTS[point]}: 1 / 0)")
    assert told == (
        f"{tmp_path / 'mine.py'}:8: plugin 'mine': {point}: ZeroDivisionError: division by zero,"
        " on a made-up cluster of two nodes"
    )


def test_a_name_of_go_in_a_callback_is_told_with_the_name_that_it_has_here(tmp_path: Path) -> None:
    (told,) = found(tmp_path, "ssn.add_predicate_fn(self.name, lambda task, node: ssn.Jobs[task.job])")
    assert "the session has no 'Jobs'; here it is 'jobs'" in told


def test_a_wrong_answer_is_told(tmp_path: Path) -> None:
    (told,) = found(tmp_path, "ssn.add_node_order_fn(self.name, lambda task, node: (0.0, None))")
    assert "a score is a number" in told


def test_a_plugin_that_does_its_work_is_told_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, "ssn.add_predicate_fn(self.name, lambda task, node: None)") == []


def test_nothing_is_logged_and_nobody_is_called(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        found(tmp_path, "ssn.add_job_ready_fn(self.name, lambda job: 1 / 0)", "enqueue, allocate", "gang", "extender")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_built_in_plugins_are_not_played() -> None:
    registry = default_registry()
    text = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
    assert rehearse(assemble(load(text, catalogue_of(registry), "my.conf").conf, registry)) == []
