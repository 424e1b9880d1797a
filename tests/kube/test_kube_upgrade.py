"""The page "Upgrade": its commands take a release from an older commit to this one and back; replicas of both run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from kube_bed import ROOT, Bed, Refusal, until
from kube_reader import Process, Reader, chapters, reading
from kube_world import World

PAGE = "upgrade.md"
OLDER = "136654c0"
"""The commit that the page upgrades from."""


def older(folder: Path) -> Path:
    """The files of the older commit."""
    folder.mkdir()
    packed = subprocess.run(["git", "archive", OLDER, "src", "deploy"], cwd=ROOT, capture_output=True)
    assert packed.returncode == 0, f"commit {OLDER} is missing in this clone; fetch it: {packed.stderr.decode()}"
    subprocess.run(["tar", "-x"], input=packed.stdout, cwd=folder, check=True)
    return folder


@pytest.mark.timeout(600)
def test_a_release_is_upgraded_and_taken_back_while_replicas_of_both_versions_run(tmp_path: Path) -> None:
    before = older(tmp_path / "older")
    source = before / "src"
    with reading(PAGE, tmp_path) as reader:
        reader.run(f"helm install pumice {before}/deploy/helm/pumice --namespace pumice-system --create-namespace")
        old = replicas(reader, source)
        until(reader.gang("one", "pumice"), 60, "the older version binds")

        printed = reader.follow("Upgrade")
        assert (
            "customresourcedefinition.apiextensions.k8s.io/podgroups.scheduling.volcano.sh serverside-applied"
            in printed
        )
        new = replicas(reader)
        until(reader.gang("two", "pumice"), 60, "a gang is bound while replicas of both versions run")
        assert [process.stop() for process in old] == [0, 0]
        until(reader.gang("three", "pumice"), 60, "the new version binds")
        reader.follow("See what runs")

        reader.follow("Go back")
        old = replicas(reader, source)
        until(reader.gang("four", "pumice"), 60, "a gang is bound while replicas of both versions run")
        assert [process.stop() for process in new] == [0, 0]
        until(reader.gang("five", "pumice"), 60, "the older version binds again")
        assert all("older than this scheduler" not in process.log for process in new)
        assert_all_bound(reader)
        assert [process.stop() for process in old] == [0, 0]


def replicas(reader: Reader, source: Path | None = None) -> list[Process]:
    """Two replicas of the Deployment as it is now, both at work; *source*: of an older version."""
    started = [reader.start("pumice-scheduler", source=source) for _ in range(2)]
    until(lambda: all("going on without" in process.log for process in started), 60, "both replicas list the cluster")
    return started


def assert_all_bound(reader: Reader) -> None:
    """All gangs are there, whole."""
    assert all(reader.bound(name) for name in ("one", "two", "three", "four", "five"))


def test_every_chapter_with_commands_is_followed() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'follow\("(.+?)"\)', source)) == set(chapters(PAGE))


def serves(bed: Bed, field: str) -> bool | None:
    """Whether the served schema of Volcano's groups has a field; None while it is made anew."""
    try:
        return field in bed.call("GET", "/openapi/v3/apis/scheduling.volcano.sh/v1beta1", raw=True)
    except Refusal:
        return None


def test_a_crd_that_lacks_a_field_is_warned_of_at_the_start(bed: Bed, world: World) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
    whole = bed.call("GET", path)["spec"]["versions"]
    version = whole[0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    gone = {name: spec.pop(name) for name in ("subGroupPolicy", "networkTopology")}
    bed.call("PATCH", path, {"spec": {"versions": [version]}}, patch="merge")
    try:
        until(lambda: serves(bed, "subGroupPolicy") is False, 60, "the server serves the old schema")
        scheduler = world.scheduler("--leader-elect=false")
        until(lambda: "older than this scheduler" in scheduler.log, 20, "the log warns")
        [line] = [line for line in scheduler.log.splitlines() if "older than this scheduler" in line]
        assert "the CRD of PodGroup" in line
        assert all(f"spec.{name}" in line for name in gone)
        assert scheduler.stop() == 0
    finally:
        spec.update(gone)
        bed.call("PATCH", path, {"spec": {"versions": whole}}, patch="merge")
        until(lambda: serves(bed, "subGroupPolicy"), 60, "the server serves the schema again")
