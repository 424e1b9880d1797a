"""Wrong usage, which ends a command with exit code 2 where another failure ends it with 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pumice.errors import InvalidInput


class WrongUsage(InvalidInput):
    """What was written on the command line breaks a rule, whatever the files say."""


@contextmanager
def reading(option: str) -> Iterator[None]:
    """Around the reading of an option's value: a value that breaks a rule is wrong usage, and the option is named."""
    try:
        yield
    except InvalidInput as exc:
        raise WrongUsage(f"{option}: {exc}") from exc


def web_address(url: str | None) -> str | None:
    """What an option or argument that says whom to ask must be.

    :raises WrongUsage: it is not.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise WrongUsage(f"URL {url!r}: must begin with https:// or http://")
    return url
