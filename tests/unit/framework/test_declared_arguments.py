"""Declared arguments: an attribute of the class is the value, and a conf is checked against the declaration."""

from __future__ import annotations

import pytest

from pumice import Action, Argument, ArgumentMap, Arguments, InvalidInput, Plugin, Session
from pumice.config import InvalidConf, load
from pumice.framework.arguments import WrongArgument, declared_by
from pumice.framework.registry import Registry, default_registry
from pumice.scheduler.assembly import assemble, catalogue_of

SEEN: list[int] = []


def _even(arguments: Arguments, key: str, default: int) -> int:
    if (value := arguments.int(key, default)) % 2:
        raise InvalidInput(f"argument {key}: must be even, got {value}")
    return value


class Base(Plugin):
    weight = Argument(1.0, "Weight.", minimum=0, maximum=10)


class Many(Base):
    """One of each kind."""

    name = "many"
    on = Argument(True, "A switch.")
    count = Argument(3, "A count.", name="many.count", minimum=1, lenient=True)
    word = Argument("a", "A word.", choices=("a", "b"))
    racks = Argument[list[str]]([], "A list.")
    every = Argument(90.0, "A duration.", read=Arguments.seconds)
    even = Argument(2, "An even number.", read=_even)
    parts = ArgumentMap(1, "Weights by name.", name="many.parts.<name>", minimum=0)
    both = tuple(Argument(0, "One of two.", name=name) for name in ("left", "right"))


class Runs(Action):
    """Tells its argument."""

    name = "runs"
    most = Argument(5, "At most.", minimum=1)

    def execute(self, ssn: Session) -> None:
        SEEN.append(self.most)


def registry() -> Registry:
    known = default_registry().copy()
    known.register("many", Many)
    known.actions["runs"] = Runs
    return known


def check(text: str, compat: str = "") -> list[str]:
    """What is wrong with a conf, a line each, else its warnings."""
    known = registry()
    head = f"compat: {compat}\n" if compat else ""
    loaded = load(f"{head}{text}", catalogue_of(known), "conf", strict=True)
    try:
        return [str(problem) for problem in assemble(loaded.conf, known).warnings]
    except InvalidConf as exc:
        return [str(problem) for problem in exc.problems]


def plugin(arguments: str, name: str = "many", compat: str = "") -> list[str]:
    return check(f"actions: allocate\ntiers:\n- plugins:\n  - name: {name}\n    arguments: {arguments}\n", compat)


def test_without_a_conf_the_attributes_are_the_defaults() -> None:
    many = Many(Arguments())
    assert (many.weight, many.on, many.count, many.word, many.racks, many.every) == (1.0, True, 3, "a", [], 90.0)
    assert (many.even, many.parts) == (2, {})


def test_the_attributes_are_what_is_given() -> None:
    given = {"weight": "2.5", "many.count": 7, "racks": "a, b", "every": "1h", "many.parts.x.com/y": 4}
    many = Many(Arguments(given))
    assert (many.weight, many.count, many.racks, many.every, many.parts) == (2.5, 7, ["a", "b"], 3600.0, {"x.com/y": 4})


def test_a_plain_mapping_will_do() -> None:
    assert Many({"weight": 3}).weight == 3.0  # type: ignore[arg-type]


def test_arguments_are_declared_in_the_order_of_the_classes() -> None:
    names = [one.name for one in declared_by(Many)]
    assert names[:3] == ["weight", "on", "many.count"]
    assert names[-3:] == ["many.parts.<name>", "left", "right"]


