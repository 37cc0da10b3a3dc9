# Generated from the OpenAPI document by scripts/clients/generate.ts. Do not edit it.
from __future__ import annotations

from typing import Dict, List, Literal, Optional, TypedDict, Union

from .recordings import Recording


VERSION = "0.1.0"
"""The version of the server whose document this is."""


class _AudioFormRequired(TypedDict):
    file: Recording
    """The audio file; its format is found from its content. A file without a header is read as its name or media type says."""
    language: str
    """A code that the model lists in GET /v1/models. `auto` is announced and refused."""


class AudioForm(_AudioFormRequired, total=False):
    """Fields of the form. Limits of the file are published by GET /v1/models."""

    task: Task
    mode: Mode
    timestamps: Timestamps
    diarization: DiarizationField
    channel_mode: ChannelMode
    numerals: Numerals
    script: str
    """Script of the text: `native`, `latin` as people type it, `iso15919`, or a code of ISO 15924 in lower case. Only with `capabilities.written_form`."""
    metadata: MetadataField
    model: str
    """ID of a model that GET /v1/models lists; left out: the default model."""


class AudioLink(TypedDict):
    """An address for players that cannot send a key."""

    id: str
    """Identifier of the transcription."""
    object: Literal["transcription.audio_link"]
    url: str
    """Absolute address of the audio. It opens without the key until the link expires."""
    expires_at: str
    """When the link expires. A new one can be asked for at any time. RFC 3339, UTC, milliseconds."""


class CreditLowEvent(TypedDict):
    """Sent once when the balance falls below the threshold, to endpoints registered for it."""

    type: Literal["credit.low"]
    data: CreditLowEventData


class CreditLowEventData(TypedDict):
    organization_id: str
    """Identifier of the organization."""
    balance_paise: int
    """Grants less charges, when it fell below the threshold."""
    threshold_paise: int
    """The organization's, else the config's."""
    created_at: str
    """When it fell below the threshold. RFC 3339, UTC, milliseconds."""


class DiarizationMinSpeakersMaxSpeakers(TypedDict):
    min_speakers: int
    """Fewest speakers; not above max_speakers."""
    max_speakers: int
    """Most speakers."""


class DiarizationSpeakers(TypedDict):
    speakers: int
    """Exact number of speakers."""


class ErrorBody(TypedDict):
    """Body of every error response."""

    error: ErrorBodyError


class _ErrorBodyErrorRequired(TypedDict):
    code: Literal["unauthorized", "forbidden", "not_found", "method_not_allowed", "invalid_request", "unknown_parameter", "unsupported_language", "unsupported_mode", "capability_unavailable", "upload_incomplete", "result_not_ready", "idempotency_conflict", "audio_too_large", "capacity_unavailable", "insufficient_credits", "rate_limited", "spend_limit_reached", "too_many_queued", "audio_decode_failed", "audio_too_long", "too_many_channels", "upload_rejected", "content_deleted", "conflict", "timeout", "organization_disabled", "transcription_failed", "internal_error"]
    """Stable; clients branch on it."""
    message: str
    """For people; may be reworded."""


class ErrorBodyError(_ErrorBodyErrorRequired, total=False):
    detail: str
    """Dotted name of the field, parameter or capability involved."""


class _GapRequired(TypedDict):
    start: float
    """Start. Seconds, at most three decimals."""
    end: float
    """End. Seconds, at most three decimals."""
    reason: Literal["engine_error", "time_limit"]


class Gap(_GapRequired, total=False):
    """A stretch of speech that could not be transcribed, and is not charged."""

    channel: int
    """Channel, from 0; only with channel mode `separate`."""


class LanguageCandidate(TypedDict):
    """A language that may be spoken."""

    language: str
    """ISO 639 code, or the model's own code."""
    probability: float


class _ModelRequired(TypedDict):
    id: str
    """ID of a model that GET /v1/models lists; left out: the default model."""
    object: Literal["model"]
    name: str
    version: str
    default: bool
    """Used by requests that name no model, in all languages that no other model serves."""
    default_languages: List[str]
    """Codes of the languages in which requests that name no model use this one."""
    languages: List[ModelLanguagesItem]
    modes: List[Literal["native", "codemix", "verbatim"]]
    capabilities: ModelCapabilities
    """What is `coming_soon` is refused with `capability_unavailable`. `task.translate` is there where `capabilities.translation` is on."""
    diarization: ModelDiarization
    """How speakers are distinguished: by the built-in acoustic method, or with installed weights."""
    limits: ModelLimits
    price_paise_per_audio_hour: int


