"""Clusters, and an API server's word about tokens and rights, for tests of the pages."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from pumice.answers.service import Answers
from pumice.config import from_data
from pumice.dashboard.access import OpenAccess, TokenAccess
from pumice.dashboard.history import RecentHistory
from pumice.dashboard.server import Dashboard
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kube.access import Reviews
from pumice.kube.serving import serve
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import NextCycle
from pumice.sockets import tcp_listener
from pumice.state.cluster import ClusterState
from pumice.testing.world import flat, with_default_queue

NOON = 1_800_014_400.0
CONF = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
    ],
}


def desk_over(*objects: Any, now: float = NOON, conf_data: dict[str, Any] = CONF) -> Answers:
    """A desk over a cluster of these objects."""
    registry = default_registry()
    conf = from_data(conf_data, catalogue_of(registry)).conf
    state = ClusterState(scheduler_names=("pumice", "default-scheduler", ""))
    state.now = now
    state.apply_all(Seen(obj) for obj in with_default_queue(flat(objects)))
    return Answers(NextCycle(state, assemble(conf, registry), Runtime()), source="cycle")


class Word:
    """What an API server says: whose a token is, and who may what. Takes the place of a connection to one."""

    def __init__(self, rights: dict[str, list[tuple[str, str, str]]]) -> None:
        self.rights = rights
        """User -> (verb, resource, namespace); the token of NAME is NAME-token."""
        self.asked: list[str] = []

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> bytes:
        """An answer to a review."""
        self.asked.append(f"{method} {path}")
        spec = body["spec"]
        if path.endswith("tokenreviews"):
            name = spec["token"].removesuffix("-token")
            known = name in self.rights and spec["token"].endswith("-token")
            status: dict[str, Any] = {"authenticated": known, "user": {"username": name}}
        else:
            what = spec["resourceAttributes"]
            right = (what["verb"], what["resource"], what.get("namespace", ""))
            status = {"allowed": right in self.rights.get(spec["user"], ())}
        return msgspec.json.encode({"status": status})


def asking(desk: Answers) -> Callable[..., Future[Any]]:
    """Answers at once."""

    def ask(question: Callable[[Answers], Any], /, who: str = "") -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(question(desk))
        except Exception as exc:
            answer.set_exception(exc)
        return answer

    return ask


@contextmanager
def served(desk: Answers, history: RecentHistory | None = None, word: Word | None = None) -> Iterator[str]:
    """The pages on loopback; gives their address."""
    opened = tcp_listener("127.0.0.1", 0)
    address = f"http://127.0.0.1:{opened.getsockname()[1]}"
    loop = asyncio.new_event_loop()
    task: list[asyncio.Task[None]] = []

    async def main() -> None:
        access = OpenAccess() if word is None else TokenAccess(Reviews(word))  # type: ignore[arg-type]
        await serve(
            opened, Dashboard(asking(desk), history or RecentHistory(desk.state), access, title="test").routes()
        )

    def run() -> None:
        task.append(loop.create_task(main()))
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task[0])
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield address
    finally:
        end = time.monotonic() + 10
        while thread.is_alive() and time.monotonic() < end:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task[0].cancel)
            thread.join(0.5)
