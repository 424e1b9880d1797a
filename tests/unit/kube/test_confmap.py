"""A ConfigMap is read as if it were a file."""

from __future__ import annotations

import msgspec
import pytest

from pumice.config.settings import SchedulerSettings, from_plain
from pumice.kube.backend import ConfMap
from pumice.kube.kinds import DECODERS
from pumice.model.events import Gone, Seen


def seen(**data: str) -> Seen:
    return Seen(
        DECODERS["ConfigMap"].decode(b'{"metadata": {"name": "m", "namespace": "ns"}, "data": %s}' % _json(data))
    )


def _json(data: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f'"{k}": "{v}"' for k, v in data.items()) + "}").encode()


@pytest.mark.parametrize("text", ["conf", "/conf", "ns/", "a/b/c/d", "ns/conf/"])
def test_only_namespace_name_and_key_name_a_map(text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="must be NAMESPACE/NAME"):
        from_plain({"confMap": text}, SchedulerSettings)


def test_the_only_key_is_the_conf() -> None:
    found = ConfMap.parse("ns/m")
    found.first("ConfigMap", [seen(anything="text")])
    assert found.read_bytes() == b"text"


def test_of_several_keys_one_must_be_named() -> None:
    found, named = ConfMap.parse("ns/m"), ConfMap.parse("ns/m/b")
    for each in (found, named):
        each.first("ConfigMap", [seen(a="1", b="2")])
    assert named.read_bytes() == b"2"
    with pytest.raises(OSError, match="it has 'a', 'b'"):
        found.read_bytes()


def test_a_map_without_the_key_says_which_it_has() -> None:
    found = ConfMap.parse("ns/m/conf")
    found.first("ConfigMap", [seen(other="1")])
    with pytest.raises(OSError, match="no key 'conf', only 'other'"):
        found.read_bytes()


def test_a_map_that_is_not_there_says_so() -> None:
    found, woken = ConfMap.parse("ns/m"), []
    found.changed = lambda: woken.append(1)
    with pytest.raises(OSError, match="not listed yet"):
        found.read_bytes()
    found.first("ConfigMap", [])
    with pytest.raises(OSError, match="does not exist"):
        found.read_bytes()
    found.put([seen(a="1")])
    assert found.read_bytes() == b"1"
    found.put([Gone("ConfigMap", "ns/m")])
    with pytest.raises(OSError, match="was deleted"):
        found.read_bytes()
    assert len(woken) == 3