class Model(_ModelRequired, total=False):
    """A model, what it can do, and its limits."""

    notice: str
    """What to know before using it."""


_ModelCapabilitiesRequired = TypedDict(
    "_ModelCapabilitiesRequired",
    {
        "mode.native": "Literal['available', 'coming_soon']",
        "mode.codemix": "Literal['available', 'coming_soon']",
        "mode.verbatim": "Literal['available', 'coming_soon']",
        "timestamps.segment": "Literal['available', 'coming_soon']",
        "timestamps.word": "Literal['available', 'coming_soon']",
        "language.auto": "Literal['available', 'coming_soon']",
        "diarization": "Literal['available', 'coming_soon']",
        "channel_mode.separate": "Literal['available', 'coming_soon']",
    },
    total=True,
)


_ModelCapabilitiesOptional = TypedDict(
    "_ModelCapabilitiesOptional",
    {
        "task.translate": "Literal['available', 'coming_soon']",
    },
    total=False,
)


class ModelCapabilities(_ModelCapabilitiesRequired, _ModelCapabilitiesOptional):
    """What is `coming_soon` is refused with `capability_unavailable`. `task.translate` is there where `capabilities.translation` is on."""


class ModelDiarization(TypedDict):
    """How speakers are distinguished: by the built-in acoustic method, or with installed weights."""

    method: Literal["acoustic", "neural"]


class _ModelLanguagesItemRequired(TypedDict):
    code: str
    name: str
    modes: List[Literal["native", "codemix", "verbatim"]]


class ModelLanguagesItem(_ModelLanguagesItemRequired, total=False):
    numerals: List[Literal["spoken", "written"]]
    """Values of `numerals`, where they are switched on."""
    scripts: List[str]
    """Values of `script`, where they are switched on."""


class ModelLimits(TypedDict):
    synchronous: ModelLimitsSynchronous
    asynchronous: ModelLimitsAsynchronous


class ModelLimitsAsynchronous(TypedDict):
    max_bytes: int
    max_duration_seconds: float
    max_channels: int


class ModelLimitsSynchronous(TypedDict):
    max_bytes: int
    max_duration_seconds: float
    timeout_seconds: float


class _ModelListRequired(TypedDict):
    object: Literal["list"]
    data: List[Model]
    """The default first."""


class ModelList(_ModelListRequired, total=False):
    """Every installed model."""

    metadata: Literal[True]
    """Requests and searches may have `metadata`: it is switched on."""


class RotatedSecret(TypedDict):
    """An endpoint's new secret."""

    id: str
    """Identifier."""
    object: Literal["webhook_endpoint"]
    secret: str
    """The new signing secret; this is the only time it is shown."""
    previous_secret_expires_at: str
    """Until then events carry two signatures, separated by a space. RFC 3339, UTC, milliseconds."""


class SecretRotate(TypedDict, total=False):
    """How a secret is replaced."""

    keep_previous_seconds: int
    """How long the previous secret signs as well; left out: 24 hours; 0: it ends at once."""


class _SegmentRequired(TypedDict):
    index: int
    """Position in the result, from 0."""
    text: str
    language: str
    """ISO 639 code."""
    confidence: float
    """How sure the model was."""


class Segment(_SegmentRequired, total=False):
    """One stretch of the transcript."""

    start: float
    """Start on the recording's own clock; absent with timestamps `none`. Seconds, at most three decimals."""
    end: float
    """End on the recording's own clock; absent with timestamps `none`. Seconds, at most three decimals."""
    speaker: str
    """`speaker_1`, … in order of first appearance; only with diarization."""
    channel: int
    """Channel, from 0; only with channel mode `separate`."""
    words: List[Word]
    """The words of the text; only with timestamps `word`, and absent where the words have no times."""
    written: List[Written]
    """What was rewritten in figures; with `numerals` = `written`."""
    native_text: str
    """The text as it was said, in the language's own script; where `text` is in another."""


