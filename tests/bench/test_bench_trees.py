"""Two states of a source: each measured with its own code, its own entry points, and gone afterwards."""

import subprocess
from pathlib import Path

import pytest
from pumice_bench.trees import LacksShape, trees

from pumice.errors import InvalidInput, PumiceError

CHILDREN = """
import json, sys
from importlib.metadata import entry_points
import pumice
from pumice_bench.shapes import SHAPES
SHAPES[sys.argv[1]]()
found = {e.name: e.value for e in entry_points(group="pumice.plugins")}
print(json.dumps({"cpu": pumice.CPU, "peak_mib": 1.0, "wrong": [], "plugins": found, "code": __file__}))
"""


def write(root: Path, cpu: float, shapes: str, plugin: str) -> None:
    bench = root / "tools/pumice_bench"
    for folder in (bench, root / "src/pumice"):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "src/pumice/__init__.py").write_text(f"CPU = {cpu}\n")
    (bench / "__init__.py").write_text("")
    (bench / "shapes.py").write_text(shapes)
    (bench / "children.py").write_text(CHILDREN)
    (root / "pyproject.toml").write_text(
        '[project]\nname = "pumice"\nversion = "0.1.0"\n'
        f'[project.entry-points."pumice.plugins"]\n{plugin} = "{plugin}:It"\n'
    )


def git(root: Path, *args: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *args], cwd=root, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    write(root, 2.0, "SHAPES = {'old': dict, 'both': dict}\n", "before")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "then")
    later = "import pumice\nSHAPES = {'both': dict, 'new': dict, 'newest': lambda: pumice.NEW}\n"
    write(root, 3.0, later, "after")
    return root


def test_each_side_runs_its_own_code_with_its_own_entry_points(checkout: Path) -> None:
    with trees(checkout, "HEAD") as (then, now):
        assert then.shapes == {"old", "both"}
        assert now.shapes == {"both", "new", "newest"}
        before, after = then.measure("both", now, 0), now.measure("both", now, 0)
    assert (before["cpu"], after["cpu"]) == (2.0, 3.0)
    assert (before["plugins"], after["plugins"]) == ({"before": "before:It"}, {"after": "after:It"})


def test_a_shape_that_the_past_does_not_know_runs_on_it_with_todays_code(checkout: Path) -> None:
    with trees(checkout, "HEAD") as (then, now):
        lent = then.measure("new", now, 0)
        assert lent["cpu"] == 2.0
        assert Path(lent["code"]).is_relative_to(now.root)
        with pytest.raises(LacksShape, match=r"lacks the shape newest: .* no attribute 'NEW'"):
            then.measure("newest", now, 0)


def test_an_edit_while_it_measures_changes_nothing(checkout: Path) -> None:
    with trees(checkout, "HEAD") as (_, now):
        write(checkout, 9.0, "SHAPES = {}\n", "edited")
        assert now.measure("both", now, 0)["cpu"] == 3.0


@pytest.mark.parametrize("ending", [KeyboardInterrupt, PumiceError, None])
def test_nothing_is_left_behind_however_it_ends(checkout: Path, ending: type[BaseException] | None) -> None:
    folders: list[Path] = []

    def work() -> None:
        with trees(checkout, "HEAD") as (then, now):
            folders.extend((then.root, now.root))
            assert all(folder.is_dir() for folder in folders)
            if ending is not None:
                raise ending

    if ending is None:
        work()
    else:
        with pytest.raises(ending):
            work()
    assert len(folders) == 2
    assert not any(folder.parent.exists() for folder in folders)


def test_a_commit_that_does_not_exist_is_named(checkout: Path) -> None:
    with pytest.raises(InvalidInput, match="--against nonesuch: not a commit"), trees(checkout, "nonesuch"):
        pass
