"""``pumice run``: the scheduler, on a cluster."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pumice.cli.goflags import COMMON, KLOG, Flag, GoFlags, election, host_name, set_verbosity, settings_of, takes
from pumice.cli.options import WrongUsage, load_conf
from pumice.sockets import is_loopback, listening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute

    from pumice.config.loader import Readable
    from pumice.config.settings import HistorySettings
    from pumice.dashboard.history import RecentHistory
    from pumice.history.files import Folder
    from pumice.history.recorder import HistoryWriter
    from pumice.kube.access import Reviews
    from pumice.kube.service import Service
    from pumice.ports import Binder

_SEARCH = "every node is looked at: it costs little here"
_INFORMERS = "watches need no such setting here"
IDLE = {
    "--percentage-nodes-to-find": _SEARCH,
    "--minimum-percentage-nodes-to-find": _SEARCH,
    "--minimum-feasible-nodes": _SEARCH,
    "--node-worker-threads": _INFORMERS,
    "--resync-period": _INFORMERS,
    "--resource-sync-timeout": "cycles start when everything was listed, never before",
    "--kube-api-qps": "the server says when it is busy; bindsInFlight bounds what is sent at once",
    "--kube-api-burst": "the server says when it is busy; bindsInFlight bounds what is sent at once",
    "--gate-removal-worker-num": "scheduling gates are not removed",
    "--cache-dumper": "metrics.debug offers /debug/cycle",
    "--cache-dump-dir": "metrics.debug offers /debug/cycle",
    "--enable-pprof": "not offered",
    "--feature-gates": "there are none",
    "--csi-storage": "storage capacities are watched where the cluster has them",
    "--disable-default-scheduler-config": "without --scheduler-conf the default conf is used",
    "--ignored-provisioners": "claims of any provisioner are looked at",
    **KLOG,
}
"""Flags of Volcano's scheduler that are accepted and change nothing."""


class RunCommand(GoFlags):
    """Takes Volcano's command line."""

    idle = IDLE


FLAGS = (
    Flag("--scheduler-conf", "conf", "The scheduler conf; followed if it changes.", "FILE"),
    Flag("--plugins-dir", "pluginsDir", "Load every plugin of this directory; followed too.", "DIR"),
    Flag("--schedule-period", "schedulePeriod", "A cycle runs at least this often (default 1s).", "DURATION"),
    Flag("--default-queue", "defaultQueue", "The queue of PodGroups that name none.", "NAME"),
    Flag("--node-selector", "nodeSelector", "Only nodes with one of these labels (repeatable).", "KEY:VALUE", True),
    Flag("--priority-class/--no-priority-class", "priorityClass", "Read PriorityClasses."),
    *COMMON,
)


