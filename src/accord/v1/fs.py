"""Files as the client sees them, unsaved text of its editors included (v1)."""

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
    """Read a text file, or `limit` lines of it from `line` on."""

    session_id: SessionId
    path: str  # absolute
    line: UInt32 | None = None  # the first line is 1
    limit: UInt32 | None = None


class ReadTextFileResponse(Wire):
    """The text that was asked for."""

    content: str


class WriteTextFileRequest(Wire):
    """Replace the text of a file, or make a new one."""

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