def test_a_value_before_the_constructor_of_the_base_names_the_cure() -> None:
    class Forgets(Plugin):
        name = "forgets"
        weight = Argument(1, "Weight.")

        def __init__(self, arguments: Arguments) -> None:
            self.twice = 2 * self.weight

    with pytest.raises(AttributeError, match=r"Forgets.weight: has no value before super\(\).__init__\(arguments\)"):
        Forgets(Arguments())


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("weight: -1", "argument weight: must be at least 0, got -1"),
        ("weight: 11", "argument weight: must be at most 10, got 11"),
        ("weight: heavy", "argument weight: must be a number, got 'heavy'"),
        ("on: 7", "argument on: must be true or false, got 7"),
        ("many.count: x", "argument many.count: must be a whole number, got 'x'"),
        ("word: c", "argument word: must be a or b, got 'c'"),
        ("racks: 5", "argument racks: must be a list of texts or a text with commas, got 5"),
        ("every: soon", "argument every: "),
        ("even: 3", "argument even: must be even, got 3"),
        ("many.parts.x: -1", "argument many.parts.x: must be at least 0, got -1"),
        ("left: [1]", "argument left: must be a whole number"),
    ],
)
def test_a_wrong_value_is_an_error_at_its_line_and_column(given: str, rule: str) -> None:
    (line,) = plugin(f"{{{given}}}")
    assert line.startswith(f"conf:5:17: tiers[0].plugins[0].arguments.{given.partition(':')[0]}: ")
    assert rule in line


def test_every_wrong_value_is_told_at_once() -> None:
    assert len(plugin("{weight: -1, word: c, even: 3}")) == 3


def test_a_lenient_argument_takes_its_default_and_says_so() -> None:
    (line,) = plugin("{many.count: 0}")
    assert line == (
        "conf:5:17: tiers[0].plugins[0].arguments.many.count: "
        "many: argument many.count: must be at least 1, got 0; 3 is used"
    )
    assert Many(Arguments({"many.count": 0})).count == 3


@pytest.mark.parametrize(
    ("name", "argument", "value", "used"),
    [
        ("binpack", "binpack.weight", -1, 1),
        ("binpack", "binpack.resources.nvidia.com/gpu", -2, 1),
        ("usage", "usage.weight", -1, 5),
        ("overcommit", "overcommit-factor", 0.5, 1.2),
        ("capacity", "ancestorReclaimLevel", -3, 0),
        ("network-topology-aware", "hypernode.binpack.normal-pod.fading", -1, 0.8),
        ("resource-strategy-fit", "resourceStrategyFitWeight", -1, 10),
    ],
)
@pytest.mark.parametrize("compat", ["", "volcano"])
def test_what_volcano_takes_for_its_default_in_silence_is_warned_of(
    name: str, argument: str, value: float, used: float, compat: str
) -> None:
    (line,) = plugin(f"{{{argument}: {value}}}", name, compat)
    assert line.endswith(f"; {used} is used")


def test_volcanos_rule_leaves_the_default_without_a_word() -> None:
    assert plugin('{binpack.weight: "7"}', "binpack", "volcano") == []
    assert plugin('{binpack.weight: "seven"}', "binpack")[0].startswith("conf:5:17: ")


def test_an_action_has_its_arguments_from_the_conf() -> None:
    head = "actions: runs\ntiers: []\nconfigurations:\n- name: runs\n  arguments: "
    assert Runs().most == 5
    known = registry()
    assembly = assemble(load(head + "{most: 9}", catalogue_of(known), "conf").conf, known)
    assert [action.most for action in assembly.actions if isinstance(action, Runs)] == [9]
    assert check(head + "{most: 0}")[0].startswith("conf:5:15: configurations[0].arguments.most: ")
    assert "did you mean 'most'" in str(load(head + "{mots: 9}", catalogue_of(known), "conf").warnings[0])


@pytest.mark.parametrize("name", sorted(default_registry().plugins))
def test_every_plugin_that_ships_declares_what_it_reads(name: str) -> None:
    info = default_registry().plugins[name]
    assert info.arguments is not None
    names = [one.name for one in info.arguments]
    assert len(names) == len(set(names))


def test_an_argument_that_no_reader_knows_is_refused() -> None:
    for default in (None, {}, object()):
        with pytest.raises(TypeError, match="needs read="):
            Argument(default, "Nothing reads it.")


def test_the_message_of_a_wrong_argument_names_its_key() -> None:
    with pytest.raises(WrongArgument) as caught:
        Many(Arguments({"even": 5}, "many"))
    assert caught.value.key == "even"
