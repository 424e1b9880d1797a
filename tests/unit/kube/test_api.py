"""The scheduler's door: who may ask what, and what he is told. The API server is a small one that knows three users."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import msgspec
import pytest
import virtual_time
from answer_desks import proven
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pumice.answers import questions, what_if
from pumice.answers.questions import QUESTIONS, AboutJob, as_submitted, openapi_document
from pumice.answers.service import Answers
from pumice.answers.supposition import read_what_if
from pumice.answers.what_if import play_sides
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kube.api import AT_ONCE, MOST_BYTES, serve_answers
from pumice.kube.api_client import AnswerDenied, AnswersClient, NoScheduler
from pumice.kube.credentials import Access, Credentials
from pumice.kube.serving import serve
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.question_queue import NoAnswer
from pumice.scheduler.recording import NextCycle
from pumice.sockets import listening
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue
from pumice.testing.world import flat

USERS = {"alice-token": "alice", "bob-token": "bob", "root-token": "root"}
RIGHTS = {
    ("alice", "get", "podgroups", "team-a"),
    ("alice", "create", "podgroups", "team-a"),
    ("alice", "create", "pods", "team-a"),
    ("bob", "get", "queues", ""),
}


class Api:
    """An API server that only reviews."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.broken = False

    async def token(self, request: Request) -> Response:
        self.asked["token"] += 1
        if self.broken:
            return Response("no", 500)
        user = USERS.get((await request.json())["spec"]["token"])
        status = {"authenticated": True, "user": {"username": user, "groups": ["g"]}} if user else {}
        return JSONResponse({"status": status}, 201)

    async def access(self, request: Request) -> Response:
        self.asked["access"] += 1
        spec = (await request.json())["spec"]
        what = spec["resourceAttributes"]
        right = (spec["user"], what["verb"], what["resource"], what.get("namespace", ""))
        return JSONResponse({"status": {"allowed": spec["user"] == "root" or right in RIGHTS}}, 201)

    def routes(self) -> list[Route]:
        return [
            Route("/apis/authentication.k8s.io/v1/tokenreviews", self.token, methods=["POST"]),
            Route("/apis/authorization.k8s.io/v1/subjectaccessreviews", self.access, methods=["POST"]),
        ]


def desk() -> Answers:
    """Two teams in one queue; alice's job waits behind what the other team runs."""
    registry = default_registry()
    tiers = [{"plugins": [{"name": n} for n in ("priority", "gang", "predicates", "proportion", "nodeorder")]}]
    conf = from_data({"actions": "enqueue, allocate, preempt", "tiers": tiers}, catalogue_of(registry)).conf
    state = ClusterState()
    state.now = 1000.0
    others = job("rival", namespace="team-b", tasks=4, cpu=1, on="node-7", min_available=1, preemptible=True)
    mine = job("mine", namespace="team-a", tasks=2, cpu=2)
    for obj in flat([queue("default"), node("node-7", cpu=4), others, mine]):
        state.apply(Seen(obj))
    return Answers(NextCycle(state, assemble(conf, registry), Runtime()), learned=proven())


