"""Sealed objects: everybody reads, the state alone writes."""

from __future__ import annotations

import copy
import pickle

import pytest

from pumice.model.job import Job
from pumice.model.sealed import Sealed
from pumice.model.task import Task
from pumice.state.writing import become, unsealed, writer


class Point(Sealed):
    __slots__ = ("x", "y")

    x: int
    y: int

    def __init__(self, x: int) -> None:
        self.x = x


class Higher(Point):
    __slots__ = ("z",)

    def __init__(self, x: int, z: int) -> None:
        super().__init__(x)
        self.z = z


class Named(Point):
    __slots__ = ()


@pytest.mark.parametrize("point", [Point(1), Higher(1, 2)])
def test_a_slot_can_be_read_but_not_written_or_deleted(point: Point) -> None:
    for slot in ("x", "y", "other", "__class__"):
        with pytest.raises(AttributeError, match=rf"{type(point).__name__}.{slot} is read-only: the state alone"):
            setattr(point, slot, 2)
        with pytest.raises(AttributeError, match="read-only"):
            delattr(point, slot)
    assert point.x == 1


def test_what_is_made_is_of_the_class_that_was_called_and_of_no_draft() -> None:
    assert type(Point(1)) is Point
    assert type(Higher(1, 2)) is Higher


@pytest.mark.parametrize("cls", [Point, Higher, Task, Job])
def test_a_draft_is_written_at_the_speed_of_c(cls: type[Sealed]) -> None:
    """The two share one slot in C: with only one of them put back every write goes through Python."""
    assert cls._draft.__setattr__ is object.__setattr__
    assert cls._draft.__delattr__ is object.__delattr__
    assert "__setattr__" in cls._draft.__dict__
    assert "__delattr__" in cls._draft.__dict__


def test_a_writer_writes_one_slot_also_of_a_subclass() -> None:
    write = writer(Point, "x")
    point = Higher(1, 2)
    write(point, 5)
    assert point.x == 5


def test_an_object_that_was_unsealed_is_sealed_again_whatever_happens() -> None:
    point = Higher(1, 2)
    with unsealed(point):
        point.x, point.z = 3, 4
    assert (type(point), point.x, point.z) == (Higher, 3, 4)
    with pytest.raises(ZeroDivisionError), unsealed(point):
        point.x = 1 // 0
    assert type(point) is Higher


def test_an_object_can_become_one_of_another_class_of_the_same_slots() -> None:
    point = Point(1)
    become(point, Named)
    assert type(point) is Named
    with pytest.raises(AttributeError, match=r"Named\.x is read-only"):
        point.x = 2


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused_in_clear_words(how: object) -> None:
    with pytest.raises(TypeError, match="a Point cannot be copied or pickled, it is part of the state; keep its key"):
        how(Point(1))  # type: ignore[operator]
