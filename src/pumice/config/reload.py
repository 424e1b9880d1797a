"""A conf file that may change while the scheduler runs."""

from __future__ import annotations

import hashlib
from typing import Protocol

from pumice.config.catalogue import Catalogue
from pumice.config.loader import LoadedConf, load
from pumice.config.problems import InvalidConf, Problem
from pumice.errors import ConfigError


class Readable(Protocol):
    """Where a conf is: a path, or anything else that can be read as one; its text names it in errors."""

    def read_bytes(self) -> bytes:
        """The content; an `OSError` says why there is none."""
        ...


class ConfSource:
    """Follows one conf file and keeps the last good conf, whatever happens to the file.

    There is no watcher and no clock: the owner calls ``poll`` between sessions. The content decides, not times or
    inodes, so a ConfigMap whose links are swapped is seen, and a file that was only touched is not.
    """

    def __init__(
        self, path: Readable, catalogue: Catalogue, *, initial: LoadedConf | None = None, strict: bool = False
    ) -> None:
        self.path = path
        self.active = initial
        """The conf to use; None only until the first good one."""
        self.error: ConfigError | None = None
        """Why the present content of the file is not the active conf; None if it is, or if nothing was read yet."""
        self._catalogue = catalogue
        self._strict = strict
        self._active_content: str | None = None
        self._seen_content: str | None = None

    @property
    def active_digest(self) -> str | None:
        """The hash of the active conf, by which reports name it."""
        return self.active.conf.digest if self.active is not None else None

    def poll(self) -> LoadedConf | None:
        """The new conf if the file holds another good one than the active; else None.

        A file that cannot be read or used sets ``error`` and changes nothing else. It is read again at the next poll,
        and checked again when its content has changed.
        """
        try:
            content = self.path.read_bytes()
        except OSError as error:
            self.error = ConfigError(f"{self.path}: the scheduler conf cannot be read: {error.strerror or error}")
            self._seen_content = None
            return None
        digest = hashlib.sha256(content).hexdigest()
        if digest == self._seen_content:
            return None
        self._seen_content = digest
        if digest == self._active_content:
            self.error = None
            return None
        try:
            loaded = load(_decode(content, str(self.path)), self._catalogue, str(self.path), self._strict)
        except ConfigError as error:
            self.error = error
            return None
        self.active, self.error = loaded, None
        self._active_content = digest
        return loaded

    def check_again(self, catalogue: Catalogue) -> None:
        """Make the next poll check the file against *catalogue* even if unchanged: plugins came or went."""
        self._catalogue = catalogue
        self._seen_content = self._active_content = None


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte {error.start} is 0x{content[error.start]:02x}"
        raise InvalidConf([Problem("encoding", message, "", None, source)]) from error
