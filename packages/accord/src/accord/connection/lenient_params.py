"""Params that the route's decoder rejects: null, early spellings, undecodable ones."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw

from accord.connection.flood_log import FloodLog
from accord.connection.routes import Route, Routes
from accord.errors import DecodeError, InvalidParams
from accord.text.lenient_json import is_object

NO_PARAMS = b"{}"


def session_id_of(params: Any) -> Any:
    """Return the id of the session that params belong to, or None."""
    if is_object(params):  # of an extension
        session = params.get("sessionId")
        return session if isinstance(session, str) else None
    return getattr(params, "session_id", None)


def decode_leniently(
    routes: Routes, route: Route, method: Any, text: Raw | Any, exc: DecodeError
) -> Any:
    """Accept null params (R-GEN-09) and early spellings; otherwise raise `InvalidParams`."""
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
    """Report a notification that could not be decoded to the role."""
    try:
        routes.on_undecodable(method, NO_PARAMS if text is UNSET else bytes(text), error)
    except Exception as exc:  # noqa: BLE001  # logged
        flood_log.exception("! the handler of undecodable notifications failed", exc=exc)
