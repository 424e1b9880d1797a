"""``pumice run``: the scheduler, on a cluster."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli.cluster_options import (
    Healthz,
    HealthzAddress,
    ListenAddress,
    Metrics,
    MetricsTls,
    ReplicaOptions,
    ServerAccess,
    Verbosity,
    host_and_port,
    host_name,
    seconds,
    set_verbosity,
)
from pumice.cli.goflags import KLOG, GoFlags
from pumice.cli.options import CompatOption, load_conf
from pumice.cli.usage import WrongUsage, reading
from pumice.sockets import is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute

    from pumice.config.reload import Readable
    from pumice.history.files import Folder
    from pumice.kube.reviews import Reviews
    from pumice.kube.service import Service
    from pumice.ports import Binder
    from pumice.scheduler.loop import Loop

_SEARCH = "every node is looked at: it costs little here"
_INFORMERS = "watches need no such setting here"
IDLE = {
    "--percentage-nodes-to-find": _SEARCH,
    "--minimum-percentage-nodes-to-find": _SEARCH,
    "--minimum-feasible-nodes": _SEARCH,
    "--node-worker-threads": _INFORMERS,
    "--resync-period": _INFORMERS,
    "--resource-sync-timeout": "cycles start when everything was listed, never before",
    "--kube-api-qps": "the server says when it is busy; --binds-in-flight bounds what is sent at once",
    "--kube-api-burst": "the server says when it is busy; --binds-in-flight bounds what is sent at once",
    "--gate-removal-worker-num": "scheduling gates are not removed",
    "--cache-dumper": "--debug-endpoints offers /debug/cycle",
    "--cache-dump-dir": "--debug-endpoints offers /debug/cycle",
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


SchedulerNames = Annotated[
    list[str] | None,
    typer.Option("--scheduler-name", metavar="NAME", help="Pods with this schedulerName are ours (repeatable)."),
]


def run(
    *,
    scheduler_name: SchedulerNames = None,
    scheduler_conf: Annotated[
        Path | None,
        typer.Option("--scheduler-conf", "--conf", metavar="FILE", help="The conf; followed if it changes."),
    ] = None,
    scheduler_conf_map: Annotated[
        str | None,
        typer.Option(
            "--scheduler-conf-map",
            metavar="NAMESPACE/NAME[/KEY]",
            help="The conf from a ConfigMap, in the place of --scheduler-conf; followed if it changes.",
        ),
    ] = None,
    plugins_dir: Annotated[
        Path | None,
        typer.Option("--plugins-dir", metavar="DIR", help="Also load every plugin of this directory; followed too."),
    ] = None,
    compat: CompatOption = None,
    schedule_period: Annotated[
        str, typer.Option("--schedule-period", metavar="DURATION", help="A cycle runs at least this often.")
    ] = "1s",
    default_queue: Annotated[
        str, typer.Option("--default-queue", metavar="NAME", help="The queue of PodGroups that name none.")
    ] = "default",
    node_selector: Annotated[
        list[str] | None,
        typer.Option("--node-selector", metavar="KEY:VALUE", help="Only nodes with one of these labels (repeatable)."),
    ] = None,
    access: ServerAccess,
    replicas: ReplicaOptions,
    priority_class: Annotated[
        bool, typer.Option("--priority-class/--no-priority-class", help="Read PriorityClasses.")
    ] = True,
    enable_metrics: Metrics = False,
    listen_address: ListenAddress = ":8080",
    metrics_tls: MetricsTls,
    enable_healthz: Healthz = False,
    healthz_address: HealthzAddress = ":11251",
    debug_endpoints: Annotated[
        bool,
        typer.Option("--debug-endpoints/--no-debug-endpoints", help="Serve /debug/cycle beside /metrics."),
    ] = False,
    answers_address: Annotated[
        str | None,
        typer.Option(
            "--answers-address",
            metavar="HOST:PORT",
            callback=host_and_port,
            help="Answer `pumice why`, `when` and `try` here, for tokens of the API server; else not at all.",
        ),
    ] = None,
    answers_cert: Annotated[
        str | None, typer.Option("--answers-tls-cert-file", metavar="FILE", help="The certificate of these answers.")
    ] = None,
    answers_key: Annotated[
        str | None, typer.Option("--answers-tls-private-key-file", metavar="FILE", help="Its key.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="DIR", help="Write what happens to every job here, for `pumice trace`."),
    ] = None,
    history_keep: Annotated[
        str | None,
        typer.Option("--history-keep", metavar="DURATION", help="Remove files of --history that are older: 90d."),
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="Serve pages too, below /dashboard of --answers-address.")
    ] = False,
    half_gang_timeout: Annotated[
        str,
        typer.Option(
            "--half-gang-timeout",
            metavar="DURATION",
            help="A gang that could be bound only in part gives its room back after this time; 0: never.",
        ),
    ] = "60s",
    binds_in_flight: Annotated[
        int,
        typer.Option("--binds-in-flight", metavar="N", min=1, max=1000, help="Binds that are sent at once, at most."),
    ] = 64,
    verbosity: Verbosity = 1,
) -> None:
    """Schedule the pods of a cluster, until stopped. Takes the command line of Volcano's scheduler.

    Examples:
        pumice run --scheduler-conf volcano-scheduler.conf
        pumice run --scheduler-name volcano --enable-metrics=true -v=3
    """
    from pumice.kube.ahead import ListsAhead
    from pumice.kube.allocator import use_one_heap

    use_one_heap()
    ahead = ListsAhead(access.credentials())
    ahead.start()
    from pumice.clock import SystemClock
    from pumice.config import DEFAULT_CONF, InvalidConf
    from pumice.config.reload import ConfSource
    from pumice.framework.registry import default_registry
    from pumice.kube.backend import BackendSettings, KubeBackend
    from pumice.kube.confmap import ConfMap
    from pumice.kube.measuring import Measuring
    from pumice.kube.schemas import SchemaComparison
    from pumice.kube.service import Service
    from pumice.scheduler.assembly import assemble, catalogue_of
    from pumice.scheduler.following import ConfText, Following, PluginFolder
    from pumice.scheduler.loop import Loop
    from pumice.state.cluster import ClusterState

    set_verbosity(verbosity)
    names = scheduler_name or ["pumice"]
    conf_map = None
    if scheduler_conf_map is not None:
        with reading("--scheduler-conf-map"):
            conf_map = ConfMap.parse(scheduler_conf_map)
    if conf_map is not None and scheduler_conf is not None:
        raise WrongUsage("--scheduler-conf and --scheduler-conf-map: only one of them may be given")
    registry = default_registry()
    folder = PluginFolder(plugins_dir, registry) if plugins_dir is not None else None
    loaded = folder.load() if folder is not None else registry
    assembly = assemble(load_conf(None, registry, compat), registry)  # until there is another, nothing is decided by it
    conf = None
    if loaded is not None:
        registry = loaded
        if conf_map is None:
            conf = load_conf(scheduler_conf, registry, compat)
    if conf is not None:
        try:
            assembly = assemble(conf, registry)
        except InvalidConf:
            conf = None  # a plugin cannot be used: wait until one of the files is another
    source: Readable | None = conf_map or scheduler_conf
    if source is None and conf is None:
        source = ConfText(DEFAULT_CONF, "<default>")
    follow = Following(
        registry,
        conf=ConfSource(source, catalogue_of(registry)) if source is not None else None,
        initial=conf,
        folder=folder,
        compat=compat,
    )
    settings = BackendSettings(
        in_flight=binds_in_flight,
        node_labels=[_label(text) for text in node_selector or ()],
        election=replicas.election(names[0]),
        component=names[0],
        conf_map=conf_map,
        dialect=assembly.conf.dialect,
        without=frozenset() if priority_class else frozenset(("PriorityClass",)),
    )
    binders: dict[str, Binder] = {}
    beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
    backend = KubeBackend(access.credentials(), settings, binders=binders, beside=beside, ahead=ahead.lists)
    state = ClusterState(default_queue=default_queue, scheduler_names=names)
    clock = SystemClock()
    loop = Loop(backend, backend, assembly, clock, state=state)
    measuring = Measuring(lambda: loop.assembly.conf.metrics, access.credentials(), clock.now)
    beside += [measuring.run, SchemaComparison(access.credentials(), backend.resources).run]
    written = _history(history, history_keep)
    learned = paper = None
    if answers_address is not None:
        from pumice.answers.when.learned import Learned, LearningPaper

        learned = Learned()
        paper = LearningPaper(learned, written, read=history)
    service = Service(
        backend,
        loop,
        period=seconds("--schedule-period", schedule_period),
        follow=follow,
        binders=binders,
        half_gangs=0.0 if half_gang_timeout == "0" else seconds("--half-gang-timeout", half_gang_timeout),
        history=paper or written,
        learned=learned,
        measured=measuring.environment,
    )
    answers = service.answers(debug=debug_endpoints)
    if enable_metrics or debug_endpoints or enable_healthz or answers_address is not None:
        from pumice.kube.serving import health_routes, listening, serve, serve_metrics  # not for nothing: they are big
    if enable_metrics or debug_endpoints:
        beside.append(
            partial(serve_metrics, listening(listen_address), answers, access.credentials(), metrics_tls.context())
        )
    if enable_healthz:
        beside.append(partial(serve, listening(healthz_address), health_routes(answers)))
    if bool(answers_cert) != bool(answers_key):
        raise WrongUsage("--answers-tls-cert-file and --answers-tls-private-key-file: both must be given, or none")
    if dashboard and answers_address is None:
        raise WrongUsage("--dashboard: needs --answers-address, where it is served")
    if answers_address is not None and not answers_cert and not is_loopback(answers_address):
        raise WrongUsage(
            f"--answers-address {answers_address!r}: tokens would cross the network as they are; "
            "--answers-tls-cert-file and --answers-tls-private-key-file must be given, or an address of 127.0.0.1"
        )
    if answers_address is not None:
        from pumice.kube.door import serve_door
        from pumice.kube.serving import tls_of

        pages = _pages(service, loop) if dashboard else None

        tls = tls_of(answers_cert, answers_key) if answers_cert and answers_key else None
        beside.append(partial(serve_door, listening(answers_address), service.ask, access.credentials(), tls, pages))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    ahead.read()
    raise typer.Exit(service.run())


def _pages(service: Service, loop: Loop) -> Callable[[Reviews], Sequence[BaseRoute]]:
    """The pages over the scheduler, whose cycles they remember from now on."""
    from pumice.dashboard.access import TokenDoor
    from pumice.dashboard.chronicle import Chronicle
    from pumice.dashboard.server import Dashboard

    chronicle = Chronicle()
    loop.after = lambda report: chronicle.after(loop.state, report)
    return lambda reviews: Dashboard(service.ask, chronicle, TokenDoor(reviews), prefix="/dashboard").routes()


def _history(path: Path | None, keep: str | None) -> Folder | None:
    """Where the history goes, if one is wanted; several replicas may share the folder.

    :raises WrongUsage: the folder cannot be made, or how long is said of a history that nobody wants.
    """
    if path is None:
        if keep is not None:
            raise WrongUsage("--history-keep: needs --history DIR")
        return None
    from pumice.history.files import Folder

    try:
        return Folder(
            path,
            f"{host_name()}-{uuid.uuid4().hex[:6]}",
            keep_s=None if keep is None else seconds("--history-keep", keep, days=True),
        )
    except OSError as exc:
        raise WrongUsage(f"--history {str(path)!r}: {exc.strerror}") from exc


def _label(text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not key or not colon:
        raise WrongUsage(f"--node-selector {text!r}: must be KEY:VALUE")
    return key, value
