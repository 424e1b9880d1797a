"""Keys are looked at once, never twice at the same time, and again after a failure."""

from __future__ import annotations

import asyncio
from collections import Counter

import virtual_time
from scripted_api import until

from pumice.errors import PumiceError
from pumice.kube.controllers.work import WorkQueue


class Handler:
    """Writes down what it was asked, and can be held back."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.running: Counter[str] = Counter()
        self.most = 0
        self.fail: dict[str, int] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, key: str) -> None:
        self.calls.append(key)
        self.running[key] += 1
        assert self.running[key] == 1, "never twice at the same time"
        self.most = max(self.most, sum(self.running.values()))
        try:
            await self.gate.wait()
            if self.fail.get(key, 0):
                self.fail[key] -= 1
                raise PumiceError("not now")
        finally:
            self.running[key] -= 1


async def working(handler: Handler, queue: WorkQueue, until_done: int) -> None:
    task = asyncio.create_task(queue.run())
    try:
        await until(lambda: len(handler.calls) >= until_done and not sum(handler.running.values()))
        await asyncio.sleep(0.05)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_key_that_is_named_often_is_looked_at_once() -> None:
    async def run() -> None:
        handler = Handler()
        queue = WorkQueue("test", handler)
        for _ in range(5):
            queue.add("a")
            queue.add("b", 0.01)
        await working(handler, queue, 2)
        assert sorted(handler.calls) == ["a", "b"]

    virtual_time.run(run())


def test_a_key_that_is_named_while_it_is_looked_at_has_its_turn_afterwards() -> None:
    async def run() -> None:
        handler = Handler()
        handler.gate.clear()
        queue = WorkQueue("test", handler)
        queue.add("a", 0)
        task = asyncio.create_task(working(handler, queue, 2))
        await until(lambda: handler.calls == ["a"])
        queue.add("a", 0)
        queue.add("a", 0)
        await asyncio.sleep(0.05)
        assert handler.calls == ["a"]
        handler.gate.set()
        await task
        assert handler.calls == ["a", "a"]

    virtual_time.run(run())


def test_a_key_whose_look_failed_is_looked_at_again_and_holds_nobody_up() -> None:
    async def run() -> None:
        handler = Handler()
        handler.fail = {"bad": 2}
        queue = WorkQueue("test", handler)
        queue.add("bad", 0)
        queue.add("good", 0.02)
        await working(handler, queue, 4)
        assert Counter(handler.calls) == {"bad": 3, "good": 1}
        assert handler.calls[1] == "good"

    virtual_time.run(run())


def test_only_so_many_are_looked_at_at_once_and_all_have_their_turn() -> None:
    async def run() -> None:
        handler = Handler()
        queue = WorkQueue("test", handler, at_once=3)
        for n in range(50):
            queue.add(f"k{n}", 0)
        await working(handler, queue, 50)
        assert len(set(handler.calls)) == 50
        assert handler.most <= 3

    virtual_time.run(run())


def test_the_earlier_of_two_times_counts() -> None:
    async def run() -> None:
        handler = Handler()
        queue = WorkQueue("test", handler)
        queue.add("a", 60)
        queue.add("a", 0.01)
        queue.add("a", 30)
        await working(handler, queue, 1)
        assert handler.calls == ["a"]

    virtual_time.run(run())
