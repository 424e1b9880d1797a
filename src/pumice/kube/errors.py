"""How talking to an API server can fail."""

from __future__ import annotations

import msgspec

from pumice.errors import PumiceError


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: float = 0


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(_Status)


class ApiRefused(PumiceError):
    """The API server answered, and the answer is no."""

    def __init__(self, code: int, what: str, body: bytes = b"", retry_after: str = "") -> None:
        try:
            status = _STATUS.decode(body)
        except msgspec.MsgspecError:
            status = _Status(message=body[:200].decode("utf-8", "replace"))
        super().__init__(f"{what}: {code} {status.message or status.reason}".rstrip())
        details = status.details or _Details()
        self.code = code
        self.reason = status.reason
        self.causes = frozenset(c.reason for c in details.causes or ())
        self.retry_after = float(retry_after) if retry_after.isdigit() else details.retry_after_seconds
        self.retryable = code in (408, 429) or code >= 500
        self.unfinished = code in (408, 504)
        """Whether the server stopped waiting and may carry the request out all the same."""
        self.unanswered = 0.0
        """When an earlier try of the same write was left without an answer; 0: none was."""

    @property
    def for_good(self) -> bool:
        """Whether the same write would be refused again: not if the object is gone, changed, or nothing was sent."""
        return self.code not in (0, 404, 409)

    @property
    def by_budget(self) -> bool:
        """Whether a disruption budget said no to an eviction."""
        return self.code == 429 and "DisruptionBudget" in self.causes


class NotSent(ApiRefused):
    """Nothing was sent, for we do not lead any more; not the server's word."""

    def __init__(self, what: str) -> None:
        super().__init__(0, what)
        self.args = (f"{what}: not sent, for we do not lead any more",)


class Unreachable(PumiceError):
    """No answer came: nobody knows whether the request was carried out."""

    retryable = True


class NoCredentials(PumiceError):
    """There is no usable kubeconfig, and this is not a pod."""
