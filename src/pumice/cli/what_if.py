"""``pumice what-if``: what a job, other queues, other nodes or another conf would change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.options import AnswersPlace, NamespaceOption, Output, OutputOption, WrongUsage, run
from pumice.errors import read_text

if TYPE_CHECKING:
    from pumice.answers.queues import Share
    from pumice.answers.what_if import QueueStandings, WhatIfAnswer

AMOUNTS = ("deserved", "guarantee", "capability")
PLAIN = ("weight", "priority", "reclaimable")


def what_if(
    *,
    file: Annotated[
        list[Path] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="A job that is not submitted: a manifest (repeatable)."),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--set-queue",
            metavar="NAME:FIELD=VALUE",
            help="Change a queue: team:weight=4, team:capability.cpu=64 (or none). Repeatable.",
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--more", metavar="COUNTxNODE", help="Add COUNT nodes like NODE: 4xgpu-1. Repeatable."),
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", metavar="NODE", help="Move the pods of NODE elsewhere. Repeatable."),
    ] = None,
    new_conf: Annotated[
        Path | None, typer.Option("--new-conf", metavar="FILE", help="Decide by another scheduler conf.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help="Show this job even if nothing changes for it.")
    ] = None,
    place: AnswersPlace,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a job that is not submitted would do, or what other queues, nodes or another conf would change.

    The next cycle is decided on a copy. Nothing is written. Without PATH the running scheduler is asked.

    Examples:
        pumice what-if -f job.yaml
        pumice what-if examples/demo --drain a100-1 --more 2xh100-1
    """
    if file and (queue or more or drain or new_conf or job):
        raise WrongUsage("-f: a job is tried on the cluster as it is; leave out the other changes")
    if file:
        _try(file, place, output)
        return
    from msgspec.structs import replace

    from pumice.answers import questions
    from pumice.answers.supposition import read_what_if
    from pumice.errors import InvalidInput

    if not (queue or more or drain or new_conf):
        raise WrongUsage("nothing to change: give -f, --set-queue, --more, --drain or --new-conf")
    data: dict[str, Any] = {"more": [*map(_more, more or [])], "drained": drain or []}
    _queues(data, queue or [])
    if new_conf is not None:
        data["conf"] = read_text(new_conf)
    if job is not None:
        data["job"] = job
    try:
        asked = read_what_if(data)
    except InvalidInput as exc:
        raise WrongUsage(str(exc)) from exc
    if place.paths:
        answer = place.answers().what_if(asked).answer(apart=False)
    else:
        client = place.client()
        if asked.job and "/" not in asked.job:
            asked = replace(asked, job=f"{place.namespace(asked.job, namespace)}/{asked.job}")
        answer = run(client.ask(questions.WHAT_IF, body=asked))
    if output is Output.JSON:
        render.data(answer)
    else:
        show_what_if(answer)


def _try(file: list[Path], place: AnswersPlace, output: Output) -> None:
    """Show what a job would do that is not submitted."""
    from pumice.answers import questions
    from pumice.cli import text
    from pumice.cli.target import read_objects
    from pumice.errors import InvalidInput

    objects, unread = read_objects(file)
    if not objects:
        raise InvalidInput(f"{', '.join(map(str, file))}: holds no job, PodGroup or Pod that could be tried")
    if unread:
        render.warning(f"objects of kind {', '.join(unread)} are not tried")
    if place.paths:
        tried = place.answers().attempt_and_wait(objects).answer()
    else:
        tried = run(place.client().ask(questions.TRY, body=questions.as_submitted(objects)))
    if output is Output.JSON:
        render.data(tried)
    else:
        text.show_tried(tried)


