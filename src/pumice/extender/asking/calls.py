"""One session's calls of one extender: what may still be asked, what went wrong, what is reported."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from pumice.extender.answers import Answer
from pumice.extender.asking.caller import Caller, CallFailed
from pumice.extender.asking.exchanges import exchange
from pumice.extender.asking.settings import Settings
from pumice.extender.protocol import Verb
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


class SessionCalls:
    """Asks one extender during one session, within its budget; logs and counts what fails."""

    def __init__(self, ssn: Session, name: str, settings: Settings, caller: Caller) -> None:
        self._ssn, self._name, self._settings, self._caller = ssn, name, settings, caller
        self._log = logging.getLogger(f"pumice.plugins.{name}")
        self._begun = caller.spent
        self._logged: dict[str, int] = {}
        self._told: set[str] = set()
        self.failures = 0
        self._record: list[dict[str, Any]] | None = ssn.environment.get(EXCHANGES)

    @property
    def spent(self) -> float:
        """Seconds that this session has waited for answers."""
        return self._caller.spent - self._begun

    def ask(self, verb: Verb[A], body: bytes) -> A:
        """The answer to one question.

        :raises CallFailed: there is none; it is logged and counted already.
        """
        answer = self.ask_many(verb, [body])[0]
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    def ask_many(self, verb: Verb[A], bodies: Sequence[bytes]) -> list[A | CallFailed]:
        """The answers to many questions that go out together."""
        left = self._left()
        if left is not None and left <= 0:
            budget = self._settings.session_budget
            failure = CallFailed(verb.name, "budget", f"not asked: the session's budget of {budget} s is spent")
            self._tell(ReasonCode.BUDGET_SPENT, f"extender {self._name}: the session's budget of {budget} s is spent")
            self._ssn.metrics.counter(
                "pumice_extender_errors_total", extender=self._name, verb=verb.name, kind="budget"
            )
            self.failed(failure, len(bodies))
            return [failure] * len(bodies)
        answers = self._caller.call_many(verb, bodies, left)
        if self._record is not None:
            self._record += [
                exchange(self._name, verb, body, answer) for body, answer in zip(bodies, answers, strict=True)
            ]
        failed = [answer for answer in answers if isinstance(answer, CallFailed)]
        if failed:
            self.failed(failed[0], len(failed))
            if any(failure.kind == "breaker" for failure in failed):
                self._tell(ReasonCode.CIRCUIT_OPEN, f"extender {self._name}: failed too often, not asked for a while")
        return answers

    def unusable(self, verb: Verb[Any], problem: str) -> CallFailed:
        """The failure that an answer is which says, or shows, that it is none."""
        failure = CallFailed(verb.name, "answer", problem)
        self.failed(failure)
        return failure

    def failed(self, failure: CallFailed, times: int = 1) -> None:
        """Log a failure, the first few of each verb."""
        self.failures += times
        known = self._logged.get(failure.verb, 0)
        if known < _LOGGED:
            outcome = "ignored" if self._settings.ignores(failure.verb) else "the decision fails"
            more = f" ({times} times)" if times > 1 else ""
            self._log.warning("%s%s: %s", failure, more, outcome)
        self._logged[failure.verb] = known + 1

    def odd(self, verb: Verb[Any], text: str) -> None:
        """Report an answer that was understood but holds something that cannot be."""
        self._ssn.metrics.counter("pumice_extender_odd_answers_total", extender=self._name, verb=verb.name)
        known = self._logged.get(f"odd {verb.name}", 0)
        if known < _LOGGED:
            self._log.warning("extender %s: %s", verb.name, text)
            self._ssn.warnings.append(f"extender {self._name}: {verb.name}: {text}")
        self._logged[f"odd {verb.name}"] = known + 1

    def warn_once(self, memory: dict[str, Any], text: str) -> None:
        """Warn, in the first session that sees it."""
        warned: list[str] = memory.setdefault("warned", [])
        if text not in warned:
            warned.append(text)
            self._log.warning("%s", text)
            self._ssn.warnings.append(text)

    def publish(self) -> None:
        """Publish what was measured since the last time."""
        metrics, labels = self._ssn.metrics, {"extender": self._name}
        errors: Counter[tuple[str, str]] = Counter()
        for verb, seconds, outcome in self._caller.observed():
            metrics.histogram("pumice_extender_request_seconds", seconds, BUCKETS, verb=verb, **labels)
            if outcome != "ok":
                errors[verb, outcome] += 1
        for (verb, kind), times in errors.items():
            metrics.counter("pumice_extender_errors_total", times, verb=verb, kind=kind, **labels)
        metrics.gauge("pumice_extender_session_seconds", self.spent, **labels)
        metrics.gauge("pumice_extender_circuit_open", float(self._caller.circuit != "closed"), **labels)

    def _left(self) -> float | None:
        budget = self._settings.session_budget
        return None if budget is None else budget - self.spent

    def _tell(self, reason: ReasonCode, text: str) -> None:
        """A note and a line in the cycle's report, once per session."""
        if reason in self._told:
            return
        self._told.add(reason)
        self._ssn.warnings.append(text)
        self._ssn.outcome.intents.append(Note("Plugin", self._name, "Warning", reason, text))
