"""A history survives what machines do: processes that are killed, disks that are full, files that rotate."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pumice.errors import InvalidInput
from pumice.history import files, lines
from pumice.history.files import Folder, Read, pack, remove_old
from pumice.history.stories import read_history

MANY = [lines.Admitted(float(n), f"ns/job-{n}") for n in range(100)]
WRITER = """\
import itertools, sys
from pathlib import Path
from pumice.history.files import Folder
from pumice.history.lines import Admitted
folder = Folder(Path(sys.argv[1]), "killed")
folder.another()
for n in itertools.count():
    folder.write([Admitted(float(n), "x" * 5000)])
    print(n, flush=True)
"""


def write(path: Path, written: list[lines.Line], **options: object) -> None:
    folder = Folder(path, "test", **options)  # type: ignore[arg-type]
    for line in written:
        if folder.wants_another:
            folder.another()
        folder.write([line])
    folder.close()


def test_what_was_written_is_read_in_order_over_files_that_rotated_and_were_packed(tmp_path: Path) -> None:
    write(tmp_path, list(MANY), full=500)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert len(names) > 5
    assert all(name.endswith(".jsonl.gz") for name in names)
    assert list(Read(tmp_path)) == MANY


def test_every_kind_of_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    kinds: list[lines.Line] = [
        lines.Begins(1.0, program="pumice", goes_on=True),
        lines.Conf(1.0, "abc", {"actions": "allocate"}),
        lines.NodeLine(1.0, "n1", cpu=1000, closed=True),
        lines.NodeGone(2.0, "n1"),
        lines.QueueLine(1.0, "q", {"weight": 2}),
        lines.QueueGone(2.0, "q"),
        lines.JobLine(1.0, "a/b", 0.5, minimum=2, pods=(lines.Pods(2, gpus=1, share=500, models=("A100",)),)),
        lines.Admitted(1.0, "a/b"),
        lines.PodsPlaced(1.0, "a/b", {"b-0": "n1"}, found=True),
        lines.JobRuns(2.0, "a/b"),
        lines.Evicting(3.0, "a/b", "b-0", "n1", "preempt", "a/c"),
        lines.PodsLeft(3.0, "a/b", ("b-0",), "evicted"),
        lines.Over(4.0, "a/b", "completed"),
    ]
    assert {type(line) for line in kinds} == set(lines.Line.__args__)
    write(tmp_path, kinds)
    assert list(Read(tmp_path)) == kinds


def test_a_process_that_is_killed_loses_nothing_that_was_written_and_its_last_line_may_be_torn(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 20:
            pass
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().split()
    read = Read(tmp_path)
    found = list(read)
    assert len(found) >= max((int(word) for word in said), default=20)
    assert read.torn <= 1
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    read = Read(tmp_path)
    assert len(list(read)) in (len(found) - 1, len(found))
    assert read.torn == 1


def test_packing_that_was_broken_off_loses_and_doubles_nothing(tmp_path: Path) -> None:
    write(tmp_path, list(MANY), packs=False)
    (plain,) = tmp_path.iterdir()
    plain.with_suffix(".part").write_bytes(b"half")
    assert list(Read(tmp_path)) == MANY
    content = plain.read_bytes()
    pack(plain)
    assert not plain.exists()
    plain.write_bytes(content)  # killed between the two last steps
    assert list(Read(tmp_path)) == MANY
    plain.unlink()
    packed = plain.with_suffix(".jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-30])  # a damaged file gives what can be had of it
    read = Read(tmp_path)
    assert list(read) == MANY[: len(list(Read(tmp_path)))]
    assert read.torn == 1


def test_a_disk_that_is_full_is_logged_once_and_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path, "full")
    folder.another()
    folder.write(MANY[:2])

    def no_room(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", no_room)
        for _ in range(3):
            if folder.wants_another:
                folder.another()
            folder.write(MANY[2:4])
    assert folder.failures == 3
    assert caplog.text.count("No space left on device") == 1
    folder.another()
    folder.write(MANY[4:6])
    folder.close()
    assert list(Read(tmp_path)) == [*MANY[:2], *MANY[4:6]]


def test_a_file_that_is_closed_before_it_was_synced_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SYNC", 0.0)
    folder = Folder(tmp_path, "quick", packs=False)
    for line in MANY:
        folder.another()
        folder.write([line])
        folder.close_file()
        folder.write([line])  # nobody listens
    folder.close()
    assert list(Read(tmp_path)) == MANY


def test_old_files_go_and_others_stay(tmp_path: Path) -> None:
    for name, age in (("a.jsonl", 10), ("b.jsonl.gz", 10), ("c.jsonl", 1), ("notes.txt", 10)):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    remove_old(tmp_path, 995)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.jsonl", "notes.txt"]


def test_lines_of_a_later_version_are_counted_and_a_later_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(
        b'{"is":"begins","at":1.0}\n{"is":"danced","at":2.0}\nnonsense\n{"is":"admitted","at":3,"job":"a/b"}\n'
    )
    told = read_history(file)
    assert (told.unknown, told.torn, told.ends) == (2, 0, 3.0)
    with gzip.open(tmp_path / "y.jsonl.gz", "wb") as out:
        out.write(b'{"is":"begins","at":1.0,"version":2}\n')
    with pytest.raises(InvalidInput, match="is of version 2; this program reads 1"):
        read_history(tmp_path / "y.jsonl.gz")
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(InvalidInput, match="there is no history"):
            read_history(nothing)
