"""Params that ordinary decoding refuses: null, early spellings, and what nobody can read."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw

from accord.connection.flood_log import FloodLog
from accord.connection.routes import Route, Routes
from accord.errors import DecodeError, InvalidParams
from accord.text.lenient_json import is_object

__all__ = ("NO_PARAMS", "decode_leniently", "report_undecodable", "session_id_of")

NO_PARAMS = b"{}"


def session_id_of(params: Any) -> Any:
    """Return the session that params belong to, or None."""
    if is_object(params):  # an extension's
        session = params.get("sessionId")
        return session if isinstance(session, str) else None
    return getattr(params, "session_id", None)


def decode_leniently(
    routes: Routes, route: Route, method: Any, text: Raw | Any, exc: DecodeError
) -> Any:
    """Read null params as none (R-GEN-09) and early spellings; else raise what was wrong."""
    if text is not UNSET:
        try:
            if bytes(text).strip() == b"null":
                return route.decode(NO_PARAMS)
            if (params := routes.lenient_decode(method, bytes(text))) is not None:
                return params
        except DecodeError:
            pass
    data = {"path": exc.where, "reason": exc.message}
    raise InvalidParams(f"Invalid params: {exc}", data=data) from exc


def report_undecodable(
    routes: Routes, method: Any, text: Raw | Any, error: DecodeError, flood_log: FloodLog
) -> None:
    """Tell the role of a notification that nothing could read."""
    try:
        routes.on_undecodable(method, NO_PARAMS if text is UNSET else bytes(text), error)
    except Exception as exc:  # noqa: BLE001  # logged
        flood_log.exception("! the handler of unreadable notifications failed", exc=exc)
