"""``pumice why``: what a job waits for, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cli import render
from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.live import (
    AuthorityOption,
    MaybePaths,
    NamespaceOption,
    ServerOption,
    asker_of,
    namespace_of,
    only_with_paths,
    run,
)
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JobArgument,
    JsonOption,
    Output,
    OutputOption,
    PluginsDirOption,
    as_json,
)
from pumice.cli.when import PastOption

if TYPE_CHECKING:
    from pathlib import Path

    from pumice.answers.desk import Desk


def why(
    job: JobArgument,
    paths: MaybePaths = None,
    history: PastOption = None,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
    server_ca: AuthorityOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Say what JOB waits for, when it will likely start, its place, how its queue stands, what would help.

    Without PATH the running scheduler is asked; where none answers, what the job's own objects say is told.
    """
    from pumice.cli import answer_text

    if paths:
        answer = desk_of(paths, conf, plugins_dir, compat, history).when(job, namespace or "").why_and_when()
    else:
        only_with_paths(conf=conf, plugins_dir=plugins_dir, compat=compat, history=history)
        asker = asker_of(server, server_ca, kubeconfig, context)
        answer = run(asker.why(job, namespace_of(job, namespace, kubeconfig, context)))
    if as_json(output, json):
        render.data(answer)
    else:
        answer_text.show_why(answer)


def desk_of(
    paths: list[Path],
    conf: Path | None,
    plugins_dir: Path | None,
    compat: str | None,
    history: Path | None = None,
) -> Desk:
    """A desk over manifests or a saved cycle; *history*: the past to learn run times from."""
    from pumice.answers.desk import Desk
    from pumice.cli.options import load_conf, registry_with
    from pumice.cli.sources import cycle_of
    from pumice.saved import is_saved

    registry = registry_with(plugins_dir)
    chosen = None if conf is None and compat is None else load_conf(conf, registry, compat)
    saved = is_saved(paths[0])
    begun = cycle_of(paths, chosen, registry)
    desk = Desk.of_saved(begun, registry, source="cycle" if saved else "manifests", live=not saved)
    if history is not None:
        from pumice.answers.when.learned import learn

        desk.learned = learn(history)
    return desk
