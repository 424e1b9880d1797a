"""Where a command's cluster comes from: manifests with a conf, or a saved cycle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pumice import saved
from pumice.cli import render
from pumice.cli.manifests import grouped, read_objects, state_of
from pumice.cli.options import load_conf
from pumice.config import SchedulerConf
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.manifests import unread_words
from pumice.scheduler.assembly import assemble
from pumice.scheduler.recording import NextCycle, restored
from pumice.state.cluster import ClusterState


def cycle_of(paths: Sequence[Path], conf: SchedulerConf | None, registry: Registry) -> NextCycle:
    """The cycle that the paths stand for, not run yet; manifests run with *conf*, else with the default one.

    Extenders of a conf are asked for manifests; for a saved cycle they answer from the file (see `recording.replay`).

    :raises InvalidInput: the paths do not hold a cluster.
    """
    if len(paths) == 1 and saved.is_saved(paths[0]):
        cycle = saved.read(paths[0])
        if conf is not None:
            cycle.conf, cycle.conf_source = conf.to_data(), conf.source
        return restored(cycle, registry, conf=conf)
    state, warnings = _read(paths)
    assembly = assemble(conf or load_conf(None, registry), registry)
    return NextCycle(state, assembly, Runtime(), warnings=tuple(warnings))


def _read(paths: Sequence[Path]) -> tuple[ClusterState, list[str]]:
    """The cluster that manifests hold, and what is wrong with it or left out, which goes to stderr too."""
    objects, unread = read_objects(paths)
    objects, warnings = grouped(objects)
    warnings += unread_words(unread)
    state = state_of(objects)
    warnings += [f"{kind} {key}: {problem}" for (kind, key), problem in sorted(state.problems.items())]
    for text in warnings:
        render.warning(text)
    if not state.nodes and not state.jobs:
        raise InvalidInput(f"{', '.join(map(str, paths))}: no Node, PodGroup or pod of ours among the manifests")
    return state, warnings
