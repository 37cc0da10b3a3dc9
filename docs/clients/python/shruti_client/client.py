from __future__ import annotations

import ssl
import time
from typing import Any, Callable, Optional, TypeVar, cast

from . import types
from .errors import ApiError, ConnectionFailed, TimedOut, TranscriptionEnded, UploadRejected
from .operations import Operations
from .recordings import OpenedRecording, Recording
from .transport import Transport
from .upload import Progress, send_file

T = TypeVar("T")

_FIRST_POLL = 0.5
_LONGEST_POLL = 10.0
# A server that restarts does not end a wait.
_UNREACHABLE = 300.0
_UNFINISHED = ("queued", "preparing", "transcribing", "finalizing")


class Shruti(Operations):
    """A client of one server with one key. It keeps no connection, need not be closed, and can be shared by threads.

    `timeout` is the longest silence of the server in seconds; ten minutes, because a synchronous transcription takes long.
    A request is sent again `max_retries` times. A `Retry-After` above `max_retry_after` seconds is not waited for, but
    raised. `ssl_context` is for a certificate of your own authority.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 600,
        max_retries: int = 4,
        max_retry_after: float = 60,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._transport = Transport(base_url, api_key, timeout, max_retries, max_retry_after, ssl_context)

    def _call(self, method: str, path: str, **request: Any) -> Any:
        return self._transport.call(method, path, **request)

    def upload(
        self,
        recording: Recording,
        *,
        verify: bool = True,
        on_created: Optional[Callable[[types.UploadCreated], None]] = None,
        on_progress: Optional[Progress] = None,
        resume: Optional[types.UploadCreated] = None,
    ) -> types.Upload:
        """Creates an upload, sends the file, and waits until the server has verified it. Returns the complete upload.

        With `verify` the file's SHA-256 is announced, and the server rejects other bytes. What `on_created` gets can be
        stored, and given as `resume` later, in another process, too. Raises UploadRejected, or ApiError with the code
        `upload_rejected` or `audio_decode_failed`, where the bytes are no recording.
        """
        with OpenedRecording(recording) as opened:
            created = resume or self._created(opened, verify)
            if on_created:
                on_created(created)
            send_file(self._transport, created, opened, on_progress)
        latest = self.complete_upload(created["id"])
        polls = 0
        while latest["state"] == "verifying":
            time.sleep(_poll_pause(polls))
            polls += 1
            latest = _while_unreachable(lambda: self.get_upload(created["id"]))
        if latest["state"] != "complete":
            raise UploadRejected(cast(Any, latest))
        return latest

    def _created(self, opened: OpenedRecording, verify: bool) -> types.UploadCreated:
        announced = {"bytes": opened.size, "sha256": opened.sha256() if verify else None}
        # One that was lost with its answer expires by itself.
        created = self._call("POST", "/v1/uploads", json=announced, is_repeatable=True)
        return cast(types.UploadCreated, created)

    def wait_for_transcription(
        self,
        transcription_id: str,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[Callable[[types.Transcription], None]] = None,
    ) -> types.Transcription:
        """Waits until a transcription is `completed` or `partial`, and returns it.

        A server that does not answer for five minutes ends the wait. Raises TranscriptionEnded where it is `failed` or
        `cancelled`, TimedOut after `timeout` seconds (the work continues), and ApiError.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        polls = 0
        while True:
            latest = _while_unreachable(lambda: self.get_transcription(transcription_id))
            if on_progress:
                on_progress(latest)
            if latest["state"] in ("completed", "partial"):
                return latest
            if latest["state"] not in _UNFINISHED:
                raise TranscriptionEnded(cast(Any, latest))
            left = _LONGEST_POLL if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{transcription_id} is still {latest['state']} after {timeout} s")
            time.sleep(min(_poll_pause(polls), left))
            polls += 1

    def transcribe(
        self,
        recording: Recording,
        *,
        language: str,
        timeout: Optional[float] = None,
        idempotency_key: Optional[str] = None,
        **request: Any,
    ) -> types.TranscriptionResult:
        """Sends a recording of any length, transcribes it, and waits for the result.

        `request` has further fields of `create_transcription`, such as `mode`. Raises as the steps that it takes.
        """
        upload = self.upload(recording)
        started = self.create_transcription(
            audio={"upload_id": upload["id"]}, language=language, idempotency_key=idempotency_key, **request
        )
        self.wait_for_transcription(started["id"], timeout=timeout)
        return self.get_transcription_result(started["id"])


def _while_unreachable(ask: Callable[[], T]) -> T:
    """Repeats a request that only reads, while the server cannot be reached."""
    deadline = time.monotonic() + _UNREACHABLE
    while True:
        try:
            return ask()
        except (ConnectionFailed, ApiError) as error:
            is_passing = isinstance(error, ConnectionFailed) or error.status in (502, 503, 504)
            if not is_passing or time.monotonic() > deadline:
                raise
        time.sleep(_LONGEST_POLL / 2)


def _poll_pause(polls: int) -> float:
    """Returns a pause that is half as long again as the one before."""
    return float(min(_LONGEST_POLL, _FIRST_POLL * 1.5 ** min(polls, 20)))
