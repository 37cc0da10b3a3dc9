from __future__ import annotations

import hashlib
import io
import os
from typing import BinaryIO, Iterator, Union

from .errors import ShrutiError

Recording = Union[str, "os.PathLike[str]", bytes, BinaryIO]
"""A path, the bytes themselves, or an open binary file that can be rewound."""

_PIECE = 1024 * 1024


class OpenedRecording:
    """A recording that is read in parts: only the part that is being sent is in memory."""

    def __init__(self, recording: Recording) -> None:
        self.name = "recording"
        self._is_own = True
        if isinstance(recording, (str, os.PathLike)):
            self._file: BinaryIO = open(recording, "rb")
            self.name = os.path.basename(os.fspath(recording))
        elif isinstance(recording, (bytes, bytearray, memoryview)):
            self._file = io.BytesIO(recording)
        else:
            self._file = recording
            self._is_own = False
        self.size = self._file.seek(0, os.SEEK_END)

    def __enter__(self) -> OpenedRecording:
        return self

    def __exit__(self, *_: object) -> None:
        # A file that the caller has opened stays open.
        if self._is_own:
            self._file.close()

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yields the bytes from `start` up to `end`."""
        self._file.seek(start)
        left = end - start
        while left > 0:
            try:
                piece = self._file.read(min(left, _PIECE))
            except OSError as error:
                # Not an error of the connection, although both have the same class.
                raise ShrutiError(f"{self.name} cannot be read: {error}") from error
            if not piece:
                raise ShrutiError(f"{self.name} has become shorter")
            left -= len(piece)
            yield piece

    def sha256(self) -> str:
        """Reads the whole recording. Returns its SHA-256 in lower-case hex."""
        digest = hashlib.sha256()
        for piece in self.pieces(0, self.size):
            digest.update(piece)
        return digest.hexdigest()
