"""A bare client: lists nodes and pods, binds round robin with 64 binds in flight, and decodes what the watch brings.

    python -m kubebench.bare URL FOLDER

The least that anything in Python that binds pods must do. Does no scheduling.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from kubebench.cluster import IN_FLIGHT, PODS, SCHEDULER, connect


class Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class Thing(msgspec.Struct):
    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)


class Things(msgspec.Struct):
    metadata: Meta
    items: list[Thing]


class Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


THINGS, THING, LINE = msgspec.json.Decoder(Things), msgspec.json.Decoder(Thing), msgspec.json.Decoder(Line)


async def main(url: str, folder: Path) -> None:
    """Bind everything, and end when the watch has shown it."""
    async with connect(folder, IN_FLIGHT + 4, SCHEDULER) as session:

        async def listed(path: str) -> Things:
            async with session.get(url + path) as answer:
                return THINGS.decode(await answer.read())

        nodes, pods = await listed("/api/v1/nodes"), await listed("/api/v1/pods")
        waiting = enumerate(pods.items)
        seen: set[str] = set()

        async def watch() -> None:
            query = {"watch": "1", "resourceVersion": pods.metadata.resource_version, "allowWatchBookmarks": "true"}
            async with session.get(url + "/api/v1/pods", params=query) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        thing = THING.decode(LINE.decode(line).object)
                        if thing.spec.node_name:
                            seen.add(thing.metadata.name)
                    if len(seen) >= len(pods.items):
                        return

        async def work() -> None:
            for at, pod in waiting:
                where = nodes.items[at % len(nodes.items)].metadata.name
                target = {"apiVersion": "v1", "kind": "Node", "name": where}
                meta = {"name": pod.metadata.name, "uid": pod.metadata.uid}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
                path = f"{url}{PODS}/{pod.metadata.name}/binding"
                async with session.post(path, data=msgspec.json.encode(body)) as answer:
                    text = await answer.read()
                    if answer.status != 201:
                        raise SystemExit(f"{path}: {answer.status} {text[:300]!r}")

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        await watching


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