class _TranscriptionRequired(TypedDict):
    id: str
    """Identifier."""
    object: Literal["transcription"]
    model: str
    """ID of a model that GET /v1/models lists; left out: the default model."""
    version: str
    """Version of the model, fixed when the request was accepted."""
    state: Literal["queued", "preparing", "transcribing", "finalizing", "completed", "partial", "failed", "cancelled"]
    request: TranscriptionRequest
    created_at: str
    """When it was accepted. RFC 3339, UTC, milliseconds."""
    finished_at: Optional[str]


class Transcription(_TranscriptionRequired, total=False):
    """One requested piece of work."""

    result_url: str
    """Absolute address of the result, while there is one."""
    error: TranscriptionError
    """Why it failed."""
    content_deleted_at: str
    """When the recording and its transcript were deleted. RFC 3339, UTC, milliseconds."""
    metadata: Metadata
    duration_seconds: float
    """Length of the recording. Seconds, at most three decimals."""
    progress: float
    """Share of the audio that is done."""
    source: TranscriptionSource
    """Where the recording is fetched from; left out for a recording that was sent."""
    results_to: TranscriptionResultsTo
    """Where the result is written, too."""
    queue_position: int
    """While queued: how many of the organization are ahead, because they have less audio, or as much and were first."""


class _TranscriptionCreateRequired(TypedDict):
    audio: TranscriptionCreateAudio
    """`upload_id`, or with `intake.url` in the config `source_url` instead."""
    language: str
    """A code that the model lists in GET /v1/models. `auto` is announced and refused."""


class TranscriptionCreate(_TranscriptionCreateRequired, total=False):
    """What to transcribe, and how."""

    task: Task
    mode: Mode
    timestamps: Timestamps
    diarization: Diarization
    channel_mode: ChannelMode
    numerals: Numerals
    script: str
    """Script of the text: `native`, `latin` as people type it, `iso15919`, or a code of ISO 15924 in lower case. Only with `capabilities.written_form`."""
    metadata: Metadata
    webhook_endpoint_id: str
    """Endpoint that receives the event of the end."""
    model: str
    """ID of a model that GET /v1/models lists; left out: the default model."""
    results_to: TranscriptionCreateResultsTo
    """Where the result is written, too. Only with `intake.url` in the config."""


class TranscriptionCreateAudio(TypedDict, total=False):
    """`upload_id`, or with `intake.url` in the config `source_url` instead."""

    upload_id: str
    """A complete upload of this project."""
    source_url: str
    """Address from which the server fetches the recording: `https://` to a host that the config lists, or `s3://bucket/key` of a bucket that an admin has added."""


class _TranscriptionCreateResultsToRequired(TypedDict):
    url: str
    """Folder of a bucket, such as `s3://bucket/results/`."""


class TranscriptionCreateResultsTo(_TranscriptionCreateResultsToRequired, total=False):
    """Where the result is written, too. Only with `intake.url` in the config."""

    formats: List[Literal["json", "txt", "srt", "vtt"]]
    """Left out: `json`."""


class TranscriptionError(TypedDict):
    """Why it failed."""

    code: Literal["unauthorized", "forbidden", "not_found", "method_not_allowed", "invalid_request", "unknown_parameter", "unsupported_language", "unsupported_mode", "capability_unavailable", "upload_incomplete", "result_not_ready", "idempotency_conflict", "audio_too_large", "capacity_unavailable", "insufficient_credits", "rate_limited", "spend_limit_reached", "too_many_queued", "audio_decode_failed", "audio_too_long", "too_many_channels", "upload_rejected", "content_deleted", "conflict", "timeout", "organization_disabled", "transcription_failed", "internal_error"]
    message: str


class TranscriptionList(TypedDict):
    """A page of transcriptions."""

    object: Literal["list"]
    data: List[Transcription]
    """Newest first."""
    next: Optional[str]


class _TranscriptionRequestRequired(TypedDict):
    language: str
    mode: Literal["native", "codemix", "verbatim"]
    timestamps: Literal["none", "segment", "word"]
    channel_mode: Literal["mix", "separate"]


class TranscriptionRequest(_TranscriptionRequestRequired, total=False):
    task: Literal["translate"]
    diarization: bool
    numerals: Literal["spoken", "written"]
    script: str


