"""The pages over HTTP: made here, filtered for who looks, refreshed by one stream of events."""

from __future__ import annotations

import asyncio
import gzip
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import jinja2
import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pumice.answers.jobs import JobRow, NoSuchThing
from pumice.answers.questions import TRY, WHY, AboutTrial, AboutWhy, Asked, AskOwner, answered
from pumice.answers.survey import NodeRow, Survey, take_survey
from pumice.answers.visibility import EVERYTHING, Visibility
from pumice.dashboard.access import COOKIE, NotAllowed, PageAccess, Reader
from pumice.dashboard.history import RecentHistory, changes_for
from pumice.dashboard.views import (
    FILTERS,
    MOST_QUEUES,
    View,
    asked_in,
    bars,
    chart_of,
    form_of,
    gpu_cells,
    seen_by,
    shown_rows,
    tree_of,
)
from pumice.errors import PumiceError
from pumice.sim.job_manifests import objects_in

FRESH: Final = 2.0
"""Seconds for which a survey is shown to every user."""
SHOWN: Final = 10.0
"""Seconds for which it is shown for a page that is opened, while a new one is taken; the new one is shown when it is
done."""
STILL: Final = 30.0
"""Seconds for which it is valid in a cluster without changes."""
WAIT: Final = 15.0
SORTS: Final[Mapping[str, Callable[[JobRow], Any]]] = {
    "job": lambda row: row.job,
    "queue": lambda row: row.queue,
    "state": lambda row: row.state,
    "age": lambda row: row.since,
    "pods": lambda row: -row.pods,
    "place": lambda row: row.place or math.inf,
    "reason": lambda row: row.reason or "~",
}
"""Columns of the page of jobs by which it can be sorted."""
STATES: Final[Mapping[str, Callable[[JobRow], bool]]] = {
    "waiting": lambda row: row.waits,
    "running": lambda row: row.ready > 0,
}
ROWS: Final = 100
"""Rows of a page."""
MINUTES: Final = 15
"""Minutes of which a page tells at once."""
MOST_BYTES: Final = 1 << 20
STREAMS: Final = 6
"""Streams of one person, at most."""
BEAT: Final = 15.0
"""Seconds after which a stream says that it is alive, and looks whether its reader still may read."""
OPERATORS: Final = (
    "What if is asked by who may see everything: needs the rights to list podgroups and nodes, and to get queues, in "
    "the whole cluster."
)
_STILL: Final = {"cycle": "one instant, of a saved cycle", "manifests": "one instant, of manifests"}
"""The survey of a cluster without changes."""
_SOURCES: Final = {"scheduler": "the scheduler", "cycle": "a saved cycle", "manifests": "manifests"}
_EXAMPLE: Final = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: research}
spec:
  queue: research
  minAvailable: 4
  tasks:
  - name: worker
    replicas: 4
    template:
      spec:
        containers:
        - name: main
          image: busybox
          resources: {requests: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 2}}
"""
_STATIC: Final = {
    "htmx.min.js": "text/javascript",
    "idiomorph-ext.min.js": "text/javascript",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
    "dashboard.js": "text/javascript",
    "dashboard.css": "text/css",
    "LICENSES.txt": "text/plain",
}
_HEADERS: Final = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'self'",
            "img-src 'self' data:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A survey, when it was taken, and of which revision of the state."""

    at: float
    survey: Survey
    revision: int
    number: int
    """How often the history had looked."""


