from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from typing import Mapping, Optional, Sequence, Union, cast

from . import types
from .errors import WebhookVerificationError

_PREFIX = "whsec_"


def verify_webhook(
    secret: Union[str, Sequence[str]],
    headers: Mapping[str, str],
    body: Union[bytes, str],
    *,
    tolerance_seconds: float = 300,
    now: Optional[float] = None,
) -> Union[types.WebhookEvent, types.CreditLowEvent]:
    """Checks the signature and time of a delivery as Standard Webhooks 1.0 says. Returns the event.

    `secret` is the endpoint's, `whsec_…`, or a list of two while you change it. Give the body exactly as it came, before
    any parser. Deliveries are repeated: compare `webhook-id` with those that you have seen. Raises
    WebhookVerificationError where the request is not from your server, or too old.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    identifier, timestamp = _field(fields, "webhook-id"), _field(fields, "webhook-timestamp")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp):
        raise WebhookVerificationError("webhook-timestamp is not a time")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance_seconds:
        raise WebhookVerificationError("webhook-timestamp is too far from this clock")
    data = body.encode() if isinstance(body, str) else bytes(body)
    signed = f"{identifier}.{timestamp}.".encode() + data
    given = _field(fields, "webhook-signature").encode().split(b" ")
    for each in [secret] if isinstance(secret, str) else secret:
        digest = hmac.new(_key_of(each), signed, hashlib.sha256).digest()
        expected = b"v1," + base64.b64encode(digest)
        if any([hmac.compare_digest(expected, signature) for signature in given]):
            return cast("Union[types.WebhookEvent, types.CreditLowEvent]", json.loads(data))
    raise WebhookVerificationError("no signature is right")


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret[len(_PREFIX) :], validate=True) if secret.startswith(_PREFIX) else b""
    except binascii.Error:
        key = b""
    if not key:
        raise WebhookVerificationError("the secret is not one of an endpoint")
    return key


def _field(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name)
    if not value:
        raise WebhookVerificationError(f"{name} is missing")
    return value
