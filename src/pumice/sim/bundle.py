"""A study as one file, to be played again elsewhere: scenario, inputs, confs, plugins, seeds, results, versions.

A bundle is a zip file. ``bundle.json`` says what it holds (`BundleManifest`); every other member is listed there with
its digest. Reading is bounded: known folders, regular files, so many of them, so many bytes. The plugins of a bundle
are Python that runs when it is played, as those of any scenario are.
"""

from __future__ import annotations

import hashlib
import platform
import stat
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from pumice.errors import InvalidInput, decoder_words, is_endless
from pumice.sim.results.records import Origin, RunRecord, encode

if TYPE_CHECKING:
    from pumice.sim.scenario import SimScenario

MANIFEST: Final = "bundle.json"
RESULTS: Final = "results.json"
_FOLDERS: Final = ("scenario", "inputs", "plugins")
MOST_FILES: Final = 2_000
MOST_BYTES: Final = 1 << 30
"""The limit of all members together, unpacked: more than any trace, less than the memory of a machine."""
_MOST_MANIFEST: Final = 64 << 20
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The date of every member, so that equal studies write equal files."""
_PARTS: Final = ("pumice", "numpy", "msgspec", "PyYAML", "google-re2")
_KEPT: list[TemporaryDirectory[str]] = []
"""Unpacked bundles; removed when the process ends."""


class BundledRun(msgspec.Struct, frozen=True):
    """A run of the study and the digest of what it gave."""

    configuration: str
    seed: int
    digest: str


class BundleManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The manifest of a bundle."""

    scenario: str
    """The member that is the scenario."""
    inputs: dict[str, str] = {}
    """The member of each file that the scenario names, by that name."""
    plugins: bool = False
    """It holds the directory of plugins."""
    configurations: dict[str, dict[str, Any]]
    """The confs that were played, by name, in their order."""
    seed: int | None = None
    seeds: str | None = None
    split: str | None = None
    until_sure: str | None = None
    primary: str = ""
    """The figure that was declared to judge by."""
    horizon_s: float | None = None
    runs: tuple[BundledRun, ...] = ()
    versions: dict[str, str] = {}
    """The parts that it was played with."""
    digests: dict[str, str] = {}
    """SHA-256 of every other member."""
    format: int = 1

    @property
    def digest(self) -> str:
        """The digest of all results."""
        return digest_of_runs(self.runs)

    def unlike(self, runs: Iterable[BundledRun]) -> tuple[int, list[BundledRun]]:
        """Return how many of these runs are in the bundle, and those that gave something else there."""
        known = {(run.configuration, run.seed): run.digest for run in self.runs}
        again = [run for run in runs if (run.configuration, run.seed) in known]
        return len(again), [run for run in again if run.digest != known[run.configuration, run.seed]]


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A bundle and where its files are."""

    bundle: BundleManifest
    scenario: Path
    files: Mapping[str, Path]
    plugins: Path | None


def result_digest(record: RunRecord) -> str:
    """Return the digest of what happened in a run; what it was played with and words about it are no part of it."""
    facts = msgspec.structs.replace(record, version="", trace="", warnings=(), notes=(), origin=Origin())
    return hashlib.sha256(encode(facts)).hexdigest()


def digest_of_runs(runs: Iterable[BundledRun]) -> str:
    """Return one digest of the results of many runs."""
    lines = sorted(f"{run.configuration}\t{run.seed}\t{run.digest}\n" for run in runs)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def other_versions(bundle: BundleManifest) -> str:
    """Return what the bundle was played with and is not here, in words."""
    here = versions()
    return ", ".join(f"{name} {was}" for name, was in bundle.versions.items() if here.get(name) != was)


def versions() -> dict[str, str]:
    """Return the versions of what plays."""
    parts = {name: version(name) for name in _PARTS}
    return {**parts, "python": platform.python_version(), "platform": platform.platform()}


# -- writing --------------------------------------------------------------------------------------------------------
def pack(
    scenario: SimScenario, study: Mapping[str, Any], runs: Iterable[BundledRun], results: bytes
) -> list[tuple[str, bytes]]:
    """Return the members of a bundle; *study*: the fields of `BundleManifest` that say which seeds were played.

    :raises InvalidInput: the scenario was not read from a file, or has plugins that are no files.
    """
    source = Path(scenario.source)
    if not source.is_file() or scenario.classes:
        raise InvalidInput("a bundle needs a scenario in a file, and plugins in its pluginsDir")
    members = {f"scenario/{source.name}": source}
    inputs = {}
    for at, (name, path) in enumerate(sorted(scenario.files.items())):
        inputs[name] = f"inputs/{at}/{path.name}"
        members[inputs[name]] = path
    if scenario.plugins is not None:
        for path in sorted(scenario.plugins.rglob("*.py")):
            members[f"plugins/{path.relative_to(scenario.plugins).as_posix()}"] = path
    contents = {name: path.read_bytes() for name, path in members.items()}
    contents[RESULTS] = results
    horizon = scenario.setting.horizon_s
    bundle = BundleManifest(
        scenario=f"scenario/{source.name}",
        inputs=inputs,
        plugins=scenario.plugins is not None,
        configurations={name: conf.to_data() for name, conf in scenario.configurations.items()},
        horizon_s=horizon if horizon < float("inf") else None,
        runs=tuple(runs),
        versions=versions(),
        digests={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
        **study,
    )
    manifest = msgspec.json.format(msgspec.json.encode(bundle), indent=1)
    return [(MANIFEST, manifest), *contents.items()]


def write(stream: IO[bytes], members: Iterable[tuple[str, bytes]]) -> None:
    """Write a bundle; the same members give the same bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


