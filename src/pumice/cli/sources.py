"""Where a command's cluster comes from: manifests with a conf, or a saved cycle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pumice import saved
from pumice.cli import render
from pumice.cli.manifests import read_objects, state_of
from pumice.cli.options import load_conf
from pumice.config import SchedulerConf
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
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
        return restored(cycle, registry)
    return NextCycle(cluster_of(paths), assemble(conf or load_conf(None, registry), registry), Runtime())


def cluster_of(paths: Sequence[Path]) -> ClusterState:
    """The cluster that the paths hold; what is wrong with its objects goes to stderr as warnings.

    :raises InvalidInput: a path or a document that cannot be read, or no node or PodGroup at all.
    """
    if len(paths) == 1 and saved.is_saved(paths[0]):
        return saved.restore(saved.read(paths[0]))
    objects, unread = read_objects(paths)
    if unread:
        render.warning(f"a scheduler does not read objects of kind {', '.join(unread)}")
    state = state_of(objects)
    for (kind, key), problem in sorted(state.problems.items()):
        render.warning(f"{kind} {key}: {problem}")
    if not state.nodes and not state.jobs:
        raise InvalidInput(f"{', '.join(map(str, paths))}: no Node, PodGroup or grouped Pod among the manifests")
    return state
