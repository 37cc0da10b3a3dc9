from __future__ import annotations

import email.utils
import http.client
import json as json_module
import random
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, BinaryIO, Callable, Dict, Iterable, Mapping, Optional, Tuple, TypeVar, Union

from .errors import ApiError, ConnectionFailed, ShrutiError, TimedOut, class_of
from .recordings import OpenedRecording

Body = Union[bytes, Tuple[int, Callable[[], Iterable[bytes]]]]
"""Bytes, or their number and a function that yields them from the beginning."""
T = TypeVar("T")

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_REPEATABLE = ("GET", "HEAD", "PUT", "DELETE")


def segment(identifier: str) -> str:
    """Writes an identifier as a part of a path. Raises where it would lead to another path."""
    if not isinstance(identifier, str) or identifier in ("", ".", ".."):
        raise ShrutiError(f"not an identifier: {identifier!r}")
    return urllib.parse.quote(identifier, safe="")


def pause_after(error: ShrutiError, attempt: int) -> float:
    """Returns the seconds to wait before a request is sent again. `attempt` counts from 0."""
    if isinstance(error, ApiError) and error.retry_after is not None:
        return error.retry_after
    # Half of it by chance, so that many clients do not come back at once.
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt) * (0.5 + random.random() / 2))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection would send the key to another address, or a POST as a GET."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Connection(http.client.HTTPConnection):
    """Reads the answer also where the server has sent it before it has read the whole body, and hangs up."""

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        try:
            super().send(data)
        except (BrokenPipeError, ConnectionResetError):
            # Where there is no answer, reading it fails, too.
            pass


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Connection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: Optional[ssl.SSLContext]) -> None:
        super().__init__()
        self._own_context = context

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_SecureConnection, req, context=self._own_context)


class Transport:
    """Sends requests with the key, and sends them again where docs/interface.md section 7.2 allows it."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        timeout: float,
        max_retries: int,
        max_retry_after: float,
        ssl_context: Optional[ssl.SSLContext],
    ) -> None:
        address = urllib.parse.urlsplit(base_url)
        if (
            address.scheme not in ("http", "https")
            or not address.netloc
            or "@" in address.netloc
            or address.query
            or address.fragment
        ):
            raise ShrutiError("base_url must be an http or https address without user, query and fragment")
        # The value itself is not repeated: it is secret.
        if not re.fullmatch(r"[\x21-\x7e]+", api_key):
            raise ShrutiError("api_key must be a project's key")
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._max_retries = max_retries
        self.max_retry_after = max_retry_after
        self._opener = urllib.request.build_opener(_NoRedirects, _Handler, _SecureHandler(ssl_context))
        self._opener.addheaders = []

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        json: Optional[Mapping[str, Any]] = None,
        form: Optional[Mapping[str, Any]] = None,
        takes_key: bool = False,
        idempotency_key: Optional[str] = None,
        answer: str = "json",
        media_type: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
        is_repeatable: bool = False,
    ) -> Any:
        """Sends a request of the interface until it is answered. Raises ApiError, ConnectionFailed and TimedOut."""
        headers = {"Authorization": f"Bearer {self._api_key}"}
        if media_type:
            headers["Accept"] = media_type
        if takes_key:
            headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
        # Without a body: cancel, complete and the like, which change nothing the second time.
        is_harmless = method in _REPEATABLE or takes_key or is_repeatable or (json is None and form is None)
        url = f"{self._base_url}{path}{_query_of(query)}"
        retries = self._max_retries if max_retries is None else max_retries
        recording = OpenedRecording(form["file"]) if form and "file" in form else None
        try:
            body = _body_of(json, form, recording, headers)
            for attempt in range(retries + 1):
                try:
                    return self.exchange(method, url, headers, body, _READERS[answer], timeout)
                except ShrutiError as error:
                    may = _may_repeat(error, is_harmless, form is not None, idempotency_key is not None)
                    seconds = pause_after(error, attempt)
                    if attempt == retries or not may or seconds > self.max_retry_after:
                        raise
                    if form is not None and isinstance(error, ApiError) and error.status == 503:
                        # A synchronous request that was refused for want of capacity has used up its key.
                        headers["Idempotency-Key"] = str(uuid.uuid4())
                time.sleep(seconds)
        finally:
            if recording:
                recording.__exit__()

    def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Optional[Body],
        read: Callable[[Any], T],
        timeout: Optional[float] = None,
    ) -> T:
        """Sends one request to an address, once, and reads its answer. No key is added."""
        fields = dict(headers)
        data: Any = body
        if isinstance(body, tuple):
            fields["Content-Length"] = str(body[0])
            data = body[1]()
        fields.setdefault("Accept", "*/*")
        request = urllib.request.Request(url, data=data, headers=fields, method=method)
        place = f"{method} {urllib.parse.urlsplit(url).netloc}"
        seconds = self._timeout if timeout is None else timeout
        try:
            return read(self._opener.open(request, timeout=seconds))
        except urllib.error.HTTPError as error:
            raise _refusal_of(error) from None
        except ShrutiError:
            raise
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            # A socket's own class is another one before Python 3.10.
            if isinstance(reason, TimeoutError) or "timed out" in str(reason):
                raise TimedOut(f"{place}: no answer within {seconds} s") from error
            raise ConnectionFailed(f"{place}: {reason}") from error


def _may_repeat(error: ShrutiError, is_harmless: bool, is_form: bool, has_own_key: bool) -> bool:
    """Whether a request may be sent again after an error (docs/interface.md section 7.2)."""
    if isinstance(error, ConnectionFailed):
        return is_harmless
    if isinstance(error, TimedOut):
        return is_harmless and not is_form
    if not isinstance(error, ApiError):
        return False
    if error.status == 429:
        return True
    if error.status == 503:
        return not is_form or not has_own_key
    if error.status == 500:
        return is_harmless and error.code != "transcription_failed"
    # A proxy could not reach the server.
    return error.code == "unexpected_answer" and error.status > 500 and is_harmless and not is_form


def _refusal_of(answer: Any) -> ApiError:
    """Makes the error of an answer that is not a success."""
    try:
        text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        text = ""
    code, message, detail = "unexpected_answer", "The answer is not one of Shruti.", None
    try:
        error = json_module.loads(text)["error"]
        if isinstance(error["code"], str) and isinstance(error["message"], str):
            code, message, detail = error["code"], error["message"], error.get("detail")
    except (ValueError, KeyError, TypeError):
        pass
    status = answer.status
    headers = answer.headers
    retry_after = _seconds_of(headers.get("Retry-After"))
    return class_of(status)(message, status, code, detail, headers.get("x-request-id"), retry_after)


def _seconds_of(header: Optional[str]) -> Optional[float]:
    """Reads `Retry-After`: seconds, or a date where a proxy wrote it."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", header):
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _read_json(answer: Any) -> Any:
    with answer:
        text = answer.read()
    try:
        return json_module.loads(text)
    except ValueError:
        message = "The answer is not one of Shruti."
        request_id = answer.headers.get("x-request-id")
        raise ApiError(message, answer.status, "unexpected_answer", None, request_id, None) from None


