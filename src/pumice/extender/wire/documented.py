"""The documented dialect: lower-case names, cores and MiB; for services written from the documentation.

See ``dialects.Dialect`` for what the four functions promise.
"""

from __future__ import annotations

from typing import Final

from pumice.extender.wire.documented_objects import FORMS
from pumice.extender.wire.forms import ObjectDialect
from pumice.extender.wire.messages import PredicateResponse
from pumice.extender.wire.objects import Json, WireTask
from pumice.extender.wire.replies import replies
from pumice.extender.wire.verbs import OUR_VERBS, VOLCANO_VERBS


def predicate_reply(response: PredicateResponse) -> Json:
    """A predicate's answer as documented."""
    return {"code": response.code, "errorMessage": response.text}


def _victim(task: WireTask) -> Json:
    return {"uid": task.uid}


_DIALECT: Final = ObjectDialect(
    "documented", VOLCANO_VERBS | OUR_VERBS, FORMS, replies(predicate_reply, _victim), no_items=[]
)

name: Final = _DIALECT.name
verbs: Final = _DIALECT.verbs
encode_request: Final = _DIALECT.encode_request
encode_object: Final = _DIALECT.encode_object
encode_parts: Final = _DIALECT.encode_parts
decode_request: Final = _DIALECT.decode_request
decode_object: Final = _DIALECT.decode_object
kinds: Final = _DIALECT.kinds
encode_response: Final = _DIALECT.encode_response
decode_response: Final = _DIALECT.decode_response
