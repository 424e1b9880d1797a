"""Questions made from an OpenAPI document: some that it allows, drawn by a seed, and every one with a single fault."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

Schema = dict[str, Any]

_TEXTS: Final = ("", "a", "Pending", "x/y", "0", "nvidia.com/gpu", "ü€𝄞", " ", "\x00", "a" * 300, "-1", "null", "1e9")
_KINDS: Final[tuple[Any, ...]] = (None, True, 7, 1.5, "text", [], {}, [None], {"": None})
_MOST: Final = 3
"""Items of a list or a table that is drawn."""


class Questions:
    """What a document allows and forbids to ask. Knows the words of JSON Schema that ours uses, no others."""

    def __init__(self, document: Schema) -> None:
        self._schemas: dict[str, Schema] = document["components"]["schemas"]

    def allowed(self, schema: Schema, rng: random.Random) -> Any:
        """A value that the schema allows."""
        schema = self._resolved(schema)
        if "anyOf" in schema:
            return self.allowed(rng.choice(schema["anyOf"]), rng)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        match rng.choice(_types(schema)):
            case "null":
                return None
            case "boolean":
                return rng.random() < 0.5
            case "string":
                return self._text(schema, rng)
            case "integer":
                least, most = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1)
                return _whole(rng.choice([least, most, 0, 1, rng.randint(least, most)]), rng)
            case "number":
                least, most = schema.get("minimum", -1e9), schema.get("maximum", 1e9)
                drawn = rng.choice([least, most, 0, 1, 0.5, rng.uniform(least, most)])
                return _whole(drawn, rng) if "multipleOf" in schema else drawn
            case "array":
                return [self.allowed(schema["items"], rng) for _ in range(rng.randint(0, _MOST))]
            case "object":
                return self._object(schema, rng)
            case other:
                raise NotImplementedError(other)

    def broken(self, schema: Schema) -> Iterator[tuple[str, Any]]:
        """Where, and a value that is as small as may be but for one fault there; some may be allowed all the same."""
        schema = self._resolved(schema)
        for one in schema.get("anyOf", ()):
            yield from self.broken(one)
        yield from (("", wrong) for wrong in _KINDS)
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in schema:
                yield "", schema[bound] + step * max(1, abs(schema[bound]) // 1000)
        if "multipleOf" in schema:
            yield "", schema["multipleOf"] / 2
        if "pattern" in schema:
            yield from (("", text) for text in ("a/b", "", "/"))
        least = self.least(schema)
        if isinstance(least, dict):
            for name in schema.get("required", ()):
                yield f".{name} missing", {key: value for key, value in least.items() if key != name}
            for name, inner in schema.get("properties", {}).items():
                yield from ((f".{name}{at}", {**least, name: wrong}) for at, wrong in self.broken(inner))
            if "additionalProperties" in schema:
                wrongs = self.broken(schema["additionalProperties"])
                yield from ((f"[any]{at}", {**least, "any": wrong}) for at, wrong in wrongs)
        if "items" in schema:
            yield from ((f"[0]{at}", [wrong]) for at, wrong in self.broken(schema["items"]))

    def least(self, schema: Schema) -> Any:
        """The smallest value that the schema allows."""
        schema = self._resolved(schema)
        if "anyOf" in schema or "enum" in schema:
            return None
        match _types(schema)[0]:
            case "object":
                return {name: self.least(schema["properties"][name]) for name in schema.get("required", ())}
            case "array":
                return []
            case "string":
                return "a"
            case _:
                return 0

    def _resolved(self, schema: Schema) -> Schema:
        return self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _object(self, schema: Schema, rng: random.Random) -> dict[str, Any]:
        required = schema.get("required", ())
        found = {
            name: self.allowed(inner, rng)
            for name, inner in schema.get("properties", {}).items()
            if name in required or rng.random() < 0.6
        }
        if "additionalProperties" in schema:
            names = rng.sample(_TEXTS, rng.randint(0, _MOST))
            found |= {name: self.allowed(schema["additionalProperties"], rng) for name in names}
        elif rng.random() < 0.2:
            found["xUnknown"] = {"added": ["later"]}
        return found

    def _text(self, schema: Schema, rng: random.Random) -> str:
        pattern = schema.get("pattern", "")
        assert pattern in ("", "^[^/]*$", "^[^/]+$"), f"how to draw for {pattern}?"
        return rng.choice([text for text in _TEXTS if not (pattern and "/" in text) and (text or "+" not in pattern)])


def _whole(drawn: float, rng: random.Random) -> float:
    """A whole number; to JSON 1.0 is one too."""
    return rng.choice([round(drawn), float(round(drawn))])


def _types(schema: Schema) -> list[str]:
    types = schema["type"]
    return types if isinstance(types, list) else [types]
