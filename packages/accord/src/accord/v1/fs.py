"""Files of the client, including unsaved changes in the editor (v1)."""

from __future__ import annotations

from accord.v1.ids import SessionId
from accord.wire.base import UInt32, Wire
from accord.wire.method import Method

__all__ = (
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
)


class ReadTextFileRequest(Wire):
    """Reads a text file, or `limit` of its lines, starting at `line`."""

    session_id: SessionId
    path: str  # absolute
    line: UInt32 | None = None  # the first line is 1
    limit: UInt32 | None = None


class ReadTextFileResponse(Wire):
    """The requested text."""

    content: str


class WriteTextFileRequest(Wire):
    """Replaces the text of a file, or creates a file."""

    session_id: SessionId
    path: str  # absolute
    content: str


class WriteTextFileResponse(Wire):
    """The file is written."""


METHODS: tuple[Method, ...] = (
    Method(
        name="fs/read_text_file",
        call="read_text_file",
        params=ReadTextFileRequest,
        result=ReadTextFileResponse,
        to="client",
        gate="client.fs.read_text_file",
    ),
    Method(
        name="fs/write_text_file",
        call="write_text_file",
        params=WriteTextFileRequest,
        result=WriteTextFileResponse,
        to="client",
        gate="client.fs.write_text_file",
    ),
)
