"""One extender during one session: what it may still be asked, what went wrong, what is reported."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, TypeVar

from pumice.errors import without_passwords
from pumice.extender.answers import Answer
from pumice.extender.asking.caller import Body, Caller, CallFailed, exchange
from pumice.extender.asking.settings import ExtenderSettings, TaskFilter
from pumice.extender.asking.writer import QuestionWriter
from pumice.extender.protocol import Verb, VerbOutcome
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note

A = TypeVar("A", bound=Answer)

BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram, in seconds."""
EXCHANGES: Final = "extender.exchanges"
"""Name in a session's environment: a list that takes every exchange, to be saved with the cycle."""
_LOGGED: Final = 3
"""Failures of one verb that are logged in one session; all are counted."""


class AnswerUnusable(CallFailed):
    """An answer came that says, or shows, that it is none."""


class ExtenderSession:
    """Asks one extender during one session, within its budget; logs and counts what fails."""

    def __init__(
        self,
        ssn: Session,
        name: str,
        settings: ExtenderSettings,
        caller: Caller,
        writer: QuestionWriter,
        *,
        volcano: bool,
    ) -> None:
        """*volcano*: answers and failures mean what they mean to Volcano (``compat: volcano``)."""
        self._ssn, self.name, self.settings, self._caller, self.writer = ssn, name, settings, caller, writer
        self.volcano = volcano
        self.tasks = TaskFilter(settings)
        self.memory: dict[str, Any] = ssn.memory_of(name)
        """Kept between sessions."""
        self.closed = False
        """The service was told that the session is over; what is undone after that is not told."""
        self.failures = 0
        self._log = logging.getLogger(f"pumice.plugins.{name}")
        self._begun = caller.spent
        self._logged: Counter[str] = Counter()
        self._told: set[str] = set()
        self._record: list[dict[str, Any]] | None = ssn.environment.get(EXCHANGES)

    @property
    def spent(self) -> float:
        """Seconds that this session has waited for answers."""
        return self._caller.spent - self._begun

    def has(self, verb: Verb[Any]) -> bool:
        """Is the verb configured?"""
        return verb.name in self.settings.verbs

    def outcome(self, verb: Verb[Any]) -> VerbOutcome:
        """What a failed call of *verb* is taken for."""
        return verb.outcome(ignored=self.settings.ignores(verb.name), volcano=self.volcano)

    # -- asking ---------------------------------------------------------------------------------------------------
    def ask(self, verb: Verb[A], *things: Any, among: Collection[str] | None = None) -> A:
        """The answer to the question of *verb* about *things*. What it names should be *among* these.

        :raises CallFailed: there is none; it is logged and counted already.
        """
        return self.ask_body(verb, self.writer.question(verb, *things), among)

    def ask_body(self, verb: Verb[A], body: Body, among: Collection[str] | None = None) -> A:
        """As ``ask``, for a question that is written already."""
        answer = self.ask_many(verb, [body])[0]
        if not isinstance(answer, CallFailed) and answer.problem:
            answer = AnswerUnusable(verb.name, "answer", answer.problem)
            self._failed(answer)
        if isinstance(answer, CallFailed):
            raise answer
        if among is not None and (named := answer.named()):
            strangers = sorted(set(named).difference(among))
            if strangers:
                more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
                self._odd(verb, f"the answer names what was not asked about: {', '.join(strangers[:3])}{more}")
        return answer

    def ask_many(self, verb: Verb[A], bodies: Sequence[Body]) -> list[A | CallFailed]:
        """The answers to many questions that go out together."""
        budget = self.settings.session_budget
        left = None if budget is None else budget - self.spent
        if left is not None and left <= 0:
            said = f"the session's budget of {budget} s is spent"
            failure = CallFailed(verb.name, "budget", f"not asked: {said}")
            self._tell(ReasonCode.BUDGET_SPENT, f"extender {self.name}: {said}")
            self._ssn.metrics.counter("pumice_extender_errors_total", extender=self.name, verb=verb.name, kind="budget")
            self._failed(failure, len(bodies))
            return [failure] * len(bodies)
        answers = self._caller.call_many(verb, bodies, left)
        if self._record is not None:
            self._record += [
                exchange(self.name, verb, body, answer) for body, answer in zip(bodies, answers, strict=True)
            ]
        failed = [answer for answer in answers if isinstance(answer, CallFailed)]
        if failed:
            self._failed(failed[0], len(failed))
            if any(failure.kind == "breaker" for failure in failed):
                self._tell(ReasonCode.CIRCUIT_OPEN, f"extender {self.name}: failed too often, not asked for a while")
        return answers

    # -- reporting ------------------------------------------------------------------------------------------------
    def _failed(self, failure: CallFailed, times: int = 1) -> None:
        """Log a failure, the first few of each verb."""
        self.failures += times
        if self._logged[failure.verb] < _LOGGED:
            outcome = "ignored" if self.settings.ignores(failure.verb) else "the decision fails"
            more = f" ({times} times)" if times > 1 else ""
            self._log.warning("%s%s: %s", failure, more, outcome)
        self._logged[failure.verb] += 1

    def _odd(self, verb: Verb[Any], text: str) -> None:
        """Report an answer that was understood but holds something that cannot be."""
        self._ssn.metrics.counter("pumice_extender_odd_answers_total", extender=self.name, verb=verb.name)
        if self._logged[f"odd {verb.name}"] < _LOGGED:
            self._log.warning("extender %s: %s", verb.name, text)
            self._ssn.warnings.append(f"extender {self.name}: {verb.name}: {text}")
        self._logged[f"odd {verb.name}"] += 1

    def warn_once(self, text: str) -> None:
        """Warn, in the first session that sees it."""
        text = without_passwords(text)
        warned: list[str] = self.memory.setdefault("warned", [])
        if text not in warned:
            warned.append(text)
            self._log.warning("%s", text)
            self._ssn.warnings.append(text)

    def publish(self) -> None:
        """Publish what was measured since the last time."""
        metrics, labels = self._ssn.metrics, {"extender": self.name}
        errors: Counter[tuple[str, str]] = Counter()
        for verb, seconds, outcome in self._caller.observed():
            metrics.histogram("pumice_extender_request_seconds", seconds, BUCKETS, verb=verb, **labels)
            if outcome != "ok":
                errors[verb, outcome] += 1
        for (verb, kind), times in errors.items():
            metrics.counter("pumice_extender_errors_total", times, verb=verb, kind=kind, **labels)
        metrics.gauge("pumice_extender_session_seconds", self.spent, **labels)
        metrics.gauge("pumice_extender_circuit_open", float(self._caller.circuit != "closed"), **labels)

    def _tell(self, reason: ReasonCode, text: str) -> None:
        """A note and a line in the cycle's report, once per session."""
        if reason in self._told:
            return
        self._told.add(reason)
        self._ssn.warnings.append(text)
        self._ssn.outcome.intents.append(Note("Plugin", self.name, "Warning", reason, text))