class _TranscriptionResultRequired(TypedDict):
    id: str
    """Identifier of the transcription."""
    object: Literal["transcription.result"]
    model: str
    """ID of a model that GET /v1/models lists; left out: the default model."""
    version: str
    status: Literal["completed", "partial"]
    mode: Literal["native", "codemix", "verbatim"]
    duration_seconds: float
    """Length of the recording. Seconds, at most three decimals."""
    channels: int
    """Channels of the recording."""
    languages: List[str]
    """Codes found in the segments."""
    text: str
    """The full transcript."""
    segments: List[Segment]
    """Ordered by start, then channel."""
    warnings: List[Literal["no_speech", "low_confidence", "repetition_removed", "suspected_hallucination", "clipped_audio", "low_volume", "narrowband_audio", "identical_channels", "script_mismatch", "speaker_count_uncertain", "truncated_audio", "tracks_left_out", "unrecognized_speech", "language_mismatch", "word_times_missing", "punctuation_missing"]]


class TranscriptionResult(_TranscriptionResultRequired, total=False):
    """The outcome of a completed or partial transcription."""

    task: Literal["translate"]
    metadata: Metadata
    gaps: List[Gap]
    """What is missing; present with status `partial`."""
    audio_tracks: TranscriptionResultAudioTracks
    """Which audio tracks of the file; present with the warning `tracks_left_out`."""
    unrecognized: List[Unrecognized]
    """Present with the warning `unrecognized_speech`."""
    language_candidates: List[LanguageCandidate]
    """The most probable first; present with the warning `language_mismatch`."""


class TranscriptionResultAudioTracks(TypedDict):
    """Which audio tracks of the file; present with the warning `tracks_left_out`."""

    transcribed: int
    """From 0, in the order of the file."""
    left_out: List[int]


class _TranscriptionResultsToRequired(TypedDict):
    url: str
    """As requested."""
    formats: List[Literal["json", "txt", "srt", "vtt"]]
    state: Literal["waiting", "written", "failed", "none"]


class TranscriptionResultsTo(_TranscriptionResultsToRequired, total=False):
    """Where the result is written, too."""

    message: str
    """Why the last attempt failed."""


class _TranscriptionSourceRequired(TypedDict):
    url: str
    """The address, without user and query."""
    state: Literal["fetching", "fetched", "failed"]


class TranscriptionSource(_TranscriptionSourceRequired, total=False):
    """Where the recording is fetched from; left out for a recording that was sent."""

    total_bytes: int
    """Where it is known."""
    message: str
    """Why the last attempt failed, while another follows."""


class _UnrecognizedRequired(TypedDict):
    start: float
    """Start. Seconds, at most three decimals."""
    end: float
    """End. Seconds, at most three decimals."""


class Unrecognized(_UnrecognizedRequired, total=False):
    """A stretch of speech whose words the model does not know. It is charged."""

    channel: int
    """Channel, from 0; only with channel mode `separate`."""


class _UploadRequired(TypedDict):
    id: str
    """Identifier."""
    object: Literal["upload"]
    state: Literal["allocated", "verifying", "complete", "rejected"]


class Upload(_UploadRequired, total=False):
    """The resource that receives audio."""

    bytes: int
    """Size of the file, bytes."""
    duration_seconds: float
    """Length of the recording, once verified. Seconds, at most three decimals."""
    channels: int
    """Once verified."""
    deleted: bool
    """True once the audio was deleted."""
    error: UploadError
    """Why it was rejected."""


class _UploadCreateRequired(TypedDict):
    bytes: int
    """Size of the file, bytes."""


class UploadCreate(_UploadCreateRequired, total=False):
    """Announces a file."""

    sha256: str
    """SHA-256 of the file in lower-case hex; other bytes are rejected."""


class _UploadCreatedRequired(TypedDict):
    id: str
    """Identifier."""
    object: Literal["upload"]
    state: Literal["allocated"]
    bytes: int
    """Size of the file, bytes."""
    expires_in: int
    """Seconds until the bytes must have arrived."""
    upload: UploadCreatedUpload
    """Where and how to send the file in one request; no project key is needed there."""


