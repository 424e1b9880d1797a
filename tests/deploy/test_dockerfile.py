"""The Dockerfile, read line by line: there is no Docker where the tests run.

tests/kube/test_kube_image.py runs its commands in a fresh environment.
"""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LINES = [
    line
    for line in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def given(instruction: str) -> list[str]:
    """What follows an instruction, each time it occurs."""
    return [line.partition(" ")[2] for line in LINES if line.partition(" ")[0] == instruction]


def test_every_line_is_an_instruction_that_we_know() -> None:
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD", "LABEL"}
    assert {line.partition(" ")[0] for line in LINES} <= known


def test_images_have_a_version_and_may_have_a_digest() -> None:
    assert given("ARG") == ["PYTHON=3.12", "DIGEST=", "VERSION=0.1.0", "VERSION", "PYTHON", "REVISION=", "VERSION"]
    assert [name.partition(" ")[0] for name in given("FROM")] == ["python:${PYTHON}-slim${DIGEST:+@}${DIGEST}"] * 2


def test_the_labels_say_which_version_and_which_commit_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = dict(word.partition("=")[::2] for word in given("LABEL")[0].split())
    assert said == {
        "org.opencontainers.image.title": project["name"],
        "org.opencontainers.image.version": "${VERSION}",
        "org.opencontainers.image.licenses": project["license"],
        "org.opencontainers.image.revision": "${REVISION}",
    }


def test_the_default_version_is_the_one_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "pumice" / "Chart.yaml").read_text(encoding="utf-8"))
    assert f"VERSION={chart['appVersion']}" in given("ARG")


def test_the_python_of_the_image_is_one_that_the_package_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "Programming Language :: Python :: 3.12" in project["classifiers"]


def test_everything_that_is_copied_exists_and_is_let_in() -> None:
    let_in = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert let_in[0] == "*"
    sources = [name for copy in given("COPY") if "--from" not in copy for name in copy.split()[:-1]]
    assert sources == [
        "deploy/build.lock",
        "deploy/requirements.lock",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "docs",
        "src",
    ]
    for name in sources:
        assert (ROOT / name).exists()
        assert f"!{name}" in let_in


def locked(name: str = "requirements") -> list[tuple[str, Version, int]]:
    """Name, version, and how many files may be taken, of everything in a lock."""
    text = (ROOT / "deploy" / f"{name}.lock").read_text(encoding="utf-8")
    found: list[tuple[str, Version, int]] = []
    for block in re.split(r"^(?=[a-z])", text.partition("\n")[2], flags=re.MULTILINE):
        if block:
            pinned = Requirement(block.partition(" \\")[0])
            [only] = pinned.specifier
            assert only.operator == "==", block
            hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)
            found.append((canonicalize_name(pinned.name), Version(only.version), len(hashes)))
    return found


def test_everything_that_the_image_installs_is_locked_to_a_version_that_the_package_wants() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        Requirement(one)
        for one in (*project["dependencies"], *extras["kube"], *extras["extender"], *extras["dashboard"])
    ]
    pinned = locked()
    for requirement in wanted:
        if requirement.name == project["name"] or (requirement.marker and not requirement.marker.evaluate()):
            continue
        versions = [version for name, version, _ in pinned if name == canonicalize_name(requirement.name)]
        assert versions, f"{requirement}: the lock has none"
        for version in versions:
            assert requirement.specifier.contains(version), f"{requirement}: the lock has {version}"
    assert len(pinned) > len(wanted)
    assert all(files for _, _, files in pinned)


def test_everything_that_is_installed_is_in_a_lock_by_hash_and_nothing_is_fetched_beside_it() -> None:
    build, run, own = [line for line in given("RUN") if " install " in line]
    assert build.endswith("--require-hashes --requirement deploy/build.lock")
    assert run.endswith("--require-hashes --requirement deploy/requirements.lock")
    assert own.endswith("--no-deps --no-index --find-links dist pumice")


def test_the_backend_that_builds_the_package_is_locked() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    pinned = locked("build")
    assert all(files for _, _, files in pinned)
    for requirement in map(Requirement, wanted):
        assert any(name == requirement.name and version in requirement.specifier for name, version, _ in pinned)


def test_what_the_build_imports_to_see_that_it_works_is_there() -> None:
    [line] = [run for run in given("RUN") if "import " in run]
    for module in re.findall(r"pumice[.a-z]+", line.partition("import ")[2]):
        assert importlib.util.find_spec(module), module


def test_the_backend_that_builds_the_package_is_bounded() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    for requirement in map(Requirement, built):
        assert {spec.operator for spec in requirement.specifier} >= {">=", "<"}


def test_what_the_build_of_the_package_reads_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {project["project"]["readme"], *project["project"]["license-files"]}
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = " ".join(given("COPY")).split()
    assert needed <= set(copied)
    assert {path.partition("/")[0] for path in (*wheel["packages"], *wheel["force-include"])} <= set(copied)


def test_it_runs_as_the_user_of_the_chart_who_is_not_root() -> None:
    [user] = given("USER")
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "pumice" / "values.yaml").read_text(encoding="utf-8"))
    assert user == "65532:65532"
    assert values["scheduler"]["podSecurityContext"]["runAsUser"] == 65532


def test_it_starts_without_a_shell_and_takes_what_the_chart_says() -> None:
    assert json.loads(given("ENTRYPOINT")[0]) == ["pumice"]
    json.loads(given("CMD")[0])
    template = (ROOT / "deploy" / "helm" / "pumice" / "templates" / "scheduler.yaml").read_text(encoding="utf-8")
    assert "command:" not in template
    assert re.search(r"args:\n +- run\n", template)


def test_nothing_is_written_at_run_time_and_no_pip_is_left() -> None:
    assert "PYTHONDONTWRITEBYTECODE=1" in given("ENV")[-1]
    assert "RUN python -m venv --without-pip /opt/pumice" in LINES
    last = max(i for i, line in enumerate(LINES) if line.startswith("FROM"))
    runs = [line.removeprefix("RUN ") for line in LINES[last:] if line.startswith("RUN")]
    assert runs == [
        "python -m pip uninstall --yes --disable-pip-version-check pip",
        "rm -rf /usr/local/lib/python${PYTHON}/ensurepip",
    ]
