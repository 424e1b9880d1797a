"""Sockets that servers listen on have one home, and answer without delay."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import pumice
from pumice.errors import InvalidInput
from pumice.sockets import listening, tcp_listener

SOURCES = Path(pumice.__file__).parent
WAYS: dict[str, Callable[[str, int], socket.socket]] = {
    "sockets": tcp_listener,
    "address": lambda host, port: listening(f"{host}:{port}"),
}


def test_sockets_are_made_in_one_place() -> None:
    made = [path.name for path in SOURCES.rglob("*.py") if "socket.socket(" in path.read_text(encoding="utf-8")]
    assert made == ["sockets.py"]


@pytest.mark.parametrize("way", WAYS)
def test_every_listener_says_that_it_is_tcp_and_a_taken_port_is_named(way: str) -> None:
    host = "127.0.0.1"
    with WAYS[way](host, 0) as opened:
        assert opened.proto == socket.IPPROTO_TCP, "else asyncio leaves Nagle's algorithm on"
        port = opened.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"address .?{host}:{port}"):
            WAYS[way](host, port)