class UploadCreated(_UploadCreatedRequired, total=False):
    """A place for a file to be sent to."""

    resumable_upload: UploadCreatedResumableUpload
    """tus 1.0; recommended above 50 MB."""


class UploadCreatedResumableUpload(TypedDict):
    """tus 1.0; recommended above 50 MB."""

    protocol: Literal["tus"]
    endpoint: str
    """Takes the creation request."""
    chunk_size: int
    """Bytes."""
    headers: Dict[str, str]
    """Header fields to send with every request."""
    metadata: Dict[str, str]
    """For `Upload-Metadata`."""


class UploadCreatedUpload(TypedDict):
    """Where and how to send the file in one request; no project key is needed there."""

    method: str
    url: str
    headers: Dict[str, str]
    """Header fields to send with the file."""


class _UploadErrorRequired(TypedDict):
    code: Literal["audio_decode_failed", "upload_rejected"]


class UploadError(_UploadErrorRequired, total=False):
    """Why it was rejected."""

    message: str


class Usage(TypedDict):
    """Credit of the organization, and this project's usage events."""

    object: Literal["usage"]
    currency: Literal["INR"]
    price_paise_per_audio_hour: int
    credit: UsageCredit
    data: List[UsageEvent]
    """Newest first."""
    next: Optional[str]


class UsageCredit(TypedDict):
    balance_paise: int
    """Grants minus charges."""
    reserved_paise: int
    """Held for unfinished transcriptions."""
    available_paise: int
    """Balance minus reserved."""


class UsageEvent(TypedDict):
    """One finished transcription and what it cost."""

    id: str
    """Identifier."""
    object: Literal["usage_event"]
    transcription_id: str
    model: str
    state: Literal["queued", "preparing", "transcribing", "finalizing", "completed", "partial", "failed", "cancelled"]
    """How the transcription ended."""
    audio_seconds: float
    """Length of the recording. Seconds, at most three decimals."""
    billed_seconds: float
    """What was charged: transcribed time, times channels with `separate`. Seconds, at most three decimals."""
    channels: int
    """Channels that were charged."""
    amount_paise: int
    created_at: str
    """When the transcription finished. RFC 3339, UTC, milliseconds."""


class Waveform(TypedDict):
    """The shape of a recording's sound."""

    id: str
    """Identifier of the transcription."""
    object: Literal["transcription.waveform"]
    duration_seconds: float
    """Length of the recording. Seconds, at most three decimals."""
    seconds_per_peak: float
    """Length of sound behind one peak."""
    lanes: List[WaveformLanesItem]
    """One, or with channel mode `separate` one for each channel."""


class _WaveformLanesItemRequired(TypedDict):
    peaks: str
    """One byte for each peak, in base64: the largest sample, 0 for silence to 255 for full scale. The last one may cover less sound."""
    speech: Optional[List[List[float]]]


class WaveformLanesItem(_WaveformLanesItemRequired, total=False):
    channel: int
    """Channel, from 0; only with channel mode `separate`."""


class _WebhookEndpointRequired(TypedDict):
    id: str
    """Identifier."""
    object: Literal["webhook_endpoint"]
    url: str
    secret: str
    """Signing secret; this is the only time it is shown."""


class WebhookEndpoint(_WebhookEndpointRequired, total=False):
    """A receiver of events."""

    events: List[Literal["credit.low"]]
    """Events that it receives beside those of the transcriptions that name it."""


class _WebhookEndpointCreateRequired(TypedDict):
    url: str
    """HTTPS address that receives events."""


class WebhookEndpointCreate(_WebhookEndpointCreateRequired, total=False):
    """Registers a receiver."""

    events: List[Literal["credit.low"]]
    """Events that it receives beside those of the transcriptions that name it."""


class WebhookEndpointList(TypedDict):
    """A page of webhook endpoints."""

    object: Literal["list"]
    data: List[WebhookEndpointView]
    """Newest first."""
    next: Optional[str]


class WebhookEndpointRemoved(TypedDict):
    """A receiver that gets no events any more."""

    id: str
    """Identifier."""
    object: Literal["webhook_endpoint"]
    deleted: Literal[True]


