"""The few kinds of deliberate failure. The command line turns any of them into one line."""

from __future__ import annotations

import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_SHOWN: Final = 80
_WORDS: Final = 2000


_WHO: Final = re.compile(r"(?<=://)(?:[^/\s]*|[^/\s@:]*:(?!\d*/)\S*)@")
"""The user part of a URL: name and password, a password with a slash in it too; a port is none."""


def without_passwords(text: str) -> str:
    """A text without the names and passwords of the URLs in it."""
    return _WHO.sub("", text) if "://" in text else text


def shown(value: object) -> str:
    """A value from outside as a message quotes it: its beginning, where it is long; its kind, where it cannot say."""
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    except Exception:
        return f"a {type(value).__name__}"
    text = without_passwords(text)
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}…{text[0]}"


def words_of(value: object) -> str:
    """Text from outside, in a form that can be written anywhere: its beginning, if it is long.

    None says nothing, and neither does an exception whose own text fails.
    """
    try:
        text = value if type(value) is str else "" if value is None else str(value)
    except Exception:
        return f"{type(value).__name__} without words"
    text = without_passwords(text if len(text) <= _WORDS else f"{text[:_WORDS]}…")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_FIELD: Final = re.compile(r" - at `(?:key in )?\$\.?(?P<field>.*)`$")
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`(?:, got `(?P<got>\w+)`)?")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>\w+)`")
_UNKNOWN: Final = "Object contains unknown field "
_KINDS: Final = {
    "str": "text",
    "bool": "a truth value",
    "int": "a whole number",
    "float": "a number",
    "null": "nothing",
    "object": "a mapping",
    "array": "a list",
    "datetime": "a time",
}


def decoder_words(exc: Exception) -> str:
    """The refusal of a decoder, as field, rule and value; another failure in its own words."""
    text = str(exc)
    at = _FIELD.search(text)
    field, text = (at["field"].removeprefix("[...]"), text[: at.start()]) if at is not None else ("", text)
    if found := _MISSING.match(text):
        field, text = f"{field}.{found['name']}".lstrip("."), "is missing"
    elif text.startswith(_UNKNOWN):
        text = f"has no field {text.removeprefix(_UNKNOWN).strip('`')!r}"
    elif found := _EXPECTED.match(text):
        wanted = " or ".join(_KINDS.get(one, one) for one in found["wanted"].split(" | "))
        got = f", got {_KINDS.get(found['got'], found['got'])}" if found["got"] else ""
        text = f"must be {wanted}{got or text[found.end() :]}"
    return f"{field}: {text}" if field else text


class PumiceError(Exception):
    """Base of all deliberate failures. The message names the thing, the value and the rule, and no password."""

    retryable = False
    """Whether the same call may succeed later, with nothing changed by a human."""

    def __str__(self) -> str:
        return without_passwords(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, and not made anew from its message: what happens in another process arrives here unchanged."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[PumiceError], args: tuple[Any, ...], fields: dict[str, Any]) -> PumiceError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InvalidInput(PumiceError):
    """Something given from outside (a quantity, an object, an option) breaks a rule."""


class MissingExtra(PumiceError):
    """A part of Pumice is asked for whose dependencies are not installed."""

    def __init__(self, what: str, module: str, extra: str) -> None:
        super().__init__(f"{what} needs {module}, which is not installed: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where this Pumice came: a folder, a file, Git or an index."""
    import json  # these three only where an extra is missing: every start imports this module
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("pumice").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = str(origin.get("url", ""))
    if git := origin.get("vcs_info"):
        return f"pip install 'pumice[{extra}] @ {git.get('vcs')}+{url}@{git.get('commit_id')}'"
    if url.startswith("file:"):
        editable = "--editable " if (origin.get("dir_info") or {}).get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    return f"pip install 'pumice[{extra}] @ {url}'" if url else f"pip install 'pumice[{extra}]'"


class ConfigError(PumiceError):
    """The scheduler configuration cannot be used."""


class PluginLoadError(PumiceError):
    """A plugin cannot be used; names file and line of its author's mistake."""

    def __init__(self, text: str, at: str = "") -> None:
        super().__init__(f"{at}: {text}" if at else text)
        self.text, self.at = text, at


class BrokenPlugins(PluginLoadError):
    """Several plugins cannot be used; ``problems`` has a line for each mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class UnknownName(PluginLoadError, AttributeError):
    """Something is asked for a name that it does not have; says which was perhaps meant."""


class WrongCall(PluginLoadError, TypeError):
    """Something is called with what it does not take; says what it takes."""


class PluginError(PumiceError):
    """A plugin raised, or answered outside its contract, at an extension point."""

    def __init__(self, plugin: str, point: str, detail: str, where: str = "") -> None:
        super().__init__(f"plugin {plugin!r} failed at {point!r}: {detail}{f' ({where})' if where else ''}")
        self.plugin, self.point, self.detail, self.where = plugin, point, detail, where


class ActionError(PumiceError):
    """An action that does not come with Pumice raised; names its author's line."""

    def __init__(self, action: str, detail: str, where: str) -> None:
        super().__init__(f"action {action!r} failed: {detail} ({where})")
        self.action, self.detail, self.where = action, detail, where


class OutOfTime(InvalidInput):
    """A dry cycle took longer than the question that it answers may cost."""


class IllegalMove(PumiceError):
    """A task was to change to a status that its present status does not allow."""


MOST_BYTES: Final = 1 << 28
"""A file that is read as a whole has at most so many bytes."""
_PIPES: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""If a shell shows the output of a command as a file, the file is open already, so reading it ends."""


ENDLESS: Final = "must be a file; a device or a named pipe may never end"


def is_endless(path: Path) -> bool:
    """Report whether a path is a device or a named pipe. It is looked at before it is opened."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # opening it tells why
    regular = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return not regular and not (stat.S_ISFIFO(mode) and str(path).startswith(_PIPES))


def read_bytes(path: Path, what: str = "file", most: int = MOST_BYTES) -> bytes:
    """The content of a file, which is *what* to the reader of the error.

    :raises InvalidInput: it cannot be read, is no file, or has more than *most* bytes.
    """
    if is_endless(path):
        raise InvalidInput(f"{what} {str(path)!r}: {ENDLESS}")
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError as exc:
        raise InvalidInput(f"{what} {str(path)!r}: {exc.strerror}") from exc
    if len(content) > most:
        raise InvalidInput(f"{what} {str(path)!r}: must have at most {most >> 20} MiB")
    return content


def most_unpacked(packed: int, most: int) -> int:
    """So many bytes are unpacked from a packed content at most: what unpacks to far more holds nothing that is used.

    Manifests and snapshots of many equal pods unpack to some 80 times their size.
    """
    return min(most, max(200 * packed, 1 << 24))


def read_text(path: Path, what: str = "file", most: int = MOST_BYTES) -> str:
    """The text of a file; errors as in `read_bytes`.

    :raises InvalidInput: also if it is no text.
    """
    try:
        return read_bytes(path, what, most).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{what} {str(path)!r}: is not UTF-8 text") from exc
