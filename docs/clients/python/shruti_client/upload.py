from __future__ import annotations

import base64
import re
import time
import urllib.parse
from typing import Any, Callable, Mapping, Optional, TypeVar

from . import types
from .errors import ApiError, ConnectionFailed, ShrutiError, TimedOut
from .recordings import OpenedRecording
from .transport import Body, Transport, pause_after, read_headers

T = TypeVar("T")
Progress = Callable[[int], None]
"""Is called with the bytes that the server has stored."""

_MAX_RETRIES = 8
_TUS = {"Tus-Resumable": "1.0.0"}
# 409: an earlier request still writes. 460: the bytes were damaged on their way.
_CONTINUED = (409, 423, 429, 460, 500, 502, 503, 504)


def send_file(
    transport: Transport,
    created: types.UploadCreated,
    recording: OpenedRecording,
    on_progress: Optional[Progress],
) -> None:
    """Sends the bytes of a created upload: by one PUT where they fit in one piece, else by tus.

    After a broken connection it continues where the server's bytes end, and so does a second call for the same upload, in
    another process, too.
    """
    if recording.size != created["bytes"]:
        raise ShrutiError(
            f"the file has {recording.size} bytes, and {created['id']} was made for {created['bytes']}"
        )
    resumable = created.get("resumable_upload")
    if resumable and recording.size > resumable["chunk_size"]:
        _send_by_tus(transport, resumable, recording, on_progress)
        return
    upload = created["upload"]
    body: Body = (recording.size, lambda: recording.pieces(0, recording.size))
    _until_done(
        transport,
        lambda: transport.exchange(upload["method"], upload["url"], upload["headers"], body, read_headers),
    )
    if on_progress:
        on_progress(recording.size)


def _send_by_tus(
    transport: Transport,
    resumable: types.UploadCreatedResumableUpload,
    recording: OpenedRecording,
    on_progress: Optional[Progress],
) -> None:
    size = recording.size

    def request(method: str, url: str, headers: Mapping[str, str], body: Optional[Body] = None) -> Any:
        fields = {**resumable["headers"], **_TUS, **headers}
        return transport.exchange(method, url, fields, body, read_headers)

    pairs = [f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in resumable["metadata"].items()]
    creation = {"Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    # A repeated creation answers with the same address, and stored bytes stay.
    endpoint = resumable["endpoint"]
    created = _until_done(transport, lambda: request("POST", endpoint, creation))
    url = urllib.parse.urljoin(endpoint, created.get("Location", ""))

    def stored() -> int:
        return _offset_of(request("HEAD", url, {}))

    offset = _until_done(transport, stored)
    while offset < size:
        if on_progress:
            on_progress(offset)
        offset = _until_done(transport, _Piece(offset, stored, request, url, recording, resumable["chunk_size"]))
    if on_progress:
        on_progress(offset)


class _Piece:
    """Sends one piece. After a failure it asks where the server's bytes end, and begins there."""

    def __init__(
        self,
        offset: int,
        stored: Callable[[], int],
        request: Callable[..., Any],
        url: str,
        recording: OpenedRecording,
        chunk_size: int,
    ) -> None:
        self._offset: Optional[int] = offset
        self._stored = stored
        self._request = request
        self._url = url
        self._recording = recording
        self._chunk_size = chunk_size

    def __call__(self) -> int:
        offset = self._stored() if self._offset is None else self._offset
        self._offset = None
        recording = self._recording
        if offset >= recording.size:
            return offset
        end = min(offset + self._chunk_size, recording.size)
        position = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        body: Body = (end - offset, lambda: recording.pieces(offset, end))
        return _offset_of(self._request("PATCH", self._url, position, body))


def _until_done(transport: Transport, act: Callable[[], T]) -> T:
    attempt = 0
    while True:
        try:
            return act()
        except ShrutiError as error:
            is_passing = isinstance(error, (ConnectionFailed, TimedOut)) or (
                isinstance(error, ApiError) and error.status in _CONTINUED
            )
            seconds = pause_after(error, attempt)
            if not is_passing or attempt >= _MAX_RETRIES or seconds > transport.max_retry_after:
                raise
        time.sleep(seconds)
        attempt += 1


def _offset_of(headers: Any) -> int:
    offset = headers.get("Upload-Offset")
    if offset is None or not re.fullmatch(r"[0-9]+", offset):
        raise ConnectionFailed("the answer has no Upload-Offset")
    return int(offset)