class _WebhookEndpointViewRequired(TypedDict):
    id: str
    """Identifier."""
    object: Literal["webhook_endpoint"]
    url: str
    state: Literal["enabled", "disabled"]
    """A disabled one receives nothing until it is enabled."""
    created_at: str
    """When it was registered. RFC 3339, UTC, milliseconds."""
    events: List[Literal["credit.low"]]
    """Events that it receives beside those of the transcriptions that name it."""
    pending_deliveries: int
    """Events that wait for delivery."""
    failed_deliveries: int
    """Events that were given up."""


class WebhookEndpointView(_WebhookEndpointViewRequired, total=False):
    """A receiver of events, without its secret."""

    disabled_reason: str
    """Why it was disabled; for people."""
    previous_secret_expires_at: str
    """Until then events are signed with the previous secret as well. RFC 3339, UTC, milliseconds."""


class WebhookEvent(TypedDict):
    """Sent once a transcription is final, to its endpoint."""

    type: Literal["transcription.completed", "transcription.partial", "transcription.failed", "transcription.cancelled"]
    data: WebhookEventData


class _WebhookEventDataRequired(TypedDict):
    id: str
    """Identifier of the transcription."""
    state: Literal["completed", "partial", "failed", "cancelled"]


class WebhookEventData(_WebhookEventDataRequired, total=False):
    error: WebhookEventDataError
    metadata: Metadata


class WebhookEventDataError(TypedDict):
    code: Literal["unauthorized", "forbidden", "not_found", "method_not_allowed", "invalid_request", "unknown_parameter", "unsupported_language", "unsupported_mode", "capability_unavailable", "upload_incomplete", "result_not_ready", "idempotency_conflict", "audio_too_large", "capacity_unavailable", "insufficient_credits", "rate_limited", "spend_limit_reached", "too_many_queued", "audio_decode_failed", "audio_too_long", "too_many_channels", "upload_rejected", "content_deleted", "conflict", "timeout", "organization_disabled", "transcription_failed", "internal_error"]
    message: str


class Word(TypedDict):
    """A word of a segment. Words of a segment are in the order of time and do not overlap."""

    text: str
    """Without white space; with the punctuation that belongs to it."""
    start: float
    """Start on the recording's own clock. Seconds, at most three decimals."""
    end: float
    """End on the recording's own clock. Seconds, at most three decimals."""
    confidence: float
    """How sure the model was."""


class Written(TypedDict):
    """Words that were rewritten in figures."""

    start: int
    """Where the figures begin in the segment's text, in UTF-16 units."""
    end: int
    """Behind their last unit."""
    kind: str
    """What they are, such as `money`, `date` or `phone`."""
    value: str
    """Numbers in decimal, ₹ in paise, other money as `USD 25.50`, dates, times and durations after ISO 8601."""
    spoken: str
    """The words that were said, in the language's own script."""


ChannelMode = Literal["mix", "separate"]
"""`separate` transcribes each channel on its own and is billed per channel."""


Diarization = Union[bool, "DiarizationSpeakers", "DiarizationMinSpeakersMaxSpeakers"]
"""Label segments by speaker: true finds the number, an object gives it or its bounds. Left out: false."""


DiarizationField = str
"""Label segments by speaker: `true`, `false`, or as JSON the object with the number of speakers or its bounds."""


Metadata = Dict[str, str]
"""What you note of it: at most 16 texts of 500 characters by names of 40 letters, digits, `_` and `-`. It is deleted with the transcript. Only with `capabilities.metadata`."""


MetadataField = str
"""`metadata` as JSON. Fields such as `metadata[agent]` say the same. Only with `capabilities.metadata`."""


Mode = Literal["native", "codemix", "verbatim"]
"""`native`: the language's own script; `codemix`: English words in Latin letters; `verbatim`: exactly what was said."""


Numerals = Literal["spoken", "written"]
"""`spoken`: numbers as they were said; `written`: numbers, money, dates and times in figures. Only with `capabilities.written_form`."""


Task = Literal["transcribe", "translate"]
"""`transcribe`: text in the language that is spoken; `translate`: text in English. Only with `capabilities.translation`."""


Timestamps = Literal["none", "segment", "word"]
"""Whether segments carry times. `word`: words, too; refused unless GET /v1/models says that `timestamps.word` is `available`."""
