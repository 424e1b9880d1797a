"""The configuration of a running scheduler: a conf and a directory of plugins, each of which may change at any time."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from pumice.config import InvalidConf, SchedulerConf
from pumice.config.loader import ConfSource
from pumice.errors import PumiceError
from pumice.framework.loading import modules_in
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import BROKEN_PLUGIN, Assembly, assemble, catalogue_of

log = logging.getLogger("pumice.conf")

CONF, PLUGINS = "conf", "plugins"


class PluginFolder:
    """Follows a directory of plugins. The owner calls ``poll`` between sessions; there is no watcher and no clock.

    The content of the files decides. Sizes and times of change only say when it is worth reading them again.
    """

    def __init__(self, directory: Path, base: Registry) -> None:
        self.directory, self._base = directory, base
        self.error = ""
        """Why the directory as it is now cannot be used; nothing if it can."""
        self._looks: object = None
        self._content = ""
        self._told: list[str] = []

    def load(self) -> Registry | None:
        """The registry, with the plugins of the directory; None if one of them cannot be used: ``error`` says why.

        :raises PluginLoadError: there is no such directory.
        """
        modules_in(self.directory)
        self._looks, self._content = self._look(), self._digest()
        return self._read()

    def _read(self) -> Registry | None:
        registry = self._base.copy()
        try:
            registry.load_directory(self.directory)
        except (PumiceError, OSError) as exc:
            self.error = str(exc)
            return None
        self.error = ""
        for line in registry.passed_by:
            if line not in self._told:
                log.info("%s", line)
        self._told = registry.passed_by
        return registry

    def poll(self) -> Registry | None:
        """The new registry, if a file came, went or changed since the last call and all can be loaded; else None."""
        looks = self._look()
        if looks == self._looks:
            return None
        self._looks = looks
        try:
            content = self._digest()
        except OSError as exc:
            self.error = str(exc)
            return None
        if content == self._content:
            return None
        self._content = content
        return self._read()

    def _files(self) -> list[Path]:
        """The modules and what packages hold; hidden names are left out, as when loading."""
        found: list[Path] = []
        waiting = [self.directory]
        while waiting:
            for path in sorted(waiting.pop().iterdir()):
                if path.name.startswith((".", "__pycache__")):
                    continue
                if path.is_dir():
                    waiting.append(path)
                elif path.suffix == ".py":
                    found.append(path)
        return found

    def _look(self) -> object:
        try:
            looks = [(path, path.stat()) for path in self._files()]
        except OSError as exc:
            return str(exc)  # a file went while we looked; the next call sees what became of it
        return [(str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in looks]

    def _digest(self) -> str:
        whole = hashlib.sha256()
        if self.directory.is_dir():
            for path in self._files():
                content = path.read_bytes()
                whole.update(f"{path}\0{len(content)}\0".encode() + content)
        return whole.hexdigest()


class Following:
    """The configuration to use, kept up to date. A conf that cannot be used changes nothing but ``complaints``."""

    def __init__(
        self,
        registry: Registry,
        *,
        conf: ConfSource | None = None,
        initial: SchedulerConf | None = None,
        folder: PluginFolder | None = None,
        compat: str | None = None,
    ) -> None:
        """*initial*: the conf that is in use already. *conf* takes its place as it changes."""
        self._registry, self._source, self._folder, self._compat = registry, conf, folder, compat
        self._conf = initial
        self._unfit = dict.fromkeys((CONF, PLUGINS), "")
        self.complaints = dict.fromkeys((CONF, PLUGINS), "")
        """The problems of the conf and of the plugins now; empty if they are in use."""

    @property
    def missing(self) -> str:
        """Why nothing can be decided yet; nothing if there is a conf whose plugins can be used."""
        if self._conf is not None:
            return ""
        what = PLUGINS if self.complaints[PLUGINS] else CONF
        return f"waiting for the {what}: {self.complaints[what] or 'not read yet'}"

    def poll(self) -> Assembly | None:
        """The configuration to use from now on, if it is another than before."""
        registry = self._folder.poll() if self._folder is not None else None
        if registry is not None:
            self._registry = registry
            if self._source is not None:
                self._source.check_again(catalogue_of(registry))
        if self._conf is None and self._folder is not None and self._folder.error:
            self.complaints = {CONF: "", PLUGINS: self._folder.error}  # a conf would only seem to name what is unknown
            return None
        loaded = self._source.poll() if self._source is not None else None
        conf = loaded.conf if loaded is not None else self._conf
        if loaded is not None and self._compat:
            conf = loaded.conf.with_compat(self._compat)
        changed = conf is not None and (self._conf is None or conf.digest != self._conf.digest)
        assembly = None
        if conf is not None and (changed or registry is not None or (loaded is not None and self._unfit[CONF])):
            assembly = self._assemble(conf, CONF if changed else PLUGINS)
        if loaded is not None and assembly is not None:
            for problem in loaded.warnings:
                log.warning("%s", problem)
        source, folder = self._source, self._folder
        self.complaints = {
            CONF: str(source.error) if source is not None and source.error is not None else self._unfit[CONF],
            PLUGINS: (folder.error if folder is not None else "") or self._unfit[PLUGINS],
        }
        return assembly

    def _assemble(self, conf: SchedulerConf, what: str) -> Assembly | None:
        try:
            assembly = assemble(conf, self._registry)
        except InvalidConf as exc:
            if self._conf is None and all(problem.code == BROKEN_PLUGIN for problem in exc.problems):
                what = PLUGINS  # nothing is known to work yet, and the conf is not to blame
            self._unfit[what] = "; ".join(str(problem) for problem in exc.problems)
            return None
        except PumiceError as exc:
            self._unfit[what] = str(exc)
            return None
        self._conf = conf
        self._unfit = dict.fromkeys((CONF, PLUGINS), "")
        return assembly


class ConfText:
    """A conf that is a text and stays as it is; followed where only its plugins can change."""

    def __init__(self, text: str, name: str) -> None:
        self._content, self._name = text.encode(), name

    def read_bytes(self) -> bytes:
        """The text."""
        return self._content

    def __str__(self) -> str:
        return self._name
