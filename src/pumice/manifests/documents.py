"""Files and directories -> Kubernetes objects as plain data, each with its place.

A file is YAML with several documents, JSON, or a saved cycle, which gives the objects of the cluster that it was saved
from. Lists are taken apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from pumice import saved, yamls
from pumice.errors import InvalidInput
from pumice.texts import read_text

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_BYTES: Final = 1 << 30


class ManifestDocument(NamedTuple):
    """One object of a file, and where it stands: ``jobs.yaml:12``."""

    data: dict[str, Any]
    place: str

    @property
    def kind(self) -> str:
        """The kind that it names; empty where it names none."""
        return str(self.data.get("kind") or "")


def documents(paths: Sequence[Path]) -> Iterator[ManifestDocument]:
    """The objects of files, and of all manifests below directories, in the order of their names.

    :raises InvalidInput: a path that does not exist, or a file that holds something else; names file and line.
    """
    for path in _files(paths):
        if saved.is_saved(path):
            for kind, objects in saved.read(path).objects.items():
                yield from (ManifestDocument({**data, "kind": kind}, str(path)) for data in objects)
        elif path.suffix == ".json":
            data = _json(path)
            yield from _taken_apart(data, str(path), [str(path)] * len(_items(data)))
        else:
            yield from documents_of_text(_text(path), str(path))


def documents_of_text(text: str, name: str) -> Iterator[ManifestDocument]:
    """The objects of a text of YAML, of which JSON is a part.

    :raises InvalidInput: it holds something else; names the line.
    """
    for data, node in yamls.documents(text, name):
        if data is not None:
            yield from _taken_apart(data, _place(name, node), [_place(name, item) for item in _item_nodes(node)])


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"path {str(path)!r}: does not exist")
        yield from sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES) if path.is_dir() else [path]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidInput(f"file {str(path)!r}: must have at most {_MAX_BYTES >> 20} MiB")
    except OSError as exc:
        raise InvalidInput(f"file {str(path)!r}: {exc.strerror}") from exc
    return read_text(path)


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path), parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"{path}:{exc.lineno}:{exc.colno}: not JSON: {exc.msg}") from exc
    except (RecursionError, ValueError) as exc:
        why = "is nested too deeply" if isinstance(exc, RecursionError) else exc
        raise InvalidInput(f"{path}: not JSON that can be read: {why}") from exc


def _finite(text: str) -> Any:
    return yamls.finite(float(text), text)


def _place(name: str, node: yaml.Node) -> str:
    return f"{name}:{node.start_mark.line + 1}"


def _taken_apart(data: Any, place: str, item_places: list[str]) -> Iterator[ManifestDocument]:
    """An object, or those of a List; items of a typed one (``PodList``) need not say their kind."""
    if not isinstance(data, dict):
        raise InvalidInput(f"{place}: must be a Kubernetes object, a mapping with a kind, got a {type(data).__name__}")
    if not _is_list(data):
        yield ManifestDocument(data, place)
        return
    inner = str(data["kind"]).removesuffix("List")
    for item, where in zip(_items(data), item_places, strict=True):
        yield from _taken_apart({"kind": inner, **item} if inner and isinstance(item, dict) else item, where, [])


def _is_list(data: dict[str, Any]) -> bool:
    return str(data.get("kind") or "").endswith("List") and isinstance(data.get("items"), list)


def _items(data: Any) -> list[Any]:
    return data["items"] if isinstance(data, dict) and _is_list(data) else []


def _item_nodes(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return []
    found: list[yaml.Node] = []
    for key, value in node.value:
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            found = value.value
    return found
