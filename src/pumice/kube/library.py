"""The credentials loader of kubernetes_asyncio, without the models of the whole API that its packages import.

They take half a second, for which a cluster would wait at every restart; the loader needs none of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_NAME = "kubernetes_asyncio"
_found: tuple[Any, Any] | None = None


def loader() -> tuple[Any, Any]:
    """The module ``config`` and the class ``Configuration`` of the library, as it has them."""
    global _found
    if _found is None:
        if _NAME in sys.modules:
            _found = _whole()
        else:
            try:
                _found = _alone()
            except Exception:  # a release that is built otherwise: slower, but right
                _found = _whole()
    return _found


def _whole() -> tuple[Any, Any]:
    return importlib.import_module(f"{_NAME}.config"), importlib.import_module(f"{_NAME}.client").Configuration


def _alone() -> tuple[Any, Any]:
    """Import the loader below packages that are empty; nobody else gets to see those."""
    spec = importlib.util.find_spec(_NAME)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{_NAME}: not installed as a package")
    places = list(spec.submodule_search_locations)
    package = _empty(_NAME, places)
    client = _empty(f"{_NAME}.client", [str(Path(place, "client")) for place in places])
    package.client = client  # type: ignore[attr-defined]
    try:
        configuration = importlib.import_module(f"{_NAME}.client.configuration").Configuration
        client.Configuration = configuration  # type: ignore[attr-defined]
        client.ApiClient = object  # type: ignore[attr-defined]  # it could make clients of the library's own
        return importlib.import_module(f"{_NAME}.config"), configuration
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _NAME]:
            del sys.modules[name]


def _empty(name: str, places: list[str]) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = places
    sys.modules[name] = module
    return module
