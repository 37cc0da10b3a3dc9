"""A client of Shruti, the self-hosted speech transcription server. It needs the standard library only."""

from . import types
from .client import Shruti
from .errors import (
    ApiError,
    AuthenticationError,
    CapacityError,
    ConflictError,
    ConnectionFailed,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    PermissionDenied,
    RateLimitError,
    ServerError,
    ShrutiError,
    TimedOut,
    TranscriptionEnded,
    UploadRejected,
    WebhookVerificationError,
)
from .types import VERSION as __version__
from .webhooks import verify_webhook

__all__ = [
    "ApiError",
    "AuthenticationError",
    "CapacityError",
    "ConflictError",
    "ConnectionFailed",
    "InsufficientCreditsError",
    "InvalidRequestError",
    "NotFoundError",
    "PermissionDenied",
    "RateLimitError",
    "ServerError",
    "Shruti",
    "ShrutiError",
    "TimedOut",
    "TranscriptionEnded",
    "UploadRejected",
    "WebhookVerificationError",
    "__version__",
    "types",
    "verify_webhook",
]
