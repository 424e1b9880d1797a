"""Before pods are bound: the claims of all that belong together are made ready, or nothing is bound."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from pumice.kube.editing import ClaimUnusable
from pumice.kube.reservations import DeviceClaims
from pumice.kube.volumes import VolumeClaims
from pumice.kube.writes import ApiWriter
from pumice.model.intents import Bind, DeviceChoice, VolumeChoice

log = logging.getLogger("pumice.kube")

_Versions: TypeAlias = dict[str, list[int]]
"""Per pod, by UID, the versions of what was written for its claims."""
_Step: TypeAlias = Callable[[Bind, _Versions], Awaitable[None]]


class Preparer:
    """Makes the claims of pods ready before they are bound, and takes that back where they are not."""

    def __init__(self, writer: ApiWriter, volumes: VolumeClaims, devices: DeviceClaims) -> None:
        self._writer, self._volumes, self._devices = writer, volumes, devices

    async def prepare(self, binds: Sequence[Bind]) -> dict[str, str]:
        """Make the claims of one job's binds ready; returns why not, by UID, for those that must not be bound.

        If fewer than the job needs can be bound, none is, and nothing of what was written for them stays.
        """
        needed = min(max(bind.needed for bind in binds), len(binds))
        versions: _Versions = {}
        begun = await asyncio.gather(*(self._tried(self._write, bind, versions) for bind in binds))
        refused = {bind.uid: why for bind, why in zip(binds, begun, strict=True) if why}
        waits = [bind for bind in binds if bind.uid not in refused]
        tasks = {asyncio.create_task(self._tried(self._wait, bind, versions)): bind for bind in waits}
        waiting = set(tasks)
        try:
            while waiting and len(binds) - len(refused) >= needed:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                refused |= {tasks[task].uid: why for task in done if (why := task.result())}
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if len(binds) - len(refused) < needed:
            first = next(iter(refused.values()))
            text = f"{len(refused)} of {len(binds)} pods cannot be bound, and {needed} must be: {first}"
            refused = {bind.uid: refused.get(bind.uid, text) for bind in binds}
        await asyncio.gather(*(self.done(bind, failed=True) for bind in binds if bind.uid in refused))
        return refused

    async def _tried(self, step: _Step, bind: Bind, versions: _Versions) -> str:
        """Take a step for a pod; returns why it did not succeed, or nothing."""
        try:
            await step(bind, versions)
        except ClaimUnusable as exc:
            return str(exc)
        except Exception as exc:
            log.exception("preparing %s", bind.pod)
            return f"{type(exc).__name__}: {exc}"
        return ""

    async def _write(self, bind: Bind, versions: _Versions) -> None:
        """Write everything that a pod's claims need."""
        versions[bind.uid] = [await self._begin(choice, bind) for choice in bind.prepare]

    async def _wait(self, bind: Bind, versions: _Versions) -> None:
        """Return when all volumes of a pod are there."""
        for choice, version in zip(bind.prepare, versions[bind.uid], strict=True):
            if isinstance(choice, VolumeChoice):
                await self._volumes.bound(choice, bind, version)

    async def _begin(self, choice: VolumeChoice | DeviceChoice, bind: Bind) -> int:
        if isinstance(choice, VolumeChoice):
            return await self._volumes.begin(choice, bind)
        await self._devices.begin(choice, bind)
        return 0

    async def done(self, bind: Bind, *, failed: bool) -> None:
        """A pod was bound, or will not be: then its claims are as they were, unless somebody else gave it a node."""
        if failed and bind.prepare:
            try:
                failed = not await self._writer.node_of(bind)
            except Exception as exc:
                log.warning("the claims of pod %s are left as they are: %s", bind.pod, exc)
                failed = False
        for choice in bind.prepare:
            if isinstance(choice, VolumeChoice):
                await self._volumes.done(choice, bind, failed=failed)
            elif failed:
                await self._devices.give_back(choice, bind)