# -- changes --------------------------------------------------------------------------------------------------------
def _queues(data: dict[str, Any], said: list[str]) -> None:
    """Put what is said of queues into the data."""
    for text in said:
        name, colon, rest = text.partition(":")
        field, equals, value = rest.partition("=")
        kind, dot, resource = field.partition(".")
        known = (kind in PLAIN and not dot) or (kind in AMOUNTS and resource)
        if not (name and colon and equals and value and known):
            fields = ", ".join((*PLAIN, *(f"{amount}.RESOURCE" for amount in AMOUNTS)))
            raise WrongUsage(f"--set-queue {text!r}: must be NAME:FIELD=VALUE, where FIELD is one of {fields}")
        into = data.setdefault("queues", {}).setdefault(name, {})
        if kind in AMOUNTS:
            into.setdefault(kind, {})[resource] = None if value == "none" else value
        elif kind == "reclaimable":
            if value not in ("true", "false"):
                raise WrongUsage(f"--set-queue {text!r}: must be true or false")
            into[kind] = value == "true"
        else:
            if not value.removeprefix("-").isdecimal() or len(value) > 10:
                raise WrongUsage(f"--set-queue {text!r}: must be a whole number")
            into[kind] = int(value)


def _more(text: str) -> dict[str, Any]:
    many, _, node = text.partition("x")
    if not (many.isascii() and many.isdigit() and 0 < int(many[:9]) <= 1000 and node):
        raise WrongUsage(f"--more {text!r}: must be COUNTxNODE, 4xgpu-1; at most 1000")
    return {"like": node, "count": int(many)}


# -- what is said ---------------------------------------------------------------------------------------------------
def show_what_if(answer: WhatIfAnswer) -> None:
    """Print what would be otherwise."""
    from pumice.answers.what_if import counts, fares, summary
    from pumice.cli.text import FROM

    render.pairs([("what if" if n == 0 else "", text) for n, text in enumerate(answer.changes)])
    render.line()
    render.table(["", "AS IT IS", "THEN"], [(text, f"{a:,}", f"{b:,}") for text, a, b in counts(answer)])
    render.line()
    render.line(summary(answer), style="bold")
    listed = [effect for effect in [answer.job] if effect is not None and effect not in answer.jobs] + answer.jobs
    if listed:
        rows = [(e.job, e.queue, fares(e.before), fares(e.after)) for e in listed[:MOST_SHOWN]]
        fates = ["AS IT IS", "THEN"]
        on_nodes = any(effect.before.nodes or effect.after.nodes for effect in listed[:MOST_SHOWN])
        render.table(
            ["JOB", "QUEUE", *fates],
            rows,
            names=["JOB", "QUEUE", *fates] if on_nodes else ["JOB", "QUEUE"],
            wrap=() if on_nodes else fates,
            spare=["QUEUE"],
        )
        if len(listed) > MOST_SHOWN:
            render.line(f"and {answer.sooner + answer.later - MOST_SHOWN:,} more; -o json names up to 100", style="dim")
    for title, evicted in (("Evicted, and else not", answer.evictions), ("Not evicted, and else so", answer.spared)):
        if evicted:
            render.line()
            render.line(title, style="bold")
            rows = [(e.pod, e.node, e.action, e.beneficiary or "-") for e in evicted[:MOST_SHOWN]]
            render.table(["POD", "NODE", "BY", "FOR"], rows, names=["POD", "NODE", "FOR"])
    for standings in answer.queues:
        _standings(standings)
    render.line()
    for text in answer.assumes:
        render.paragraph(text, lead="· ")
    render.line(f"Answered in {answer.milliseconds:g} ms from {FROM[answer.source]}; nothing was written.", style="dim")


MOST_SHOWN = 20


def _standings(standings: QueueStandings) -> None:
    from pumice.answers.what_if import shares
    from pumice.model.limit import shown

    def told(before: Share | None, after: Share | None, name: str) -> str:
        was, then = (getattr(share, name) if share is not None else None for share in (before, after))
        one, other = (
            shown(share, amount) if amount is not None else "-" for share, amount in ((res, was), (res, then))
        )
        return one if was == then else f"{one} → {other}"

    rows = []
    for res, before, after in shares(standings):
        amounts = (told(before, after, name) for name in ("allocated", "deserved", "capability", "asked"))
        rows.append((res, *amounts))
    if rows:
        render.line()
        waiting = [side.waiting if side is not None else 0 for side in (standings.before, standings.after)]
        aside = f"{waiting[0]} wait" if waiting[0] == waiting[1] else f"{waiting[0]} → {waiting[1]} wait"
        render.heading(f"Queue {standings.queue}", aside)
        render.table(["RESOURCE", "HOLDS", "DESERVES", "AT MOST", "ASKED FOR"], rows)