# -- reading --------------------------------------------------------------------------------------------------------
def is_bundle(path: Path) -> bool:
    """Report whether a file is a zip file."""
    if is_endless(path):
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def unpack(path: Path) -> Unpacked:
    """Unpack a bundle into a directory of its own, which is there until the process ends.

    :raises InvalidInput: it is no bundle, or not all in it is as a bundle may be; names the member.
    """
    directory = TemporaryDirectory(prefix="pumice-bundle-")
    _KEPT.append(directory)
    root = Path(directory.name)
    try:
        with zipfile.ZipFile(path) as archive:
            bundle = _manifest(archive)
            _unpack(archive, bundle, root)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as exc:
        raise InvalidInput(f"bundle {str(path)!r}: cannot be read: {exc}") from exc
    except InvalidInput as exc:
        raise InvalidInput(f"bundle {str(path)!r}: {exc}") from exc
    files = {name: root / member for name, member in bundle.inputs.items()}
    return Unpacked(bundle, root / bundle.scenario, files, root / "plugins" if bundle.plugins else None)


def _manifest(archive: zipfile.ZipFile) -> BundleManifest:
    found = [info for info in archive.infolist() if info.filename == MANIFEST]
    if len(found) != 1:
        raise InvalidInput(f"needs one {MANIFEST}, has {len(found)}")
    try:
        bundle = msgspec.json.decode(_bytes(archive, found[0], _MOST_MANIFEST), type=BundleManifest)
    except msgspec.MsgspecError as exc:
        raise InvalidInput(f"{MANIFEST}: {decoder_words(exc)}") from exc
    if bundle.format != 1:
        raise InvalidInput(f"{MANIFEST}: format {bundle.format} is not known; this version reads 1")
    for member in (bundle.scenario, *bundle.inputs.values()):
        if member not in bundle.digests:
            raise InvalidInput(f"{MANIFEST}: {member!r} is named and has no digest")
    return bundle


def _unpack(archive: zipfile.ZipFile, bundle: BundleManifest, root: Path) -> None:
    """Check every member before the first one is written; then write those that the manifest lists."""
    infos = archive.infolist()
    if len(infos) > MOST_FILES:
        raise InvalidInput(f"has {len(infos):,} files, at most {MOST_FILES:,} are read")
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        raise InvalidInput("has two files of one name")
    if missing := sorted(bundle.digests.keys() - set(names)):
        raise InvalidInput(f"{missing[0]!r} is not in it")
    if sum(info.file_size for info in infos) > MOST_BYTES:
        raise InvalidInput(f"holds more than {MOST_BYTES >> 20:,} MiB")
    for info in infos:
        if info.filename not in (MANIFEST, RESULTS):
            _check(info, bundle)
    for info in infos:
        if info.filename in (MANIFEST, RESULTS):
            continue
        content = _bytes(archive, info, info.file_size)
        if hashlib.sha256(content).hexdigest() != bundle.digests[info.filename]:
            raise InvalidInput(f"{info.filename!r} is not what {MANIFEST} says")
        target = root / info.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _check(info: zipfile.ZipInfo, bundle: BundleManifest) -> None:
    name = info.filename
    parts = PurePosixPath(name).parts
    mode = info.external_attr >> 16
    regular = not info.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode)) and info.compress_type in _METHODS
    inside = len(parts) > 1 and parts[0] in _FOLDERS and not {"..", "."} & set(name.split("/"))
    if not inside or "\\" in name or "\0" in name or ":" in name or name != "/".join(parts):
        raise InvalidInput(f"{name!r} is no name of a file in a bundle")
    if not regular or info.flag_bits & 1:
        raise InvalidInput(f"{name!r} is no regular file")
    if parts[0] == "plugins" and not name.endswith(".py"):
        raise InvalidInput(f"{name!r} is no Python file")
    if name not in bundle.digests:
        raise InvalidInput(f"{name!r} is not listed in {MANIFEST}")


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """The content of a member, whatever size it says it has."""
    with archive.open(info) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InvalidInput(f"{info.filename!r} is larger than {most:,} bytes")
    return content