class Dashboard:
    """The routes. Belongs to one event loop."""

    def __init__(
        self,
        ask: AskOwner,
        history: RecentHistory,
        access: PageAccess,
        *,
        prefix: str = "",
        title: str = "",
        hosts: Collection[str] = (),
    ) -> None:
        """*hosts*: names of this machine beside its loopback ones, under which it answers where no token is needed."""
        self._hosts = frozenset({"localhost", "127.0.0.1", "[::1]", *(host.lower() for host in hosts)})
        self._ask, self._history, self._access = ask, history, access
        self._prefix, self._title = prefix, title
        self._taken: _Taken | None = None
        self._taker: asyncio.Task[Survey] | None = None
        self._taking = asyncio.Lock()
        self._streams: Counter[str] = Counter()
        self._jinja = jinja2.Environment(
            loader=jinja2.PackageLoader("pumice.dashboard"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters.update(FILTERS)

    def routes(self) -> list[BaseRoute]:
        """Everything that can be opened."""
        pages = {
            "/": self._overview,
            "/jobs": self._jobs,
            "/job/{namespace}/{name}": self._job,
            "/nodes": self._nodes,
            "/changes": self._changes,
            "/conf": self._conf,
        }
        at = self._prefix
        routes = [
            *(Route(at + path, partial(self._page, show)) for path, show in pages.items()),
            Route(f"{at}/try", partial(self._page, self._try), methods=["GET", "POST"]),
            Route(f"{at}/what-if", partial(self._page, self._what_if), methods=["GET", "POST"]),
            Route(f"{at}/login", self._login, methods=["GET", "POST"]),
            Route(f"{at}/logout", self._logout, methods=["POST"]),
            Route(f"{at}/stream", self._stream),
            Route(f"{at}/static/{{name}}", self._static),
        ]
        if self._access.needs_token:
            return [*routes]
        return [Route(r.path, partial(self._addressed, r.endpoint), methods=list(r.methods or ())) for r in routes]

    async def _addressed(self, endpoint: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        """Answer only under a name of this machine: a page of another site may have its own name lead here."""
        host = request.headers.get("host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts:
            return Response(f"Nothing is served under the name {host!r}.\n", 421, media_type="text/plain")
        return await endpoint(request)

    # -- around every page ------------------------------------------------------------------------------------------
    async def _page(
        self, show: Callable[[Request, Reader], Awaitable[tuple[str, dict[str, Any]]]], request: Request
    ) -> Response:
        reader = await self._reader(request)
        if reader is None:
            return RedirectResponse(f"{self._prefix}/login", 303)
        status = 200
        try:
            async with asyncio.timeout(WAIT):
                template, values = await show(request, reader)
        except (NotAllowed, FormTooLarge) as no:
            status = 413 if isinstance(no, FormTooLarge) else 403
            template, values = "problem.html", {"problem": str(no)}
        except TimeoutError:
            template, values, status = "problem.html", {"problem": f"no answer within {WAIT:g} s"}, 503
        except PumiceError as exc:
            status = 404 if isinstance(exc, NoSuchThing) else 503
            template, values = "problem.html", {"problem": str(exc)}
        return self._made(template, reader, status, **values)

    def _made(self, template: str, reader: Reader | None, status: int = 200, **values: Any) -> Response:
        known = {
            "at": self._prefix,
            "title": self._title or "cluster",
            "reader": reader.name if reader is not None else "",
            "still": _STILL.get(self._taken.survey.source, "") if self._taken is not None else "",
            "looked": self._taken.number if self._taken is not None else 0,
            "signed_in": reader is not None and self._access.needs_token,
        }
        text = self._jinja.get_template(template).render(**known, **values)
        return HTMLResponse(text, status, _HEADERS)

    async def _reader(self, request: Request) -> Reader | None:
        try:
            return await self._access.reader(request.cookies.get(COOKIE, ""))
        except PumiceError:
            return None

    async def _seen(self, request: Request, reader: Reader) -> tuple[Survey, Visibility, View]:
        known = self._taken
        if known is not None and FRESH < time.monotonic() - known.at < SHOWN and "hx-request" not in request.headers:
            survey = known.survey  # painted at once; what is new comes by the stream
            if self._taker is None or self._taker.done():
                self._taker = asyncio.create_task(self._survey())
        else:
            survey = await self._survey()
        sight = await reader.sight({row.namespace for row in survey.jobs})
        return survey, sight, seen_by(survey, sight)

    async def _survey(self) -> Survey:
        async with self._taking:
            known, age = self._taken, time.monotonic() - self._taken.at if self._taken is not None else math.inf
            if known is not None and age <= FRESH:
                return known.survey
            number = self._history.number
            if known is not None and age < STILL:
                revision, now = await asyncio.wrap_future(self._ask(lambda a: (a.state.revision, a.state.now)))
                if revision == known.revision:
                    self._taken = replace(known, survey=replace(known.survey, now=now), number=number)
                    return self._taken.survey
            survey, revision = await asyncio.wrap_future(self._ask(lambda a: (take_survey(a), a.state.revision)))
            self._taken = _Taken(at=time.monotonic(), survey=survey, revision=revision, number=number)
            return survey

    # -- pages ------------------------------------------------------------------------------------------------------
    async def _overview(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        survey, sight, view = await self._seen(request, reader)
        waiting = view.waiting
        return "overview.html", {
            "page": "overview",
            "view": view,
            "tree": tree_of(view),
            "loans": view.loans(),
            "fair": view.fair_in_words(),
            "reasons": view.reasons(),
            "waiting": len(waiting),
            "longest": shown_rows(waiting[:8], survey, sight),
            "use": bars(view.nodes) if view.nodes is not None else [],
            "evictions": [c for c in changes_for(self._history.changes, sight) if c.what == "evicted"][:8],
        }

    async def _jobs(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        survey, sight, view = await self._seen(request, reader)
        asked = {name: request.query_params.get(name, "") for name in ("q", "state", "queue", "reason", "sort")}
        words, sort = asked["q"].strip().lower(), asked["sort"]
        key = SORTS.get(sort.removeprefix("-"))
        if key is None:
            asked["sort"], key = "age", SORTS["age"]
        state = STATES.get(asked["state"])
        rows = [
            row
            for row in view.jobs
            if (state is None or state(row))
            and asked["queue"] in ("", row.queue)
            and asked["reason"] in ("", row.reason)
            and (not words or words in row.job.lower())
        ]
        rows.sort(key=lambda row: (key(row), row.job), reverse=asked["sort"].startswith("-"))
        number = _whole(request.query_params.get("page", ""), 10**9) or 1
        pages = max(1, -(-len(rows) // ROWS))
        number = min(max(number, 1), pages)

        def link(**changed: object) -> str:
            given = {**asked, "page": number, **changed}
            return urlencode({name: value for name, value in given.items() if value})

        return "jobs.html", {
            "page": "jobs",
            "view": view,
            "rows": shown_rows(rows[(number - 1) * ROWS : number * ROWS], survey, sight),
            "found": len(rows),
            "number": number,
            "pages": pages,
            "link": link,
            "queues": sorted({row.queue for row in view.jobs}),
            "reasons": view.reasons(),
            **asked,
        }

    async def _job(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        survey, sight, _ = await self._seen(request, reader)
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        if sight.namespaces is not None and namespace not in sight.namespaces:
            raise NotAllowed(f"{reader.name} may not read jobs in namespace {namespace!r}")
        events = [
            c for c in changes_for(self._history.changes, sight) if f"{namespace}/{name}" in (c.name, c.beneficiary)
        ]
        try:
            told = await answered(self._ask, WHY, Asked(AboutWhy(namespace, name)), sight, reader.name)
        except NoSuchThing:
            if not events:
                raise
            return "gone.html", {"page": "jobs", "job": f"{namespace}/{name}", "events": events[:50]}
        return "job.html", {
            "page": "jobs",
            "why": told,
            "now": survey.now,
            "events": events[:50],
            "may_ask": sight == EVERYTHING,
            "nodes": _kinds_of_nodes(survey.nodes) if sight == EVERYTHING else [],
        }

    async def _nodes(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        _, _, view = await self._seen(request, reader)
        only = request.query_params.get("q", "").strip().lower()
        nodes = [n for n in view.nodes or () if not only or only in n.name.lower()]
        return "nodes.html", {
            "page": "nodes",
            "view": view,
            "use": bars(view.nodes or ()),
            "cells": [(node, gpu_cells(node)) for node in nodes],
            "q": request.query_params.get("q", ""),
        }

    async def _changes(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        _, sight, view = await self._seen(request, reader)
        at = request.query_params.get("at", "").strip()
        found = changes_for(self._history.changes, sight)
        minutes: dict[str, list[Any]] = {}
        clock = FILTERS["minute"]
        for change in found:
            if not at or clock(change.at).endswith(at):
                minutes.setdefault(clock(change.at), []).append(change)
        counts = Counter(clock(change.at) for change in found)
        return "changes.html", {
            "page": "changes",
            "view": view,
            "at_time": at,
            "minutes": [(m, changes[:ROWS], len(changes)) for m, changes in list(minutes.items())[:MINUTES]],
            "earlier": len(minutes) > MINUTES,
            "all_minutes": list(counts.items())[:120],
            "charts": chart_of(self._history.samples) if sight.queues and len(self._history.samples) > 1 else None,
            "samples": self._history.samples[-12:] if sight.queues else [],
        }

    async def _conf(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        _, _, view = await self._seen(request, reader)
        return "conf.html", {"page": "conf", "view": view, "source_words": _SOURCES.get(view.source, view.source)}

    async def _try(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        text, problem, tried = "", "", None
        if request.method == "POST":
            if not _same_origin(request):
                raise NotAllowed("the form was sent by another site")
            text = (await _form(request)).get("job", "")
            try:
                objects = objects_in(text)
                await reader.must_submit(sorted({obj.metadata.namespace or "default" for obj in objects}))
                sight = await reader.sight({obj.metadata.namespace or "default" for obj in objects})
                tried = await answered(self._ask, TRY, Asked(AboutTrial(), objects), sight, reader.name)
            except PumiceError as exc:
                problem = str(exc)
        return "try.html", {"page": "try", "example": _EXAMPLE, "text": text, "problem": problem, "tried": tried}

    async def _what_if(self, request: Request, reader: Reader) -> tuple[str, dict[str, Any]]:
        survey, sight, _ = await self._seen(request, reader)
        if sight != EVERYTHING:
            return "what_if.html", {"page": "what-if", "may_ask": False, "missing": OPERATORS}
        given: Mapping[str, str] = request.query_params
        if request.method == "POST":
            if not _same_origin(request):
                raise NotAllowed("the form was sent by another site")
            given = await _form(request, most=3 * MOST_QUEUES + 10)
        form, problem, answer = form_of(survey.settings, given), "", None
        if request.method == "POST":
            try:
                asked = asked_in(form, survey.settings)
                question = await asyncio.wrap_future(self._ask(lambda answers: answers.what_if(asked), who=reader.name))
                answer = await asyncio.to_thread(question.answer)
            except PumiceError as exc:
                problem = str(exc)
        return "what_if.html", {
            "page": "what-if",
            "may_ask": True,
            "form": form,
            "nodes": [node.name for node in survey.nodes[:500]],
            "problem": problem,
            "answer": answer,
        }

    # -- coming and going -------------------------------------------------------------------------------------------
    async def _login(self, request: Request) -> Response:
        if not self._access.needs_token:
            return RedirectResponse(f"{self._prefix}/", 303)
        problem = ""
        if request.method == "POST":
            try:
                token = (await _form(request)).get("token", "").strip()
                cookie = await self._access.sign_in(token) if token and _same_origin(request) else ""
            except FormTooLarge as no:
                return self._made("login.html", None, 413, problem=str(no), page="login")
            except PumiceError as exc:
                cookie, problem = "", str(exc)
            if cookie:
                answer = RedirectResponse(f"{self._prefix}/", 303)
                secure = request.url.scheme == "https"
                answer.set_cookie(
                    COOKIE, cookie, httponly=True, samesite="strict", secure=secure, path=self._prefix or "/"
                )
                return answer
            problem = problem or "The API server does not know this token."
        return self._made("login.html", None, 401 if problem else 200, problem=problem, page="login")

    async def _logout(self, request: Request) -> Response:
        if _same_origin(request):
            self._access.sign_out(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(f"{self._prefix}/login", 303)
        answer.delete_cookie(COOKIE, path=self._prefix or "/")
        return answer

    async def _stream(self, request: Request) -> Response:
        """Says when there is something new, and nothing of what it is: the page asks for that with its own rights."""
        reader = await self._reader(request)
        if reader is None:
            return Response(status_code=401)
        if self._streams[reader.name] >= STREAMS:
            return Response(f"{STREAMS} streams are open already", 429)

        async def lines() -> AsyncIterator[str]:
            self._streams[reader.name] += 1
            try:
                yield "retry: 3000\n\n"
                told, since = -1, time.monotonic()  # a page that was painted with older figures is told at once
                while not await request.is_disconnected():
                    if self._history.number != told:
                        told = self._history.number
                        yield f"id: {told}\nevent: cycle\ndata: {told}\n\n"
                    if time.monotonic() - since > BEAT:
                        since = time.monotonic()
                        if await self._reader(request) is None:
                            return
                        yield ": alive\n\n"
                    await asyncio.sleep(0.5)
            finally:
                self._streams[reader.name] -= 1

        return StreamingResponse(lines(), media_type="text/event-stream", headers=_HEADERS)

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return Response(status_code=404)
        headers = {**_HEADERS, "Cache-Control": "max-age=3600", "Vary": "Accept-Encoding"}
        packed = "gzip" in request.headers.get("accept-encoding", "")
        if packed:
            headers["Content-Encoding"] = "gzip"
        return Response(_static_file(name, packed=packed), headers=headers, media_type=_STATIC[name])


def _kinds_of_nodes(nodes: Sequence[NodeRow]) -> list[str]:
    """A node of each size, to be named in a form."""
    return list({tuple(sorted(node.has.items())): node.name for node in reversed(nodes)}.values())[:50][::-1]


@cache
def _static_file(name: str, *, packed: bool) -> bytes:
    content = resources.files("pumice.dashboard").joinpath("static", name).read_bytes()
    return gzip.compress(content, mtime=0) if packed else content


def _whole(text: str, most: int) -> int:
    """A whole number that somebody typed, if it is one and not above *most*; else 0."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return number if number <= most else 0


class FormTooLarge(Exception):
    """A form has more bytes or fields than any of ours."""


def _same_origin(request: Request) -> bool:
    """Whether a form comes from our own page: browsers say where from."""
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host", "")


async def _form(request: Request, most: int = 20) -> dict[str, str]:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise FormTooLarge(f"the form is larger than {MOST_BYTES >> 20} MiB")
    try:
        fields = parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise FormTooLarge(f"the form has more than {most} fields") from None
    return {name: values[0] for name, values in fields.items()}