@takes(*FLAGS)
def run(config: Path | None, flags: Mapping[str, Any]) -> None:
    """Schedule the pods of a cluster, until stopped. Takes the command line of Volcano's scheduler.

    Examples:
        pumice run --config scheduler.yaml
        pumice run --scheduler-name=volcano --leader-elect=false -v=3
    """
    from pumice.config.settings import SchedulerSettings, seconds
    from pumice.kube.credentials import Credentials
    from pumice.kube.reflector import use_one_heap

    use_one_heap()
    settings = settings_of(SchedulerSettings, config, flags, FLAGS)
    access = Credentials(settings.cluster.kubeconfig, settings.cluster.context, settings.cluster.master)
    from pumice.clock import SystemClock
    from pumice.config import DEFAULT_CONF, InvalidConf
    from pumice.config.loader import ConfSource
    from pumice.framework.registry import default_registry
    from pumice.kube.backend import BackendSettings, ConfMap, KubeBackend
    from pumice.kube.node_usage import Measuring
    from pumice.kube.schemas import SchemaComparison
    from pumice.kube.service import Service
    from pumice.scheduler.assembly import assemble, catalogue_of
    from pumice.scheduler.following import ConfText, Following, PluginFolder
    from pumice.scheduler.loop import Loop
    from pumice.state.cluster import ClusterState

    set_verbosity(settings.verbosity)
    names = list(settings.scheduler_names)
    conf_map = ConfMap.parse(settings.conf_map) if settings.conf_map is not None else None
    conf_file = Path(settings.conf) if settings.conf is not None else None
    registry = default_registry()
    folder = PluginFolder(Path(settings.plugins_dir), registry) if settings.plugins_dir is not None else None
    loaded = folder.load() if folder is not None else registry
    compat = settings.compat
    assembly = assemble(load_conf(None, registry, compat), registry)  # until there is another, nothing is decided by it
    conf = None
    if loaded is not None:
        registry = loaded
        if conf_map is None:
            conf = load_conf(conf_file, registry, compat)
    if conf is not None:
        try:
            assembly = assemble(conf, registry)
        except InvalidConf:
            conf = None  # a plugin cannot be used: wait until one of the files is another
    source: Readable | None = conf_map or conf_file
    if source is None and conf is None:
        source = ConfText(DEFAULT_CONF, "<default>")
    follow = Following(
        registry,
        conf=ConfSource(source, catalogue_of(registry)) if source is not None else None,
        initial=conf,
        folder=folder,
        compat=compat,
    )
    backend_settings = BackendSettings(
        in_flight=settings.binds_in_flight,
        node_labels=[(key, value) for key, _, value in (text.partition(":") for text in settings.node_selector)],
        election=election(settings.leader_election, names[0]),
        component=names[0],
        conf_map=conf_map,
        dialect=assembly.conf.dialect,
        without=frozenset() if settings.priority_class else frozenset(("PriorityClass",)),
    )
    binders: dict[str, Binder] = {}
    beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
    backend = KubeBackend(access, backend_settings, binders=binders, beside=beside)
    state = ClusterState(default_queue=settings.default_queue, scheduler_names=names)
    clock = SystemClock()
    loop = Loop(backend, backend, assembly, clock, state=state)
    measuring = Measuring(lambda: loop.assembly.conf.metrics, access, clock.now)
    beside += [measuring.run, SchemaComparison(access, backend.resources).run]
    answers = settings.answers
    written = _history(settings.history)
    history: list[HistoryWriter] = [written] if written is not None else []
    learned = recent = None
    if answers.address is not None:
        from pumice.answers.when.learned import Learned, LearningWriter

        learned = Learned()
        past = settings.history.directory
        history.append(LearningWriter(learned, read=Path(past) if past is not None else None))
        if answers.dashboard:
            from pumice.dashboard.history import RecentHistory

            recent = RecentHistory(loop.state)
            history.append(recent)
            loop.observers.append(recent)
    service = Service(
        backend,
        loop,
        period=seconds(settings.schedule_period),
        follow=follow,
        binders=binders,
        half_gangs=seconds(settings.half_gang_timeout),
        history=history,
        learned=learned,
        measured=measuring.environment,
    )
    metrics, health = settings.metrics, settings.health
    served = service.answers(debug=metrics.debug)
    if metrics.enabled or metrics.debug or health.enabled or answers.address is not None:
        from pumice.kube.serving import (  # imported only if something is served: it is large
            health_routes,
            serve,
            serve_metrics,
            tls_of,
        )
    if metrics.enabled or metrics.debug:
        tls = tls_of(metrics.tls_cert_file, metrics.tls_private_key_file)
        beside.append(partial(serve_metrics, listening(metrics.address), served, access, tls))
    if health.enabled:
        beside.append(partial(serve, listening(health.address), health_routes(served)))
    if answers.address is not None:
        from pumice.kube.api import serve_answers

        if not answers.tls_cert_file and not is_loopback(answers.address):
            raise WrongUsage(
                f"answers.address {answers.address!r}: tokens would cross the network as they are; "
                "answers.tlsCertFile and answers.tlsPrivateKeyFile must be given, or an address of 127.0.0.1"
            )
        pages = _pages(service, recent) if recent is not None else None
        tls = tls_of(answers.tls_cert_file, answers.tls_private_key_file)
        beside.append(partial(serve_answers, listening(answers.address), service.ask, access, tls, pages))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    raise typer.Exit(service.run())


def _pages(service: Service, history: RecentHistory) -> Callable[[Reviews], Sequence[BaseRoute]]:
    """The pages over the scheduler."""
    from pumice.dashboard.access import TokenAccess
    from pumice.dashboard.server import Dashboard

    return lambda reviews: Dashboard(service.ask, history, TokenAccess(reviews), prefix="/dashboard").routes()


def _history(settings: HistorySettings) -> Folder | None:
    """Return where the history goes, if one is wanted; several replicas may share the folder.

    :raises WrongUsage: the folder cannot be made.
    """
    if settings.directory is None:
        return None
    from pumice.config.settings import seconds
    from pumice.history.files import Folder

    keep = seconds(settings.keep) if settings.keep is not None else None
    try:
        return Folder(Path(settings.directory), f"{host_name()}-{uuid.uuid4().hex[:6]}", keep_s=keep)
    except OSError as exc:
        raise WrongUsage(f"history.directory {settings.directory!r}: {exc.strerror}") from exc
