"""A file is looked at before it is read: its kind, its size, and how much it unpacks to."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest

from pumice.errors import InvalidInput, most_unpacked, read_bytes, read_text
from pumice.saved.files import parse


def test_what_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate(3 << 20)
    assert len(read_bytes(file, most=3 << 20)) == 3 << 20
    with pytest.raises(InvalidInput, match=r"large': must have at most 2 MiB"):
        read_bytes(file, most=2 << 20)


def test_a_socket_is_no_file_and_the_output_of_a_command_is_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(tmp_path / "socket"))
        with pytest.raises(InvalidInput, match="must be a file"):
            read_text(tmp_path / "socket")
    reading, writing = os.pipe()
    os.write(writing, b"kind: Node\n")
    os.close(writing)
    assert read_text(Path(f"/dev/fd/{reading}")) == "kind: Node\n"
    os.close(reading)


def test_what_unpacks_to_far_more_than_any_cycle_is_unpacked_in_part_only() -> None:
    bomb = gzip.compress(b" " * (40 << 20))
    with pytest.raises(InvalidInput, match="unpacks to more than 16 MiB"):
        parse(bomb)
    assert most_unpacked(len(bomb), 1 << 30) < 40 << 20
    assert most_unpacked(4 << 20, 1 << 28) == 1 << 28
    assert most_unpacked(131_178, 1 << 30) > 10_216_389  # a gang of 40,000 pods
