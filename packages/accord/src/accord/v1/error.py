"""Errors in responses and at the end of work (v1)."""

from __future__ import annotations

from typing import Any, TypeAlias

from accord.wire.base import Bare, Int32, Lenient

__all__ = ("Error", "ErrorCode")

# accord.errors knows the codes that have a meaning; any other may come.
ErrorCode: TypeAlias = Int32


class Error(Bare):
    """A JSON-RPC error; `message` is one short sentence, `data` any JSON."""

    code: ErrorCode
    message: str
    data: Lenient[Any] = None
