"""What to know before a policy is served to a real Volcano: which verbs to configure, and which to leave out."""

from __future__ import annotations

import logging
from typing import Final

from pumice.errors import PumiceError
from pumice.extender.answering.policies import PolicyServer
from pumice.extender.answering.untold import NotTold
from pumice.extender.protocol import ON_SESSION_CLOSE, ON_SESSION_OPEN, VERBS, VOLCANO_VERBS, carriers
from pumice.extender.tools.check import question

PAGE: Final = "docs/behind-volcano.md"
_SESSION: Final = frozenset({ON_SESSION_OPEN.name, ON_SESSION_CLOSE.name})
_FLAGS: Final = {"preemptable": "enablePreemptable", "reclaimable": "enableReclaimable"}


def verbs_of(server: PolicyServer) -> list[str]:
    """Volcano's verbs that the policies answer, but for those of sessions."""
    carried = {verb for point in server.points() for verb in carriers(point)}
    return [verb for verb in VERBS if verb in carried & VOLCANO_VERBS.keys() - _SESSION]


def need_snapshot(server: PolicyServer, verbs: list[str]) -> list[str]:
    """Those of *verbs* that are answered with 409 unless onSessionOpen has told of the cluster."""
    found = []
    for verb in verbs:
        try:
            server.answer(VERBS[verb], question(VERBS[verb], "volcano"), caller=f"trial of {verb}")
        except NotTold:
            found.append(verb)
        except PumiceError as error:
            logging.getLogger("pumice.extender.server").debug("trial of %s: %s", verb, error)
    return found


def advice(server: PolicyServer) -> list[str]:
    """What to say when a policy is served, for who puts it behind a real Volcano; nothing if Volcano asks nothing."""
    verbs = verbs_of(server)
    if not verbs:
        return []
    needing = need_snapshot(server, verbs)
    keeps_books = "allocateFunc" in verbs or "deallocateFunc" in verbs
    wanted = ([*sorted(_SESSION, reverse=True)] if needing or keeps_books else []) + verbs
    lines = [f"behind a real Volcano configure {', '.join(f'extender.{verb}Verb' for verb in wanted)}, and no others"]
    if needing:
        lines.append(f"without onSessionOpen Volcano's questions get 409: {', '.join(needing)}")
    elif not keeps_books:
        lines.append("leave out onSessionOpen: when it fails, Volcano does without the policy")
    if "jobReady" in verbs:
        lines.append("jobReady: while this service is down, to Volcano every job is ready, or (ignorable) none")
    for verb, flag in _FLAGS.items():
        if verb in verbs:
            lines.append(f'{verb}: Volcano overrules "nobody" in the next tier; set {flag}: false on its plugins')
    if "predicate" in verbs:
        lines.append(
            "predicate: one call per task and node; extender.managedResources (a list, or Volcano exits) saves them"
        )
    lines.append(f"see {PAGE}, and `pumice conf lint CONF --for volcano`")
    return lines