class Asks:
    """Asks as somebody, over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self.url = session, url

    async def __call__(
        self, path: str, token: str = "", body: Any = None, raw: bytes | None = None
    ) -> tuple[int, dict[str, Any], Any]:
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        method, content = ("GET", None) if data is None else ("POST", io.BytesIO(data))
        async with self._session.request(method, self.url + path, data=content, headers=headers) as answer:
            return answer.status, await answer.json(), answer.headers


def talk(story: Callable[[Asks, Api], Any], ask: Any = None, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """A story at the door."""
    known = desk()

    def at_once(question: Callable[[Answers], Any], /, who: str = "") -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(question(known))
        except Exception as exc:
            future.set_exception(exc)
        return future

    async def main() -> None:
        api, opened, door = Api(), listening("127.0.0.1:0"), listening("127.0.0.1:0")
        where = f"http://127.0.0.1:{opened.getsockname()[1]}"
        credentials = _Fixed(where)
        tasks = [
            asyncio.create_task(serve(opened, api.routes())),
            asyncio.create_task(serve_answers(door, ask or at_once, credentials)),
        ]
        try:
            async with aiohttp.ClientSession() as session:
                await story(Asks(session, f"http://127.0.0.1:{door.getsockname()[1]}"), api)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    virtual_time.run(main())


class _Fixed(Credentials):
    """Credentials for one address, and a token if there is one."""

    def __init__(self, host: str, token: str = "") -> None:
        object.__setattr__(self, "_access", Access(host, f"Bearer {token}" if token else ""))

    __slots__ = ("_access",)

    async def load(self, *, programs: bool = True) -> Access:
        access: Access = self._access  # type: ignore[attr-defined]
        return access


WHY, WHEN = "/v1/why?namespace=team-a&job=mine", "/v1/when?namespace=team-a&job=mine"


def test_without_a_token_that_the_api_server_knows_nothing_is_told() -> None:
    async def story(asks: Asks, api: Api) -> None:
        assert (await asks("/v1"))[1]["api"] == "v1"
        for path in (WHY, WHEN, "/v1/queues"):
            status, told, headers = await asks(path)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert set(told) == {"error"}
            assert (await asks(path, "made-up"))[:2] == (401, {"error": "the API server does not know this token"})
        assert api.asked["access"] == 0

    talk(story)


def test_who_may_read_jobs_of_a_namespace_is_told_of_them_and_nothing_of_others() -> None:
    async def story(asks: Asks, api: Api) -> None:
        status, told, headers = await asks(WHY, "alice-token")
        assert status == 200, told
        assert headers["Cache-Control"] == "no-store"
        assert told["explanation"]["job"] == "team-a/mine"
        assert told["explanation"]["code"]
        assert told["standing"] is None
        text = json.dumps(told)
        for secret in ("team-b", "rival", "node-7"):
            assert secret not in text
        assert any("queues" in line for line in told["unseen"])

    talk(story)


def test_when_a_job_starts_is_told_to_who_may_read_it_and_nothing_of_others() -> None:
    async def story(asks: Asks, api: Api) -> None:
        status, told, _ = await asks(WHEN, "alice-token")
        assert status == 200, told
        assert (told["job"], told["verdict"], told["unknown"]) == ("team-a/mine", "range", "")
        assert 0 <= told["low"] <= told["likely"] <= told["high"]
        assert (told["place"], told["waiting"]) == (1, 1)
        assert told == {**(await asks(WHY, "alice-token"))[1]["when"], "unseen": told["unseen"]}
        for secret in ("team-b", "rival", "node-7"):
            assert secret not in json.dumps(told)
        assert (await asks("/v1/when?job=mine", "alice-token"))[0] == 422
        assert (await asks("/v1/when?namespace=team-a&job=rival", "alice-token"))[0] == 404

    talk(story)


@pytest.mark.parametrize(
    ("path", "token", "said"),
    [
        (WHY, "bob-token", "bob may not get podgroups.scheduling.volcano.sh in namespace 'team-a'"),
        (WHEN, "bob-token", "bob may not get podgroups.scheduling.volcano.sh in namespace 'team-a'"),
        ("/v1/when?namespace=team-b&job=rival", "alice-token", "alice may not get podgroups.scheduling.volcano.sh"),
        ("/v1/why?namespace=team-b&job=rival", "alice-token", "alice may not get podgroups.scheduling.volcano.sh"),
        ("/v1/queues", "alice-token", "alice may not get queues.scheduling.volcano.sh"),
    ],
)
def test_who_may_not_is_told_which_right_is_missing(path: str, token: str, said: str) -> None:
    async def story(asks: Asks, api: Api) -> None:
        status, told, _ = await asks(path, token)
        assert status == 403
        assert said in told["error"]
        assert set(told) == {"error"}

    talk(story)


def test_who_may_see_everything_sees_everything() -> None:
    async def story(asks: Asks, api: Api) -> None:
        _, told, _ = await asks(WHY, "root-token")
        assert told["unseen"] == []
        assert {s["resource"]: s["allocated"] for s in told["standing"]["shares"]}["cpu"] == 4
        _, told, _ = await asks("/v1/queues", "bob-token")
        assert [q["queue"] for q in told["queues"]] == ["default"]

    talk(story)


def test_the_api_server_is_asked_once_for_many_questions() -> None:
    async def story(asks: Asks, api: Api) -> None:
        for _ in range(10):
            assert (await asks(WHY, "alice-token"))[0] == 200
        assert api.asked == {"token": 1, "access": 4}

    talk(story)


def objects(namespace: str = "team-a", name: str = "new", cpu: int = 1) -> dict[str, Any]:
    made = flat([job(name, namespace=namespace, tasks=1, cpu=cpu)])
    return {"objects": [{**msgspec.to_builtins(obj), "kind": obj.kind_name} for obj in made]}


def test_a_job_is_tried_where_the_asker_may_make_one_and_victims_of_others_are_not_named() -> None:
    async def story(asks: Asks, api: Api) -> None:
        body = objects()
        for data in body["objects"]:
            if data["kind"] == "Pod":
                data["spec"]["priority"] = 1000
        status, told, _ = await asks("/v1/try", "alice-token", body)
        assert status == 200, told
        assert told["jobs"][0]["job"] == "team-a/new"
        assert told["queues"] == []
        assert not {"team-b", "rival", "node-7"} & set(json.dumps(told).replace('"', " ").replace("/", " ").split())
        status, told, _ = await asks("/v1/try", "alice-token", objects("team-b"))
        assert (status, told["error"]) == (
            403,
            "alice may not create podgroups.scheduling.volcano.sh in namespace 'team-b'",
        )
        assert (await asks("/v1/try", "root-token", objects("team-b")))[0] == 200

    talk(story)


@pytest.mark.parametrize(
    ("raw", "status", "said"),
    [
        (b"{", 422, "not JSON"),
        (b"[]", 422, "needs a field objects"),
        (b'{"objects": []}', 422, "needs a field objects"),
        (b'{"objects": [7]}', 422, "objects[0]: must be a PodGroup or a Pod"),
        (b'{"objects": [{"kind": "Secret"}]}', 422, "objects[0]: must be a PodGroup or a Pod"),
        (b'{"objects": [{"kind": "PodGroup", "spec": {"minMember": "x"}}]}', 422, "objects[0]: "),
        (b'{"objects": [{"kind": "PodGroup", "metadata": {"name": "mine", "namespace": "team-a"}}]}', 422, "is there"),
        (b'{"objects": "' + b"[" * 100_000 + b'"}', 422, "needs a field objects"),
        (b"[" * 200_000, 422, "not JSON"),
        (b" " * (MOST_BYTES + 1), 413, "larger than"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_words(raw: bytes, status: int, said: str) -> None:
    async def story(asks: Asks, api: Api) -> None:
        got, told, _ = await asks("/v1/try", "root-token", raw=raw)
        assert (got, set(told)) == (status, {"error"})
        assert said in told["error"]

    talk(story)


def test_when_a_job_would_start_is_left_out_for_who_does_not_want_it() -> None:
    async def story(asks: Asks, api: Api) -> None:
        body = objects(cpu=3)
        for path, said in (("/v1/try", True), ("/v1/try?when=no", False), (WHY, True), (f"{WHY}&when=no", False)):
            status, told, _ = await asks(path, "root-token", body if "try" in path else None)
            assert status == 200, told
            about = told["jobs"][0] if "try" in path else told
            assert about["why" if "try" in path else "explanation"]["stage"] != "served"
            assert (about["when"] is not None) is said, path
        for path in ("/v1/try?when=maybe", f"{WHY}&when=maybe"):
            status, told, _ = await asks(path, "root-token", body if "try" in path else None)
            assert (status, told["error"]) == (422, "when 'maybe': must be 'no', or not given")

    talk(story)


def test_a_job_that_is_not_there_is_not_found_and_a_question_without_one_is_none() -> None:
    async def story(asks: Asks, api: Api) -> None:
        status, told, _ = await asks("/v1/why?namespace=team-a&job=rival", "alice-token")
        assert (status, told["error"]) == (404, "no job named 'rival'")
        assert (await asks("/v1/why?job=mine", "alice-token"))[0] == 422
        assert (await asks("/v1/queues?queue=nope", "root-token"))[0] == 404

    talk(story)


def test_a_replica_that_does_not_lead_says_so_and_when_to_come_again() -> None:
    def idle(question: Any, /, who: str = "") -> Future[Any]:
        raise NoAnswer("this replica does not lead, rep1 does")

    async def story(asks: Asks, api: Api) -> None:
        status, told, headers = await asks(WHY, "root-token")
        assert (status, told["error"], headers["Retry-After"]) == (503, "this replica does not lead, rep1 does", "1")

    talk(story, ask=idle)


def test_an_api_server_that_cannot_be_asked_opens_nothing() -> None:
    async def story(asks: Asks, api: Api) -> None:
        api.broken = True
        status, told, _ = await asks(WHY, "root-token")
        assert status == 503
        assert "tokenreviews" in told["error"]

    talk(story)


def test_one_user_has_only_so_many_questions_open() -> None:
    waiting: list[Future[Any]] = []

    def never(question: Any, /, who: str = "") -> Future[Any]:
        waiting.append(Future())
        return waiting[-1]

    async def story(asks: Asks, api: Api) -> None:
        open_ = [asyncio.create_task(asks(WHY, "root-token")) for _ in range(AT_ONCE)]
        while len(waiting) < AT_ONCE:  # noqa: ASYNC110 (asked at an interval)
            await asyncio.sleep(0.01)
        status, told, _ = await asks(WHY, "root-token")
        assert status == 429
        assert "questions open" in told["error"]
        for future in waiting:
            future.set_exception(NoAnswer("over"))
        assert {answer[0] for answer in await asyncio.gather(*open_)} == {503}

    talk(story, ask=never)


# -- the other side ---------------------------------------------------------------------------------------------------
def test_who_asks_gets_the_answer_or_is_told_why_there_is_none() -> None:
    async def story(asks: Asks, api: Api) -> None:
        alice = AnswersClient(_Fixed("http://127.0.0.1:9", "alice-token"), asks.url)
        why = await alice.why("mine", "team-a")
        assert (why.explanation.job, why.source) == ("team-a/mine", "scheduler")
        assert why.when == await alice.ask(questions.WHEN, AboutJob("team-a", "mine"))
        tried = await alice.ask(
            questions.TRY, body=as_submitted(flat([job("new", namespace="team-a", tasks=1, cpu=1)]))
        )
        assert tried.jobs[0].job == "team-a/new"
        with pytest.raises(AnswerDenied, match="alice may not get queues"):
            await alice.standing("default")
        with pytest.raises(NoScheduler, match="has no token"):
            await AnswersClient(_Fixed("http://127.0.0.1:9"), asks.url).standing("default")
        with pytest.raises(NoScheduler, match="encrypted"):
            await AnswersClient(_Fixed("http://127.0.0.1:9", "x"), "http://scheduler.example:80").standing("default")
        with pytest.raises(NoScheduler, match="no scheduler says where it answers"):
            await AnswersClient(_Fixed("http://127.0.0.1:9", "x")).standing("default")
        root = AnswersClient(_Fixed("http://127.0.0.1:9", "root-token"), asks.url)
        assert (await root.standing("default")).queue == "default"

    talk(story)


def test_who_waits_is_told_of_the_namespaces_that_one_may_read_and_counted_there_alone() -> None:
    async def story(ask: Asks, _: Api) -> None:
        assert (await ask("/v1/waiting"))[0] == 401
        for token, path, jobs in (
            ("alice-token", "/v1/waiting", ["team-a/mine"]),
            ("alice-token", "/v1/waiting?namespace=team-a&queue=default", ["team-a/mine"]),
            ("bob-token", "/v1/waiting", []),
            ("root-token", "/v1/waiting", ["team-a/mine"]),
        ):
            status, said, _headers = await ask(path, token)
            assert (status, [row["job"] for row in said["rows"]], said["waiting"]) == (200, jobs, len(jobs))
            assert sum(said["reasons"].values()) == len(jobs)
        assert (await ask("/v1/waiting?namespace=team-b", "alice-token"))[0] == 403
        assert (await ask("/v1/waiting?queue=nowhere", "root-token"))[0] == 404
        for limit in ("0", "1001", "-1", "x", "1e3", "٣", "0000000000001"):
            status, said, _headers = await ask(f"/v1/waiting?limit={limit}", "root-token")
            assert (status, "from 1 to 1000" in said["error"]) == (422, True)

    talk(story)


def test_what_if_is_answered_to_who_may_see_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "play_apart", play_sides)
    supposed = {"more": [{"like": "node-7"}], "queues": {"default": {"weight": 4}}, "job": "team-a/mine"}

    async def story(ask: Asks, _: Api) -> None:
        status, told, _headers = await ask("/v1/what-if", "root-token", supposed)
        assert status == 200, told
        assert told["changes"] == ["queue default: weight 1 → 4", "1 more node like node-7"]
        assert (told["job"]["before"]["fate"], told["job"]["after"]["fate"]) == ("waits", "starts")
        assert told["starting"] == {"before": 0, "after": 1}
        status, told, _headers = await ask("/v1/what-if", "", supposed)
        assert status == 401
        for token, missing in (("alice-token", "alice may not get queues"), ("bob-token", "bob may not list nodes")):
            status, told, _headers = await ask("/v1/what-if", token, supposed)
            assert (status, missing in told["error"], "rival" in str(told)) == (403, True, False)
        for wrong, code, said in (
            ({}, 422, "nothing to change"),
            ({"nodes": 3}, 422, "has no field 'nodes'"),
            ({"drained": ["node-8"]}, 404, "did you mean 'node-7'"),
            ({"conf": "actions: ["}, 422, "not YAML"),
            ([], 422, "must be a mapping"),
        ):
            status, told, _headers = await ask("/v1/what-if", "root-token", wrong)
            assert (status, said in told["error"]) == (code, True), told
        known = AnswersClient(_Fixed(ask.url, "root-token"), ask.url)
        assert (await known.ask(questions.WHAT_IF, body=read_what_if(supposed))).job is not None

    talk(story, monkeypatch=monkeypatch)


def _fits(schema: dict[str, Any], whole: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """What checks data against a part of the document; a field that is not in it is a fault."""

    def closed(part: Any) -> Any:
        if isinstance(part, list):
            return [closed(one) for one in part]
        if not isinstance(part, dict):
            return part
        shut = {"additionalProperties": False} if "properties" in part and "additionalProperties" not in part else {}
        return {**{key: closed(value) for key, value in part.items()}, **shut}

    return jsonschema_rs.Draft202012Validator(closed({**schema, "components": whole["components"]}))


def test_the_document_is_what_is_asked_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"objects": [{**msgspec.to_builtins(obj), "kind": obj.kind_name} for obj in flat([job("new", cpu=1)])]}
    asked = {
        "why": "?namespace=team-a&job=mine&when=no",
        "when": "?namespace=team-a&job=mine",
        "waiting": "?limit=5&queue=default&namespace=team-a",
        "queues": "?queue=default",
        "fairness": "",
        "try": "?when=no",
        "what-if": "",
    }
    monkeypatch.setattr(what_if, "play_apart", play_sides)
    bodies = {"try": body, "what-if": {"more": [{"like": "node-7", "count": 2}], "job": "team-a/mine"}}
    assert set(asked) == {question.name for question in QUESTIONS}

    async def story(ask: Asks, _: Api) -> None:
        status, document, _headers = await ask("/v1/openapi.json")
        assert (status, document) == (200, json.loads(msgspec.json.encode(openapi_document())))
        for question in QUESTIONS:
            path = f"/v1/{question.name}"
            said = document["paths"][path][question.method.lower()]["responses"]
            given = bodies.get(question.name)
            for token, code in (("root-token", 200), ("", 401), ("bob-token", None)):
                status, answer, _headers = await ask(path + asked[question.name], token, given)
                assert code in (None, status), answer
                schema = said[str(status)]["content"]["application/json"]["schema"]
                _fits(schema, document).validate(answer)
            names = {parameter["name"] for parameter in document["paths"][path][question.method.lower()]["parameters"]}
            assert {word.partition("=")[0] for word in asked[question.name][1:].split("&") if word} == names

    talk(story)


def test_the_document_in_the_docs_is_the_one_that_is_served() -> None:
    file = Path(__file__).parents[3] / "docs" / "reference" / "answers-v1.json"
    written = msgspec.json.format(msgspec.json.encode(openapi_document()), indent=1) + b"\n"
    assert file.read_bytes() == written, "write it anew: python tools/write_api.py"
