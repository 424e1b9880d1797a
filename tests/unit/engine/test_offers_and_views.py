"""What is kept between questions: what nodes offer, and views of classes."""

from __future__ import annotations

from pumice.engine import views
from pumice.engine.views import ClassView, ViewCache


def test_views_go_when_other_callbacks_are_asked_and_stay_otherwise() -> None:
    cache = ViewCache()
    cache.use(("gang",))
    cache.views["class"] = ClassView()
    cache.use(("gang",))
    assert list(cache.views) == ["class"]
    cache.use(("gang", "drf"))
    assert not cache.views


def test_the_least_used_views_go_first_and_some_always_stay() -> None:
    cache = ViewCache(max_bytes=40 * (52 + views._PINNED))
    for number in range(60):
        cache.views[number] = ClassView()
    cache.trim(1)
    assert list(cache.views) == list(range(20, 60))
    cache.trim(1_000_000)
    assert list(cache.views) == list(range(28, 60))
