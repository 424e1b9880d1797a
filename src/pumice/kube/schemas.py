"""Compares the served CRDs with the fields that are read: a server drops fields that its CRD does not have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from pumice.errors import PumiceError
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.kinds import Resource
from pumice.model.api import KINDS

log = logging.getLogger("pumice.kube")

AGAIN: Final = 600.0
"""Seconds between two comparisons: CRDs may be upgraded, or exchanged for older ones, at any time."""
SOON: Final = 10.0
"""The same while the API server does not answer."""
_GROUP: Final = ".volcano.sh/"
"""The groups whose CRDs are ours."""


class SchemaComparison:
    """Compares the served schemas with the fields that are read, and warns of those that are missing."""

    def __init__(self, credentials: Credentials, resources: Iterable[Resource]) -> None:
        self._credentials = credentials
        self._resources = [resource for resource in resources if _GROUP in f"{resource.prefix}/"]
        self._told: dict[str, list[str]] = {}

    async def run(self) -> None:
        """Compare now and every ten minutes, until cancelled. Each list of missing fields is told once."""
        async with KubeClient(self._credentials, connections=1) as client:
            while True:
                try:
                    for resource in self._resources:
                        self._tell(resource, await self._missing(client, resource))
                    await asyncio.sleep(AGAIN)
                except (PumiceError, msgspec.MsgspecError) as exc:
                    log.debug("the served schemas cannot be compared: %s", exc)
                    await asyncio.sleep(SOON)

    def _tell(self, resource: Resource, missing: list[str]) -> None:
        if missing and missing != self._told.get(resource.kind):
            log.warning(
                "the CRD of %s on the server is older than this scheduler: it drops %s; apply deploy/crds",
                *(resource.kind, ", ".join(missing)),
            )
        self._told[resource.kind] = missing

    async def _missing(self, client: KubeClient, resource: Resource) -> list[str]:
        body = await client.request("GET", f"/openapi/v3{resource.prefix}")
        found = msgspec.json.decode(body)
        schemas = found.get("components", {}).get("schemas", {})
        group, _, version = resource.prefix.removeprefix("/apis/").partition("/")
        wanted = {"group": group, "version": version, "kind": resource.kind}
        for schema in schemas.values():
            if wanted in schema.get("x-kubernetes-group-version-kind", ()):
                return missing_fields(resource.kind, schema)
        return []  # no such kind here; the reflector says so


def missing_fields(kind: str, schema: dict[str, Any]) -> list[str]:
    """The fields of a kind that are read and that a schema does not have; only the topmost of each branch."""
    info = inspect.type_info(KINDS[kind])
    assert isinstance(info, inspect.StructType)
    return [
        path
        for field in info.fields
        if field.encode_name in ("spec", "status") and not isinstance(field.type, inspect.DictType)
        for path in _absent(field.type, schema.get("properties", {}).get(field.encode_name), field.encode_name)
    ]


def _absent(read: inspect.Type, served: dict[str, Any] | None, path: str) -> Iterator[str]:
    """The paths below *path* that are read and not served."""
    if served is None:
        yield path
        return
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    match read:
        case inspect.UnionType(types=types):
            for one in types:
                yield from _absent(one, served, path)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _absent(item, served.get("items", {}), f"{path}[]")
        case inspect.StructType(fields=fields):
            for field in fields:
                below = served.get("properties", {}).get(field.encode_name)
                yield from _absent(field.type, below, f"{path}.{field.encode_name}")
