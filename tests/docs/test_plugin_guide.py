"""The developer guide is true: its Python runs, its confs load, its tables are those of the code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from write_points import END, points_page, registration_module, with_arguments, with_reasons

from pumice import Arguments, Event, Job, Node, Queue, Resources, Session, Task
from pumice.config import load
from pumice.framework.names import hint
from pumice.framework.registry import Registry, default_registry, set_default_registry
from pumice.scheduler.assembly import catalogue_of, who
from pumice.testing import Scenario

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "plugin-development.md"
TEXT = GUIDE.read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Everything that the guide's code defines, after running it from top to bottom. Indented blocks go on a class."""
    joined = ""
    for block in blocks("python"):
        joined += block if block.startswith("    ") else f"\n\n{block}"
    before = default_registry()
    set_default_registry(before.copy())
    module = ModuleType("guide")
    names: dict[str, Any] = vars(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "guide", module)  # its classes can be pickled
        patch.chdir(tmp_path_factory.mktemp("guide"))
        exec(compile(joined, str(GUIDE), "exec"), names)
        names["registry"] = default_registry()
        set_default_registry(before)
        yield names


TESTS = re.findall(r"^def (test_\w+)\((scenario)?\)", TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "fixture"), TESTS, ids=[name for name, _ in TESTS])
def test_the_tests_of_the_guide_pass(name: str, fixture: str, guide: dict[str, Any], scenario: Scenario) -> None:
    guide[name](*([scenario] if fixture else []))


def test_the_confs_of_the_guide_load_without_a_warning(guide: dict[str, Any]) -> None:
    registry: Registry = guide["registry"]
    for text in blocks("yaml"):
        assert load(text, catalogue_of(registry), strict=True).warnings == ()


def test_resource_affinity_is_shown_in_full() -> None:
    assert (ROOT / "examples" / "plugins" / "resource_affinity.py").read_text() in blocks("python")


def test_every_point_of_the_guides_list_is_asked() -> None:
    table = TEXT.partition("| question | points |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", table)
    assert len(named) > 15
    assert set(named) <= set(Registry().askers())


def test_the_reference_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "points.md").read_text() == points_page(who(Registry())), (
        "run tools/write_points.py"
    )


def test_the_page_of_reasons_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reasons.md").read_text()
    assert with_reasons(page) == page, "run tools/write_points.py"


def test_the_registration_methods_are_those_of_the_table() -> None:
    module = ROOT / "src" / "pumice" / "framework" / "points" / "registration.py"
    assert module.read_text() == registration_module(), "run tools/write_points.py"


OBJECTS: dict[str, type] = {
    "ssn": Session,
    "task": Task,
    "job": Job,
    "node": Node,
    "queue": Queue,
    "event": Event,
    "arguments": Arguments,
    "r": Resources,
}
ROWS = [
    (re.findall(r"`([^`]+)`", left), re.findall(r"`([^`]+)`", right))
    for left, right in re.findall(
        r"^\| (.*?) \| (.*?) \|$", TEXT[TEXT.index("| Volcano, KAI | here |") :], re.MULTILINE
    )
]


@pytest.mark.parametrize(("theirs", "ours"), ROWS[1:], ids=[" ".join(theirs) for theirs, _ in ROWS[1:]])
def test_every_row_of_the_names_table_is_true_and_its_names_of_go_are_hinted_at(
    theirs: list[str], ours: list[str]
) -> None:
    """What stands on the right exists; who writes what stands on the left is told what stands on the right."""
    here = {name for text in ours for name in re.findall(r"[\w.]+", text)}
    for thing, cls in OBJECTS.items():
        for text in ours:
            for name in re.findall(rf"\b{thing}\.(\w+)", text):
                assert hasattr(cls, name), f"{thing}.{name}"
        for text in theirs:
            for name in re.findall(rf"(?:^|[ \[]){thing}\.([A-Z]\w*)", text):
                said = hint(name, dir(cls))
                told = re.findall(r"here it is '(\w+)'", said)
                good = "attributes of its own" in said or (told and f"{thing}.{told[0]}" in here)
                assert good or text == "r.ScalarResources[name]", (name, said)


def test_a_page_without_markers_is_refused() -> None:
    page = (ROOT / "docs" / "plugins" / "binpack.md").read_text()
    with pytest.raises(ValueError, match="the page must have the lines"):
        with_arguments(page.replace(END.format("arguments"), ""), default_registry().plugins["binpack"].arguments or ())
