"""`--bundle`: a study as one file that gives the same results elsewhere, and is read within bounds."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pumice
from pumice.cli.app import app
from pumice.errors import InvalidInput
from pumice.sim import bundle

POLICY = '''\
from pumice import Job, Plugin, Session


class Short(Plugin):
    """Jobs of few GPUs go first."""

    name = "few"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, lambda job: job.total_request["nvidia.com/gpu"])
'''
SCENARIO = """\
name: two parts
pluginsDir: ../policies
horizon: 12h
cluster: {nodes: ../cluster/nodes.csv}
workload:
  manifests: [jobs.yaml]
  generators: [{name: g, arrivals: {every: 5m, count: 20}, duration: {exponential: 20m}, gpu: {choice: {1: 3, 8: 1}}}]
  trace: {file: log.csv.gz}
configurations:
  as it is: default
  few: ../confs/few.conf
"""
FEW = "actions: enqueue, allocate\ntiers: [{plugins: [{name: few}, {name: gang}, {name: predicates}]}]\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,V100\nn1,64000,262144,8,V100\n"
MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: one, annotations: {sim.pumice.dev/run-time: 30m}}
spec: {template: {spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}}}
"""
COMMAND = "from pumice.cli.entry import main; main()"


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout, result.stderr


def elsewhere(directory: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process and a directory of its own, in which nothing but the bundle is."""
    words = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    return subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def digest(text: str) -> str:
    found = re.search(r"digest\s+([0-9a-f]{64})", text)
    assert found is not None, text
    return found[1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bundles")
    for name, text in {
        "policies/few.py": POLICY, "confs/few.conf": FEW, "cluster/nodes.csv": NODES, "day/day.yaml": SCENARIO,
        "day/jobs.yaml": MANIFEST,
    }.items():  # fmt: skip
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    rows = "".join(f"t{n},{n * 200},{600 + n * 37},{n % 5 + 1}\n" for n in range(30))
    (home / "day" / "log.csv.gz").write_bytes(gzip.compress(f"job,submit_s,duration_s,gpu\n{rows}".encode()))
    return home


@pytest.fixture(scope="module")
def made(home: Path) -> tuple[Path, str]:
    """A bundle of a study, whose files are gone, and the digest of its results."""
    code, _, err = run("simulate", home / "day" / "day.yaml", "--seeds", "1..3", "--bundle", home / "run.zip")
    assert code == 0, err
    return home / "run.zip", digest(err)


def test_a_study_gives_the_same_results_from_its_bundle_alone(made: tuple[Path, str], tmp_path: Path) -> None:
    path, found = made
    shutil.copy(path, tmp_path / "run.zip")
    again = elsewhere(tmp_path, "simulate", "run.zip", "--workers", 2)
    assert again.returncode == 0, again.stderr
    assert "The same results as in the bundle: 6 runs" in again.stderr.replace("\n", " ")
    assert digest(again.stderr) == found
    kept = json.loads(zipfile.ZipFile(path).read("results.json"))
    assert len(kept["runs"]) == 6
    assert kept["comparison"]["configurations"] == ["as it is", "few"]


def test_python_plays_a_bundle_as_it_was_made(made: tuple[Path, str]) -> None:
    study = pumice.simulate(made[0])
    assert study.results.configurations == ("as it is", "few")
    runs = [bundle.BundledRun(t.configuration, t.seed, done.digest) for t, done in study.results.played.items()]
    assert (len(runs), bundle.digest_of_runs(runs)) == (6, made[1])
    assert pumice.simulate(made[0], "few", seeds=1).results.configurations == ("few",)


def test_equal_studies_make_equal_bundles(home: Path, made: tuple[Path, str], tmp_path: Path) -> None:
    for name in ("b", "c"):
        command = ("simulate", made[0], "--conf", "few", "--seed", 5, "--horizon", "2h", "--bundle", tmp_path / name)
        assert run(*command)[0] == 0
    assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    code, out, err = run("simulate", tmp_path / "b", "-o", "json")
    assert code == 0
    assert "The same results as in the bundle: 1 run," in err
    assert [(one["run"], one["seed"]) for one in json.loads(out)["runs"]] == [("few", 5)]


def test_arguments_that_were_varied_and_what_was_split_are_in_the_bundle(home: Path, tmp_path: Path) -> None:
    scenario = home / "day" / "parts.yaml"
    scenario.write_text("cluster: {nodes: ../cluster/nodes.csv}\nworkload: {trace: {file: log.csv.gz}}\n")
    vary = ("--vary", "nodeorder.leastrequested.weight=0,3", "--split", "30m")
    code, _, err = run("simulate", scenario, *vary, "--bundle", tmp_path / "parts.zip")
    assert code == 0, err
    again = elsewhere(tmp_path, "simulate", "parts.zip", "--workers", 1)
    assert again.returncode == 0, again.stderr
    assert digest(again.stderr) == digest(err)


def test_other_results_are_an_error(made: tuple[Path, str], tmp_path: Path) -> None:
    def other(manifest: dict[str, Any]) -> None:
        manifest["runs"][1]["digest"] = "0" * 64
        manifest["versions"]["python"] = "3.11.0rc1"

    code, _, err = run("simulate", changed(made[0], tmp_path / "other.zip", manifest=other), "--workers", 1)
    assert code == 1
    said = " ".join(err.split())
    assert "1 of 6 runs gave something else than in the bundle, the first is few, seed 1" in said
    assert "it was made with python 3.11.0rc1" in said


def test_a_bundle_needs_files(tmp_path: Path) -> None:
    read = pumice.read_scenario({"cluster": {"nodes": [{"name": "n", "cpu": 1}]}}, jobs={"job": ["a"], "submit_s": [0],
                                                                                       "duration_s": [1]})  # fmt: skip
    with pytest.raises(InvalidInput, match="needs a scenario in a file"):
        bundle.pack(read, {}, [], b"")


# -- bounds ---------------------------------------------------------------------------------------------------------
def changed(
    path: Path,
    to: Path,
    *,
    manifest: Callable[[dict[str, Any]], None] = lambda manifest: None,
    more: dict[str, bytes] | None = None,
    mode: int = stat.S_IFREG | 0o644,
    without: str = "",
) -> Path:
    """A bundle with something else in it; members that are added are listed with their digest."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        said = json.loads(old.read("bundle.json"))
        for name, content in (more or {}).items():
            said["digests"].setdefault(name, hashlib.sha256(content).hexdigest())
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            new.writestr(info, content)
        manifest(said)
        for name in old.namelist():
            if name not in ("bundle.json", without):
                new.writestr(name, old.read(name))
        new.writestr("bundle.json", json.dumps(said))
    return to


@pytest.mark.parametrize(
    "name",
    [
        "../out.py", "/etc/out", "plugins/../../out.py", "scenario/./x", "inputs//x", "C:/x", "inputs/a\\..\\b",
        "other/x", "x.yaml", "plugins/x.so", "inputs/", "inputs/c:x",
    ],
)  # fmt: skip
def test_a_member_that_could_land_elsewhere_is_refused(made: tuple[Path, str], tmp_path: Path, name: str) -> None:
    path = changed(made[0], tmp_path / "bad.zip", more={name: b"x"})
    with pytest.raises(InvalidInput, match=r"bad\.zip': .*(no name of a file|no regular file|no Python file)"):
        bundle.unpack(path)
    assert not (tmp_path / "out.py").exists()


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o644])
def test_links_and_devices_are_refused(made: tuple[Path, str], tmp_path: Path, mode: int) -> None:
    path = changed(made[0], tmp_path / "bad.zip", more={"inputs/link": b"/etc/passwd"}, mode=mode)
    with pytest.raises(InvalidInput, match="'inputs/link' is no regular file"):
        bundle.unpack(path)