def _read_text(answer: Any) -> str:
    with answer:
        return str(answer.read().decode("utf-8"))


def read_headers(answer: Any) -> Any:
    """Reads an answer whose body does not matter. Returns its header fields."""
    with answer:
        answer.read()
    return answer.headers


def _read_stream(answer: Any) -> BinaryIO:
    stream: BinaryIO = answer
    return stream


_READERS: Dict[str, Callable[[Any], Any]] = {"json": _read_json, "text": _read_text, "stream": _read_stream}


def _query_of(query: Optional[Mapping[str, Any]]) -> str:
    pairs = []
    for name, value in (query or {}).items():
        if isinstance(value, Mapping):
            pairs += [(f"{name}[{inner}]", _text_of(each)) for inner, each in value.items()]
        elif value is not None:
            pairs.append((name, _text_of(value)))
    return f"?{urllib.parse.urlencode(pairs)}" if pairs else ""


def _text_of(value: Any) -> str:
    return json_module.dumps(value) if isinstance(value, (bool, Mapping, list)) else str(value)


def _body_of(
    json: Optional[Mapping[str, Any]],
    form: Optional[Mapping[str, Any]],
    recording: Optional[OpenedRecording],
    headers: Dict[str, str],
) -> Optional[Body]:
    """Makes the body of a request, and adds its type to the header fields."""
    if json is not None:
        headers["Content-Type"] = "application/json"
        given = {name: value for name, value in json.items() if value is not None}
        return json_module.dumps(given).encode()
    if form is None or recording is None:
        return None
    boundary = uuid.uuid4().hex
    headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
    before = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{_text_of(value)}\r\n'.encode()
        for name, value in form.items()
        if name != "file" and value is not None
    )
    name = re.sub(r'[\r\n"\\]', "_", recording.name)
    before += (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    after = f"\r\n--{boundary}--\r\n".encode()

    def pieces() -> Iterable[bytes]:
        yield before
        yield from recording.pieces(0, recording.size)
        yield after

    return len(before) + recording.size + len(after), pieces
