"""What device selectors may cost: every operation pays for the parts it touches, and a claim has one budget."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from pumice.model import api
from pumice.plugins.predicates.cel import STEPS, STEPS_PER_DEVICE, compile_selector
from pumice.plugins.predicates.cel_functions import FUNCTIONS, MORE_STEPS
from pumice.plugins.predicates.cel_methods import METHODS
from pumice.plugins.predicates.cel_parts import CelBudget, CelScope, TooCostly, Value, call, constant, operator
from pumice.plugins.predicates.cel_values import LONGEST, OPERATORS, CelAmount, CelOptional, NoValue, weight
from pumice.plugins.predicates.offered_device import Device
from pumice.testing import Scenario

PLENTY = 10**12


def tower(levels: int, bottom: Any = 0) -> list[Any]:
    """A list that shares its parts: ten times as many for each level."""
    found = [bottom] * 10
    for _ in range(levels - 1):
        found = [found] * 10
    return found


HUGE = [
    "a" * LONGEST,
    "ab" * (LONGEST // 2),
    list(range(LONGEST)),
    ["a" * LONGEST] * 100,
    tower(4, "a"),
    {"a": tower(3), "b": tower(3)},
    CelOptional((tower(3),)),
]
OTHERS = ["", "a", "a?" * 200, "((a|b|c){1,100}){1,9}", "(a?){1,500}(a?){1,500}b", "(", 0, 3, CelAmount(1), True, []]
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., int] | None]] = {
    **{f"operator {name}": (work, None) for name, work in OPERATORS.items()},
    **{f"method {name}": (work, MORE_STEPS.get(name)) for name, work in METHODS.items()},
    **{f"function {name}": (work, MORE_STEPS.get(name)) for name, work in FUNCTIONS.items()},
}


def arguments() -> Iterator[tuple[Any, ...]]:
    for one in HUGE:
        yield (one,)
        for other in (one, *OTHERS):
            yield one, other
            if type(one) is str and type(other) is str:
                yield one, other, 3
                yield one, other, "ab"
    for one, other in itertools.product(OTHERS, HUGE):
        yield one, other


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_pays_for_what_it_touches(name: str) -> None:
    """No step takes longer than 20 µs, whatever the values are; a step is some 0.3 µs."""
    work, more = OPERATIONS[name]
    for given in arguments():
        parts: list[Value] = [constant(one) for one in given]
        if name.startswith("operator"):
            if len(parts) != 2:
                continue
            value = operator(work, parts[0], parts[1])
        else:
            value = call(work, parts, more)
        budget = CelBudget(PLENTY)
        begun = time.process_time()
        with suppress(NoValue):
            value(CelScope({}, budget))
        took, steps = time.process_time() - begun, PLENTY - budget.left
        assert steps >= sum(weight(one, PLENTY) for one in given)
        assert took < 0.005 + steps * 20e-6, f"{took:.3f} s for {steps} steps of {[str(one)[:20] for one in given]}"


BIND = 'cel.bind(t, "' + "ab" * 400 + '", cel.bind(b, t + t + t + t + t + t + t + t + t + t + t, {}))'
NESTED = "[0,1,2,3,4,5,6,7,8,9].all(a, " * 6 + "{}" + ")" * 6


def tower_text(levels: int, body: str) -> str:
    """*body* over ``a``, a list of ten to the power of *levels* parts."""
    text = "cel.bind(a0, [0,0,0,0,0,0,0,0,0,0], "
    for n in range(1, levels):
        text += f"cel.bind(a{n}, [{','.join([f'a{n - 1}'] * 10)}], "
    return text + body.replace("TOP", f"a{levels - 1}") + ")" * levels


@pytest.mark.parametrize(
    "text",
    [
        *(tower_text(n, "TOP == TOP") for n in (6, 7, 12, 45)),
        tower_text(12, "TOP in [TOP]"),
        tower_text(12, "sets.contains([TOP], [TOP])"),
        tower_text(12, "[TOP].indexOf(TOP) == 0"),
        tower_text(12, "{'a': TOP} != {'a': TOP}"),
        tower_text(12, "optional.of(TOP) == optional.of(TOP)"),
        *(
            NESTED.format(BIND.format(body))
            for body in (
                'b.findAll("a").size() > 0',
                'b.matches("((a|b|c){1,100}){1,9}x" + string(a)) || true',
                'b.matches("(\\\\pL|\\\\pN){1,1000}" + string(a)) || true',
                "b.lowerAscii() == b",
                'b.split("").join() == b',
                'b.replace("a", b) == b || true',
                "b.lastIndexOf(b + b) < 0 || true",
            )
        ),
        NESTED.format("true && true && !false && (true ? true : false)"),
        NESTED.format("has(device.driver) || -1 < 0"),
        NESTED.format("[" + "0," * 1000 + "].size() > 0"),
        NESTED.format("{'a': a, 'b': 1}.size() > 0 && optional.of(1).optMap(x, x).orValue(0) == 1"),
        NESTED.format(" || ".join(["1 / 0 == 1"] * 500)),
    ],
    ids=lambda text: str(len(text)) + text[-40:],
)
def test_a_selector_that_costs_too_much_ends_soon_and_selects_nothing(text: str) -> None:
    selector = compile_selector(text)
    selector(Device("d", "p", "n", {}, {}), CelBudget(10))  # what is loaded at first use
    begun = time.process_time()
    assert selector(Device("d", "p", "n", {}, {})) is False
    assert time.process_time() - begun < 0.05


def test_nothing_within_an_expression_goes_on_when_its_budget_is_spent() -> None:
    """A side of ``||`` without a value is made good by the other; a budget that is spent is not."""
    budget = CelBudget(3)
    assert compile_selector("1 + 1 + 1 + 1 == 4 || true")(Device("d", "p", "n", {}, {}), budget) is False
    with pytest.raises(TooCostly):
        budget.spend(0)


def offering(nodes: int, *expressions: str) -> Scenario:
    """A cluster with eight devices a node, a claim with these selectors, and a job that wants none."""
    selectors = [[{"cel": {"expression": text}}] for text in expressions]
    requests = [
        {"name": f"r{n}", "exactly": {"deviceClassName": "dc", "selectors": one}} for n, one in enumerate(selectors)
    ]
    return claiming(nodes, {"requests": requests})


def claiming(nodes: int, asked: dict[str, Any]) -> Scenario:
    scenario = Scenario()
    attributes = [{"model": {"string": "A100"}, "index": {"int": n}} for n in range(8)]
    devices = [{"name": f"d{n}", "attributes": one} for n, one in enumerate(attributes)]
    for n in range(nodes):
        scenario.node(f"n{n}", cpu=8)
        pool = {"name": f"n{n}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.x", "nodeName": f"n{n}", "pool": pool, "devices": devices}
        scenario.add(api.decode("ResourceSlice", {"metadata": {"name": f"s{n}"}, "spec": spec}))
    scenario.add(api.decode("DeviceClass", {"metadata": {"name": "dc"}, "spec": {}}))
    metadata = {"name": "c", "namespace": "default", "uid": "c"}
    scenario.add(api.decode("ResourceClaim", {"metadata": metadata, "spec": {"devices": asked}}))
    entry = api.PodResourceClaim(name="r", resource_claim_name="c")
    scenario.job("claiming", tasks=1, cpu=1, spec=api.PodSpec(resource_claims=(entry,)))
    return scenario.job("innocent", tasks=1, cpu=1)


@pytest.mark.parametrize(
    "expressions",
    [
        [tower_text(12, "TOP == TOP")],
        [NESTED.format(f"a >= {n}") for n in range(8)],
        [f"{n} >= 0 " + "|| true " * 1200 for n in range(40)],
    ],
    ids=["tower", "many requests", "long texts"],
)
def test_a_claim_has_one_budget_for_all_nodes_and_the_job_beside_it_is_placed(expressions: list[str]) -> None:
    scenario = offering(100, *expressions)
    begun = time.process_time()
    cycle = scenario.run()
    assert time.process_time() - begun < 2
    assert list(cycle.binds) == ["default/innocent-0"]
    assert "device selectors cost more than" in cycle.why("default/claiming").reason


@pytest.mark.parametrize("requests", [6, 32])
def test_alternatives_that_lead_nowhere_end_soon(requests: int) -> None:
    """Eight ways for each request make up to 8^32 combinations, of which none has devices of one index."""
    ways = [{"name": f"w{n}", "deviceClassName": "dc"} for n in range(8)]
    asked = {
        "requests": [{"name": f"r{n}", "firstAvailable": ways} for n in range(requests)],
        "constraints": [{"matchAttribute": "d.x/index"}],
    }
    scenario = claiming(20, asked)
    begun = time.process_time()
    cycle = scenario.run()
    assert time.process_time() - begun < 2
    assert list(cycle.binds) == ["default/innocent-0"]


def test_ordinary_selectors_stay_far_below_their_budget() -> None:
    text = (
        'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model.matches("^A100.*") && '
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    )
    attributes = {("gpu.example.com", "model"): "A100-SXM4"}
    budget = CelBudget(PLENTY)
    device = Device("gpu.example.com", "p", "n", attributes, {("gpu.example.com", "memory"): 80 * 2**30 * 1000})
    assert compile_selector(text)(device, budget) is True
    assert PLENTY - budget.left < STEPS_PER_DEVICE / 2 < STEPS
    cycle = offering(200, 'device.attributes["d.x"].model == "A100"', 'device.driver == "d.x"').run()
    assert set(cycle.binds) == {"default/innocent-0", "default/claiming-0"}
