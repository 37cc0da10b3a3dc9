# Generated from the OpenAPI document by scripts/clients/generate.ts. Do not edit it.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any, BinaryIO, Dict, Iterator, List, Literal, Optional, Union

from . import types
from .pages import pages
from .recordings import Recording
from .transport import segment


class Operations:
    """One method for each operation of the interface. `Shruti` adds how requests are sent."""

    def _call(self, method: str, path: str, **request: Any) -> Any:
        raise NotImplementedError

    def create_transcription(
        self,
        *,
        audio: types.TranscriptionCreateAudio,
        language: str,
        task: Optional[types.Task] = None,
        mode: Optional[types.Mode] = None,
        timestamps: Optional[types.Timestamps] = None,
        diarization: Optional[types.Diarization] = None,
        channel_mode: Optional[types.ChannelMode] = None,
        numerals: Optional[types.Numerals] = None,
        script: Optional[str] = None,
        metadata: Optional[types.Metadata] = None,
        webhook_endpoint_id: Optional[str] = None,
        model: Optional[str] = None,
        results_to: Optional[types.TranscriptionCreateResultsTo] = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Transcription:
        """Start a transcription.

        Reserves credit and queues the work. A repeated request with its key gets the first transcription.

        Scope: `transcriptions:write`.
        """
        return self._call(
            "POST",
            "/v1/transcriptions",
            json={"audio": audio, "language": language, "task": task, "mode": mode, "timestamps": timestamps, "diarization": diarization, "channel_mode": channel_mode, "numerals": numerals, "script": script, "metadata": metadata, "webhook_endpoint_id": webhook_endpoint_id, "model": model, "results_to": results_to},
            takes_key=True,
            idempotency_key=idempotency_key,
            timeout=timeout,
            max_retries=max_retries,
        )

    def list_transcriptions(
        self,
        *,
        limit: Optional[int] = None,
        after: Optional[str] = None,
        state: Optional[str] = None,
        metadata: Optional[types.Metadata] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.TranscriptionList:
        """List transcriptions.

        With `metadata` a page may have fewer than `limit`, also none, while `next` leads to more.

        Scope: `transcriptions:read`.
        """
        return self._call(
            "GET",
            "/v1/transcriptions",
            query={"limit": limit, "after": after, "state": state, "metadata": metadata},
            timeout=timeout,
            max_retries=max_retries,
        )

    def iterate_transcriptions(
        self,
        *,
        limit: Optional[int] = None,
        after: Optional[str] = None,
        state: Optional[str] = None,
        metadata: Optional[types.Metadata] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> Iterator[types.Transcription]:
        """Like `list_transcriptions`, one element after the other, with the pages behind the first one."""
        return pages(
            first=after,
            ask=lambda after: self.list_transcriptions(after=after, limit=limit, state=state, metadata=metadata, timeout=timeout, max_retries=max_retries),
        )

    def get_transcription(
        self,
        transcription_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Transcription:
        """Get a transcription.

        Scope: `transcriptions:read`.
        """
        return self._call(
            "GET",
            f"/v1/transcriptions/{segment(transcription_id)}",
            timeout=timeout,
            max_retries=max_retries,
        )

    def delete_transcription(
        self,
        transcription_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Transcription:
        """Delete audio and transcript.

        The record and its usage event stay. Unfinished work must be cancelled first.

        Scope: `transcriptions:write`.
        """
        return self._call(
            "DELETE",
            f"/v1/transcriptions/{segment(transcription_id)}",
            timeout=timeout,
            max_retries=max_retries,
        )

    def get_transcription_result(
        self,
        transcription_id: str,
        *,
        word_times: Optional[Literal["1", "true"]] = None,
        max_line_characters: Optional[int] = None,
        max_lines: Optional[int] = None,
        max_cue_seconds: Optional[int] = None,
        download: Optional[Literal["1", "true"]] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.TranscriptionResult:
        """Get the result.

        JSON, or by `format` or `Accept` the transcript alone as WebVTT, SubRip or plain text, or by `format` its words as CTM.

        Scope: `transcriptions:read`.
        """
        return self._call(
            "GET",
            f"/v1/transcriptions/{segment(transcription_id)}/result",
            query={"word_times": word_times, "max_line_characters": max_line_characters, "max_lines": max_lines, "max_cue_seconds": max_cue_seconds, "download": download},
            timeout=timeout,
            max_retries=max_retries,
        )

    def get_transcription_result_text(
        self,
        transcription_id: str,
        *,
        format: Literal["srt", "vtt", "text", "ctm"],
        word_times: Optional[Literal["1", "true"]] = None,
        max_line_characters: Optional[int] = None,
        max_lines: Optional[int] = None,
        max_cue_seconds: Optional[int] = None,
        download: Optional[Literal["1", "true"]] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> str:
        """Get the result. The answer is text in the form that is asked for."""
        return self._call(
            "GET",
            f"/v1/transcriptions/{segment(transcription_id)}/result",
            query={"format": format, "word_times": word_times, "max_line_characters": max_line_characters, "max_lines": max_lines, "max_cue_seconds": max_cue_seconds, "download": download},
            timeout=timeout,
            max_retries=max_retries,
            answer="text",
        )

    def cancel_transcription(
        self,
        transcription_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Transcription:
        """Cancel a transcription.

        Cancelled work is not charged, but for words that a stream of the OpenAI layer has sent. A finished transcription is returned unchanged.

        Scope: `transcriptions:write`.
        """
        return self._call(
            "POST",
            f"/v1/transcriptions/{segment(transcription_id)}/cancel",
            timeout=timeout,
            max_retries=max_retries,
        )

    def get_transcription_audio(
        self,
        transcription_id: str,
        *,
        link: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> BinaryIO:
        """Listen to the recording.

        The recording as WAV: 16 kHz and 16 bit, one channel, or with channel mode `separate` all of them. `Range` with one range is answered by at most 1 MiB. Players that cannot send a key use the address of an audio link.

        Scope: `transcriptions:read`.
        """
        return self._call(
            "GET",
            f"/v1/transcriptions/{segment(transcription_id)}/audio",
            query={"link": link},
            timeout=timeout,
            max_retries=max_retries,
            answer="stream",
        )

    def create_audio_link(
        self,
        transcription_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.AudioLink:
        """Make an address for a player.

        The address opens the audio without the key for four hours, unless the key ends before.

        Scope: `transcriptions:read`.
        """
        return self._call(
            "POST",
            f"/v1/transcriptions/{segment(transcription_id)}/audio_links",
            timeout=timeout,
            max_retries=max_retries,
        )

    def get_transcription_waveform(
        self,
        transcription_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Waveform:
        """Get the shape of the sound.

        Peaks for a picture of the recording, and where speech was found.

        Scope: `transcriptions:read`.
        """
        return self._call(
            "GET",
            f"/v1/transcriptions/{segment(transcription_id)}/waveform",
            timeout=timeout,
            max_retries=max_retries,
        )

    def transcribe_audio(
        self,
        *,
        file: Recording,
        language: str,
        task: Optional[types.Task] = None,
        mode: Optional[types.Mode] = None,
        timestamps: Optional[types.Timestamps] = None,
        diarization: Optional[types.DiarizationField] = None,
        channel_mode: Optional[types.ChannelMode] = None,
        numerals: Optional[types.Numerals] = None,
        script: Optional[str] = None,
        metadata: Optional[types.MetadataField] = None,
        model: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.TranscriptionResult:
        """Synchronous transcription of short audio.

        Answers with the result. After 503 and 504 try again under another idempotency key, or upload the recording.

        Scope: `transcriptions:write`.
        """
        return self._call(
            "POST",
            "/v1/audio/transcriptions",
            form={"file": file, "language": language, "task": task, "mode": mode, "timestamps": timestamps, "diarization": diarization, "channel_mode": channel_mode, "numerals": numerals, "script": script, "metadata": metadata, "model": model},
            takes_key=True,
            idempotency_key=idempotency_key,
            timeout=timeout,
            max_retries=max_retries,
        )

    def transcribe_audio_text(
        self,
        *,
        media_type: Literal["text/vtt", "application/x-subrip", "application/srt", "text/srt", "text/plain"],
        file: Recording,
        language: str,
        task: Optional[types.Task] = None,
        mode: Optional[types.Mode] = None,
        timestamps: Optional[types.Timestamps] = None,
        diarization: Optional[types.DiarizationField] = None,
        channel_mode: Optional[types.ChannelMode] = None,
        numerals: Optional[types.Numerals] = None,
        script: Optional[str] = None,
        metadata: Optional[types.MetadataField] = None,
        model: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> str:
        """Synchronous transcription of short audio. The answer is text in the form that is asked for."""
        return self._call(
            "POST",
            "/v1/audio/transcriptions",
            form={"file": file, "language": language, "task": task, "mode": mode, "timestamps": timestamps, "diarization": diarization, "channel_mode": channel_mode, "numerals": numerals, "script": script, "metadata": metadata, "model": model},
            takes_key=True,
            idempotency_key=idempotency_key,
            timeout=timeout,
            max_retries=max_retries,
            media_type=media_type,
            answer="text",
        )

    def create_upload(
        self,
        *,
        bytes: int,
        sha256: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.UploadCreated:
        """Create an upload.

        Announces a file; the answer says where and how to send it.

        Scope: `uploads:write`.
        """
        return self._call(
            "POST",
            "/v1/uploads",
            json={"bytes": bytes, "sha256": sha256},
            timeout=timeout,
            max_retries=max_retries,
        )

    def complete_upload(
        self,
        upload_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Upload:
        """Mark an upload complete.

        Says that all bytes have been sent. They are verified: size, SHA-256 where given, decoding. A small file (up to 32 MiB, unless the server is configured otherwise) is verified within the request, for 25 seconds at most: a small file can hold a long recording.

        Scope: `uploads:write`.
        """
        return self._call(
            "POST",
            f"/v1/uploads/{segment(upload_id)}/complete",
            timeout=timeout,
            max_retries=max_retries,
        )

    def get_upload(
        self,
        upload_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Upload:
        """Get an upload.

        Scope: `uploads:write`.
        """
        return self._call(
            "GET",
            f"/v1/uploads/{segment(upload_id)}",
            timeout=timeout,
            max_retries=max_retries,
        )

    def list_models(
        self,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.ModelList:
        """List models, capabilities and limits.

        Scope: `models:read`.
        """
        return self._call("GET", "/v1/models", timeout=timeout, max_retries=max_retries)

    def get_usage(
        self,
        *,
        limit: Optional[int] = None,
        after: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.Usage:
        """Usage events and credit.

        Credit belongs to the organization; events are those of the key's project.

        Scope: `usage:read`.
        """
        return self._call(
            "GET",
            "/v1/usage",
            query={"limit": limit, "after": after},
            timeout=timeout,
            max_retries=max_retries,
        )

    def iterate_usage(
        self,
        *,
        limit: Optional[int] = None,
        after: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> Iterator[types.UsageEvent]:
        """Like `get_usage`, one element after the other, with the pages behind the first one."""
        return pages(
            first=after,
            ask=lambda after: self.get_usage(after=after, limit=limit, timeout=timeout, max_retries=max_retries),
        )

    def create_webhook_endpoint(
        self,
        *,
        url: str,
        events: Optional[List[Literal["credit.low"]]] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.WebhookEndpoint:
        """Register a webhook endpoint.

        Events are signed as Standard Webhooks 1.0 says. The signing secret is returned this once only. `events` with `credit.low` also needs the scope `usage:read`.

        Scope: `webhooks:write`.
        """
        return self._call(
            "POST",
            "/v1/webhook_endpoints",
            json={"url": url, "events": events},
            timeout=timeout,
            max_retries=max_retries,
        )

    def list_webhook_endpoints(
        self,
        *,
        limit: Optional[int] = None,
        after: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.WebhookEndpointList:
        """List webhook endpoints.

        Scope: `webhooks:write`.
        """
        return self._call(
            "GET",
            "/v1/webhook_endpoints",
            query={"limit": limit, "after": after},
            timeout=timeout,
            max_retries=max_retries,
        )

    def iterate_webhook_endpoints(
        self,
        *,
        limit: Optional[int] = None,
        after: Optional[str] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> Iterator[types.WebhookEndpointView]:
        """Like `list_webhook_endpoints`, one element after the other, with the pages behind the first one."""
        return pages(
            first=after,
            ask=lambda after: self.list_webhook_endpoints(after=after, limit=limit, timeout=timeout, max_retries=max_retries),
        )

    def get_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.WebhookEndpointView:
        """Get a webhook endpoint.

        Scope: `webhooks:write`.
        """
        return self._call(
            "GET",
            f"/v1/webhook_endpoints/{segment(webhook_endpoint_id)}",
            timeout=timeout,
            max_retries=max_retries,
        )

    def delete_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.WebhookEndpointRemoved:
        """Remove a webhook endpoint.

        For good: its waiting events fail, and its secrets are deleted.

        Scope: `webhooks:write`.
        """
        return self._call(
            "DELETE",
            f"/v1/webhook_endpoints/{segment(webhook_endpoint_id)}",
            timeout=timeout,
            max_retries=max_retries,
        )

    def enable_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.WebhookEndpointView:
        """Enable a webhook endpoint.

        An endpoint that answered 410 was disabled. Its waiting events are sent at once.

        Scope: `webhooks:write`.
        """
        return self._call(
            "POST",
            f"/v1/webhook_endpoints/{segment(webhook_endpoint_id)}/enable",
            timeout=timeout,
            max_retries=max_retries,
        )

    def rotate_webhook_secret(
        self,
        webhook_endpoint_id: str,
        *,
        keep_previous_seconds: Optional[int] = None,
        timeout: Optional[float] = None,
        max_retries: Optional[int] = None,
    ) -> types.RotatedSecret:
        """Replace a signing secret.

        Both secrets sign until the previous one expires: `webhook-signature` then has two signatures, separated by a space.

        Scope: `webhooks:write`.
        """
        return self._call(
            "POST",
            f"/v1/webhook_endpoints/{segment(webhook_endpoint_id)}/rotate_secret",
            json={"keep_previous_seconds": keep_previous_seconds},
            timeout=timeout,
            max_retries=max_retries,
        )
