"""Sockets that servers listen on: made here and nowhere else."""

from __future__ import annotations

import socket
from typing import Final

from pumice.errors import InvalidInput

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def is_loopback(address: str) -> bool:
    """Report whether HOST:PORT is reached from this machine alone."""
    return address.rpartition(":")[0].strip("[]") in _LOOPBACK


def listening(address: str) -> socket.socket:
    """Return a socket that listens on ``host:port``, or on every interface for ``:port``.

    :raises InvalidInput: no such address, or the port is taken.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"address {address!r}: must be HOST:PORT or :PORT")
    return tcp_listener(host.strip("[]"), int(port))


def tcp_listener(host: str, port: int) -> socket.socket:
    """A socket that listens on a host's port, or on every interface where there is no host.

    It says that it is TCP: only then does asyncio turn Nagle's algorithm off, which delays answers by 40 ms.

    :raises InvalidInput: no such address, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen()
    except (OSError, OverflowError, TypeError) as exc:  # a port or a name that no address can have is none of OSError
        opened.close()
        why = getattr(exc, "strerror", None) or exc
        raise InvalidInput(f"address {f'[{host}]' if ':' in host else host}:{port}: {why}") from exc
    return opened
