"""Device selectors against the language definition of CEL and the libraries that Kubernetes adds, rule by rule."""

from __future__ import annotations

import pytest

from pumice.errors import InvalidInput
from pumice.plugins.predicates.cel import compile_selector
from pumice.plugins.predicates.cel_values import version_key
from pumice.plugins.predicates.offered_device import Device

GPU = Device(
    "gpu.example.com",
    "n1",
    "a",
    {
        ("gpu.example.com", "model"): "A100",
        ("gpu.example.com", "index"): 3,
        ("gpu.example.com", "mig"): False,
        ("gpu.example.com", "firmware"): version_key("1.10.0"),
    },
    {("gpu.example.com", "memory"): 40 * 2**30 * 1000},
)
A = 'device.attributes["gpu.example.com"]'
TRUE, FALSE, NONE = True, False, None
"""What an expression is worth; NONE: nothing, so that it selects nothing, nor does its negation."""

SYNTAX = [
    ("true // a comment", TRUE),
    ("// a comment\ntrue", TRUE),
    ("1e3 == 1000.0 && 1.5e1 == 15.0 && .5 == 0.5", TRUE),
    ("0xFF == 255 && 0xffu == 255u && 7u == 7", TRUE),
    ("-9223372036854775808 < 0", TRUE),
    ('"""a "quoted" text""" == "a \\"quoted\\" text"', TRUE),
    ("'''it's''' == \"it's\"", TRUE),
    (r'"\x41\u0042\103\U00000044" == "ABCD"', TRUE),
    (r'"\a\b\f\v\?\`".size() == 6', TRUE),
    (r'R"\d" == "\\d" && r"\d".size() == 2', TRUE),
    ("[1, 2,] == [1, 2] && {'a': 1,} == {'a': 1}", TRUE),
    ("!!true && --1 == 1", TRUE),
    ("1 + 2 == 3 == true", TRUE),
    ("true ? (false ? 1 == 2 : 1 == 1) : false", TRUE),
    ("false ? 1 : true ? true : false", TRUE),
    ("true || false && false", TRUE),
]
TYPES = [
    ("1 == 1.0 && 1u == 1.0 && 1 != '1' && !(true == 1) && null == null && null != 0", TRUE),
    ("[1, [2.0]] == [1.0, [2]] && {'a': [1]} == {'a': [1.0]} && {'a': true} != {'a': 1}", TRUE),
    ("[1] == [1, 2] || {'a': 1} == {'b': 1}", FALSE),
    ("1 < 1.5 && 2.5 > 2 && 'a' < 'b' && false < true", TRUE),
    ("'a' < 1", NONE),
    ("[1] < [2]", NONE),
    ("1 in [1.0, 'x'] && !('y' in ['x'])", TRUE),
    ("1 in {1: 'a'} && {1: 'a', 'b': 2}[1] == 'a' && !(2 in {1: 'a'})", TRUE),
    ("'a' in 'abc'", NONE),
    ("{'a': 1, 'a': 2}.a == 1", NONE),
    ("{'a': 1}.b == 1", NONE),
    ("[1, 2][2] == 1", NONE),
    ("[1, 2][1] == 2 && [1, 2][1u] == 2", TRUE),
]
ARITHMETIC = [
    ("7 / 2 == 3 && -7 / 2 == -3 && 7 % -3 == 1 && -7 % 3 == -1", TRUE),
    ("7.0 / 2.0 == 3.5 && 0.1 + 0.2 > 0.3 && 2 * 3 + 4 * 5 == 26 && (2 + 3) * 4 == 20 && 2 - 3 - 4 == -5", TRUE),
    ("1.0 / 0.0 > 1e300 && -1.0 / 0.0 < -1e300 && 0.0 / 0.0 != 0.0 / 0.0", TRUE),
    ("1 / 0 == 1", NONE),
    ("1 % 0 == 1", NONE),
    ("9223372036854775807 + 1 > 0", NONE),
    ("-9223372036854775808 - 1 < 0", NONE),
    ("-(-9223372036854775808) > 0", NONE),
    ("9223372036854775807 * 2 > 0", NONE),
    ("1 + 1.0 == 2.0", NONE),
    ("'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && size([1] + []) == 1", TRUE),
    ("'a' + 1 == 'a1'", NONE),
    ("-[1] == [1]", NONE),
    ("-{} == {}", NONE),
    ("-'a' == 'a'", NONE),
    ("!1", NONE),
]
LOGIC = [
    ("1 / 0 == 1 || true", TRUE),
    ("true || 1 / 0 == 1", TRUE),
    ("!(1 / 0 == 1 && false)", TRUE),
    ("1 / 0 == 1 && true", NONE),
    ("1 / 0 == 1 || false", NONE),
    ("1 || false", NONE),
    ("(1 / 0 == 1 ? true : true)", NONE),
    ("true ? true : 1 / 0 == 1", TRUE),
    ("'x' ? true : true", NONE),
]
MACROS = [
    ("has({'a': 1}.a) && !has({'a': 1}.b)", TRUE),
    ("has({'a': 1}.b.c)", NONE),
    (f"has({A}.model) && !has({A}.lost) && !has(device.attributes['elsewhere'].model)", TRUE),
    (f"has({A}.lost) ? {A}.lost == 1 : true", TRUE),
    ("[1, 2].all(x, x > 0) && [].all(x, x > 0) && !([1, -1].all(x, x > 0))", TRUE),
    ("[1, 0].all(x, 1 / x > 1)", FALSE),
    ("[0, 1].all(x, 1 / x > 0)", NONE),
    ("[1, 2].exists(x, x > 1) && ![].exists(x, true) && [0, 1].exists(x, 1 / x == 1)", TRUE),
    ("[1, 0].exists(x, 1 / x > 5)", NONE),
    ("[1, 2].exists_one(x, x > 1) && ![1, 2].exists_one(x, x > 0)", TRUE),
    ("[1, 0].exists_one(x, 1 / x == 1)", NONE),
    ("{'a': 1, 'b': 2}.all(k, k in ['a', 'b']) && {'a': 1}.exists(k, k == 'a')", TRUE),
    ("{'a': 1, 'b': 2}.filter(k, k > 'a') == ['b'] && {'a': 1}.map(k, k + 'x') == ['ax']", TRUE),
    ("[[1, 2], [3]].exists(x, x.exists(y, y == 3))", TRUE),
    ("[1, 2].map(x, [3].map(x, x * 2)) == [[6], [6]]", TRUE),
    ("cel.bind(x, 2, x * x == 4)", TRUE),
]
FUNCTIONS = [
    ("size('äöü') == 3 && 'abc'.size() == 3 && size({'a': 1}) == 1 && [1, 2].size() == 2", TRUE),
    ("size(1) == 1", NONE),
    ("int('42') == 42 && int(2.9) == 2 && int(-2.9) == -2 && double('1.5') == 1.5 && double(1) == 1.0", TRUE),
    ("int('x') == 0", NONE),
    ("int('1_0') == 10", NONE),
    ("int(' 1') == 1", NONE),
    ("int(1e300) == 0", NONE),
    ("string(1) == '1' && string(true) == 'true' && string(1.5) == '1.5' && string('a') == 'a'", TRUE),
    ("bool('true') && !bool('false') && dyn(1) == 1 && uint('7') == 7u", TRUE),
    ("uint(-1) == 1u", NONE),
    ("type(1) == type(2) && type(1) != type('a') && type(1) == int && type('a') == string && type(true) == bool", TRUE),
    ("'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo') && ''.contains('')", TRUE),
    ("'hello'.matches('^h.*o$') && 'hello'.matches('ell') && matches('hello', 'l+') && !'hello'.matches('x')", TRUE),
    ("'a'.contains(1)", NONE),
    ("'tacocat'.charAt(3) == 'o' && 'abc'.charAt(3) == ''", TRUE),
    ("'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('jello') == -1", TRUE),
    ("'hello mellow'.indexOf('ello', 2) == 7 && 'hello mellow'.lastIndexOf('ello') == 7", TRUE),
    ("['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'", TRUE),
    ("[1].join() == '1'", NONE),
    ("'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'TacoCæt'.upperAscii() == 'TACOCæT'", TRUE),
    (
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        TRUE,
    ),
    (
        "'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c']",
        TRUE,
    ),
    ("'ab'.split('') == ['a', 'b']", TRUE),
    ("'a b'.split(' ', 0) == [] && 'a b'.split(' ', -1) == ['a', 'b']", TRUE),
    ("'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'", TRUE),
    ("'abc'.substring(4) == ''", NONE),
    ("'abc'.substring(2, 1) == ''", NONE),
    ("' \\ttrim\\n '.trim() == 'trim'", TRUE),
    ("'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''", TRUE),
    ("'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']", TRUE),
    ("[1, 2].isSorted() && ![2, 1].isSorted() && [].isSorted() && ['a', 'b'].isSorted()", TRUE),
    ("[1, 2].sum() == 3 && [1.5, 1.5].sum() == 3.0 && [].sum() == 0", TRUE),
    ("[3, 1].min() == 1 && [3, 1].max() == 3 && [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2", TRUE),
    ("[].min() == 0", NONE),
    ("sets.contains([1, 2], [2]) && !sets.contains([1], [2]) && sets.contains([], [])", TRUE),
    ("sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])", TRUE),
]
KUBERNETES = [
    ("quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('1.5') == quantity('1500m')", TRUE),
    ("quantity('2').isGreaterThan(quantity('1')) && quantity('1').isLessThan(quantity('1.1'))", TRUE),
    ("quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(quantity('1k')) == quantity('49k')", TRUE),
    ("quantity('-3').sign() == -1 && quantity('3').isInteger() && !quantity('500m').isInteger()", TRUE),
    ("quantity('500m').asInteger() == 0", NONE),
    ("quantity('500m').asApproximateFloat() == 0.5", TRUE),
    ("quantity('x') == quantity('1')", NONE),
    ("isQuantity('1.3Gi') && !isQuantity('1,3Gi') && !isQuantity('200K')", TRUE),
    ("semver('1.10.0').isGreaterThan(semver('1.9.9')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", TRUE),
    ("semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3", TRUE),
    ("semver('v1.0') == semver('1.0.0')", NONE),
    (
        "semver('v1.0', true) == semver('1.0.0') && isSemver('v01.01', true)",
        TRUE,
    ),
    ("!isSemver('v1.0') && !isSemver('1.0', false)", TRUE),
    (f"{A}.firmware.compareTo(semver('1.9.0')) == 1 && {A}.index + 1 == 4 && !{A}.mig", TRUE),
    ("device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) == 0", TRUE),
    ("device.capacity['gpu.example.com'].lost.compareTo(quantity('40Gi')) == 0", NONE),
    ("'gpu.example.com' in device.attributes && !('x' in device.attributes) && size(device.attributes) == 1", TRUE),
    (f"{A}.exists(name, name == 'model') && {A}['model'] == 'A100'", TRUE),
    ("device.allowMultipleAllocations == false", TRUE),
]
OPTIONALS = [
    (f"{A}.?model.orValue('') == 'A100' && {A}.?lost.orValue('none') == 'none'", TRUE),
    (f"{A}[?'model'].hasValue() && !{A}[?'lost'].hasValue() && {A}.?model.value() == 'A100'", TRUE),
    (f"{A}.?lost.value() == 'x'", NONE),
    ("device.attributes[?'elsewhere'].?model.orValue('none') == 'none'", TRUE),
    ("{'a': {'b': 1}}.?a.b.orValue(0) == 1 && {'a': {'b': 1}}.?x.b.orValue(0) == 0", TRUE),
    ("[1, 2][?1].orValue(0) == 2 && [1, 2][?2].orValue(0) == 0", TRUE),
    ("optional.of(1).or(optional.of(2)).value() == 1 && optional.none().or(optional.of(2)).value() == 2", TRUE),
    ("optional.none().orValue(3) == 3 && optional.of(1) == optional.of(1) && optional.none() == optional.none()", TRUE),
    ("optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, x * 2).hasValue()", TRUE),
    ("optional.of({'a': 1}).optFlatMap(m, m.?a).orValue(0) == 1", TRUE),
    ("optional.of(1).orValue(1 / 0) == 1", TRUE),
]
RULES = [*SYNTAX, *TYPES, *ARITHMETIC, *LOGIC, *MACROS, *FUNCTIONS, *KUBERNETES, *OPTIONALS]


@pytest.mark.parametrize(("text", "worth"), RULES, ids=[text for text, _ in RULES])
def test_an_expression_is_worth_what_the_language_says(text: str, worth: bool | None) -> None:
    said = compile_selector(text)(GPU), compile_selector(f"!({text.partition('//')[0] or 'true'})")(GPU)
    assert said == {True: (True, False), False: (False, True), None: (False, False)}[worth]


@pytest.mark.parametrize(
    "text",
    [
        *("1 +", "a", "device.driver.nothing()", "has(1)", "has(device)", "has(device['driver'])", "'open", "1 ? 2"),
        *(r"'\q'", "9223372036854775808 > 0", "[1].all(1, true)", "[1].map(x)", "in", "1 = 1", "'''open''", "&& true"),
        *(
            "device.attributes.?",
            "sets.unknown([1], [1])",
            "optional.maybe(1)",
            "b'bytes'.size() == 5",
            "true //\n false",
        ),
    ],
)
def test_what_is_no_expression_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="device selector"):
        compile_selector(text)
