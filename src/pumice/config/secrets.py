"""A conf as it may be shown: what lets somebody in is masked, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import yaml

from pumice.config.schema import SchedulerConf

MASK: Final = "***"
_SECRET: Final = re.compile(
    r"token|passw|secret|credential|auth|cookie|api[-_.]?key|private[-_.]?key|headers", re.IGNORECASE
)
"""Names of what lets somebody in; of a table of that name every value."""
_PLACE: Final = re.compile(r"(file|path|dir)$", re.IGNORECASE)
"""Names of where something is, which is no secret."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")


def conf_text(conf: SchedulerConf) -> str:
    """The conf as YAML, without what lets somebody in."""
    return yaml.safe_dump(without_secrets(conf.to_data()), sort_keys=False, allow_unicode=True, width=100)


def without_secrets(data: Any, name: str = "") -> Any:
    """Plain data of a conf, with `MASK` for secrets: values by their names, and parts of addresses.

    Numbers, switches and the names of files stay, whatever they are called.
    """
    if isinstance(data, Mapping):
        hidden = name if _secret(name) else ""
        return {key: without_secrets(value, hidden or str(key)) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [without_secrets(value, name) for value in data]
    if not isinstance(data, str):
        return data
    return MASK if data and _secret(name) else _URL.sub(lambda found: _address(found[0]), data)


def _secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _PLACE.search(name)


def _address(url: str) -> str:
    """An address without who asks there, and without what is handed over."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    _, at, host = parts.netloc.rpartition("@")
    query = "&".join(f"{pair.partition('=')[0]}={MASK}" if "=" in pair else MASK for pair in parts.query.split("&"))
    fragment = MASK if parts.fragment else ""
    return urlunsplit(
        (parts.scheme, f"{MASK}@{host}" if at else host, parts.path, query if parts.query else "", fragment)
    )
