from __future__ import annotations

from typing import Any, Dict, Optional, Type


class ShrutiError(Exception):
    """The class of everything that this client raises."""


class ConnectionFailed(ShrutiError):
    """No answer came: the address is wrong, the connection broke, or nothing listens."""


class TimedOut(ShrutiError):
    """No answer came in time, or the end that was waited for did not."""


class WebhookVerificationError(ShrutiError):
    """A signature of a webhook is wrong, too old, or not there."""


class TranscriptionEnded(ShrutiError):
    """A transcription has ended as `failed` or `cancelled`. `transcription` is its last state."""

    def __init__(self, transcription: Dict[str, Any]) -> None:
        error = transcription.get("error")
        reason = f": {error['message']}" if error else ""
        super().__init__(f"{transcription['id']} is {transcription['state']}{reason}")
        self.transcription = transcription


class UploadRejected(ShrutiError):
    """A file was rejected after all of its bytes had arrived. `upload` is its last state."""

    def __init__(self, upload: Dict[str, Any]) -> None:
        error = upload.get("error")
        reason = f": {error.get('message', error['code'])}" if error else ""
        super().__init__(f"{upload['id']} is rejected{reason}")
        self.upload = upload


class ApiError(ShrutiError):
    """The server refused a request. The subclasses are for `except`; `code` says it exactly.

    `code` is `unexpected_answer` where what answered is not the server, such as a proxy before it. `detail` is the dotted
    name of the field, parameter or capability. Quote `request_id` when you ask for help. `retry_after` is in seconds.
    """

    def __init__(
        self,
        message: str,
        status: int,
        code: str,
        detail: Optional[str],
        request_id: Optional[str],
        retry_after: Optional[float],
    ) -> None:
        facts = [f"{status} {code}", *(fact for fact in (detail, request_id) if fact)]
        super().__init__(f"{message} ({', '.join(facts)})")
        self.message = message
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after


class AuthenticationError(ApiError):
    """401: the key is missing, wrong, revoked or expired."""


class InsufficientCreditsError(ApiError):
    """402: the credit does not cover the request."""


class PermissionDenied(ApiError):
    """403: the key has not the scope, or the organization is disabled."""


class NotFoundError(ApiError):
    """404 and 410: there is no such resource, or its content is deleted."""


class ConflictError(ApiError):
    """409: the state of the resource does not allow the request."""


class InvalidRequestError(ApiError):
    """413, 415, 422 and other refusals of what was sent. `detail` names the field."""


class RateLimitError(ApiError):
    """429: too many requests, or a limit of the organization."""


class CapacityError(ApiError):
    """503: no capacity is free at the moment."""


class ServerError(ApiError):
    """500 and other statuses of servers."""


_CLASSES: Dict[int, Type[ApiError]] = {
    401: AuthenticationError,
    402: InsufficientCreditsError,
    403: PermissionDenied,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    429: RateLimitError,
    503: CapacityError,
}


def class_of(status: int) -> Type[ApiError]:
    """Returns the class of the errors with a status."""
    if status >= 500:
        return _CLASSES.get(status, ServerError)
    return _CLASSES.get(status, InvalidRequestError if status >= 400 else ApiError)
