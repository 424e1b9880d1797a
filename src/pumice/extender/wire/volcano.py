"""The volcano dialect: what Volcano's Go code really sends and reads.

The verbs that Volcano does not have speak of the same objects. See ``dialects.Dialect`` for what the four functions
promise.
"""

from __future__ import annotations

from typing import Final

from pumice.extender.wire.forms import ObjectDialect
from pumice.extender.wire.messages import PredicateResponse
from pumice.extender.wire.objects import Json
from pumice.extender.wire.replies import replies
from pumice.extender.wire.verbs import OUR_VERBS, VOLCANO_VERBS
from pumice.extender.wire.volcano_objects import FORMS
from pumice.extender.wire.volcano_tasks import write_task


def predicate_reply(response: PredicateResponse) -> Json:
    """A predicate's answer as Volcano reads it."""
    return {"status": response.text, "code": response.code}


_DIALECT: Final = ObjectDialect(
    "volcano", VOLCANO_VERBS | OUR_VERBS, FORMS, replies(predicate_reply, write_task), no_items=None
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