def test_a_file_that_is_changed_missing_unlisted_or_too_much_is_refused(
    made: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(said: str, **what: Any) -> None:
        with pytest.raises(InvalidInput, match=re.escape(said)):
            bundle.unpack(changed(made[0], tmp_path / "bad.zip", **what))

    def listed(name: str, value: str) -> Callable[[dict[str, Any]], None]:
        return lambda manifest: manifest["digests"].update({name: value})

    refused("'plugins/few.py' is not what bundle.json says", manifest=listed("plugins/few.py", "0" * 64))
    refused("'inputs/gone' is not in it", manifest=listed("inputs/gone", ""))
    refused("'plugins/few.py' is not in it", without="plugins/few.py")
    refused(
        "'inputs/more' is not listed",
        more={"inputs/more": b""},
        manifest=lambda said: said["digests"].pop("inputs/more"),
    )
    refused("'scenario/x' is named and has no digest", manifest=lambda said: said.update(scenario="scenario/x"))
    refused("'/etc/passwd' is named", manifest=lambda said: said["inputs"].update({"log.csv.gz": "/etc/passwd"}))
    refused("format 2 is not known", manifest=lambda said: said.update(format=2))
    refused("bundle.json: ", manifest=lambda said: said.update(runs=3))
    monkeypatch.setattr(bundle, "MOST_FILES", 5)
    refused("has 8 files, at most 5 are read")
    monkeypatch.undo()
    monkeypatch.setattr(bundle, "MOST_BYTES", 1 << 10)
    refused("holds more than 0 MiB")


def test_a_member_that_unpacks_to_more_than_it_says_is_refused(made: tuple[Path, str], tmp_path: Path) -> None:
    with zipfile.ZipFile(made[0]) as archive:
        [info] = [one for one in archive.infolist() if one.filename == "plugins/few.py"]
        info.file_size //= 2
        with pytest.raises((InvalidInput, zipfile.BadZipFile)):
            bundle._bytes(archive, info, info.file_size)


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"PK\x03\x04" + bytes(100), b""])
def test_what_is_no_bundle_is_an_error_and_no_crash(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    code, _, err = run("simulate", tmp_path / "x.zip")
    assert code == 1
    assert "x.zip" in err


def test_a_zip_file_of_something_else_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(InvalidInput, match=r"x\.zip': needs one bundle\.json, has 0"):
        bundle.unpack(tmp_path / "x.zip")
