"""Refusals as a client sees them: OpenAI's error object, with a message that says what to change.

Source: the error codes of the OpenAI API reference, and openai-python's `_exceptions.py` (3.57), which reads `message`,
`type`, `param` and `code` of `error`.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from circuit.errors import MetError

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "server_error",
    503: "server_error",
    504: "timeout_error",
}
"""What kind of error a status is."""


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a request is not answered: a status of HTTP, and OpenAI's `code` and `param` (a field, dotted).

    `detail` is for the log alone.
    """

    status: int
    code: str
    message: str
    fix: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    detail: str | None = None


class Refused(Exception):
    """Ends a request with its refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.message}; {refusal.fix}")
        self.refusal = refusal


def refused(
    message: str, fix: str, *, code: str = "invalid_value", param: str | None = None, status: int = 400
) -> Refused:
    """The error to raise for a request that cannot be answered as it is."""
    return Refused(Refusal(status=status, code=code, message=message, fix=fix, param=param))


def retry_later(message: str, fix: str, *, code: str, status: int, after_s: int) -> Refused:
    """For what the client did not cause: the same request may be answered after some seconds."""
    headers = {"Retry-After": str(after_s)}
    return Refused(Refusal(status=status, code=code, message=message, fix=fix, headers=headers))


def of_problems(error: MetError, *, param: str | None, code: str = "invalid_value") -> Refused:
    """A problem of the executor, without the file that it names: a client learns no path of the machine."""
    first = error.problems[0]
    return refused(first.message, first.fix, code=code, param=param)


def error_object(refusal: Refusal) -> dict[str, object]:
    """The body of the response, and of an event that ends a stream."""
    return {
        "error": {
            "message": f"{refusal.message}; {refusal.fix}",
            "type": TYPES[refusal.status],
            "param": refusal.param,
            "code": refusal.code,
        }
    }
