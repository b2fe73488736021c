"""What a client says about the HTTP status of a server, and what the user can do."""

from __future__ import annotations

from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url

_ADVICE = {
    400: "the server does not understand this client",
    401: "the server needs a valid token: set ACCORD_TOKEN or give --token-file (Python: token=…)",
    403: "the server does not allow this client",
    404: "there is no agent at this path",
    405: "this address is not that of an agent",
    406: "this address is not that of an agent",
    407: "a proxy needs a login",
    408: "the server has waited too long for the request",
    410: "the connection has ended",
    413: "the message is too large for the server",
    415: "this address is not that of an agent",
    421: "the server does not serve this host name",
    426: "the server does not accept this kind of connection",
    429: "the server limits connections: try again later",
    431: "the token or a cookie is too long for the server",
    502: "a proxy cannot reach the server",
    503: "the server accepts no more connections: try again later",
    504: "a proxy has waited too long for the server",
}


def advice_for(status: int, reason: str = "", **known: str) -> str:
    """Return what to do about a status; `known` has texts by status, as `_426="…"`."""
    text = known.get(f"_{status}") or _ADVICE.get(status) or one_line(excerpt(reason))
    return f": {text}" if text else ""


def redirect_error(asked: str, target: str | None) -> str:
    """Return the error message for a redirect, which is never followed (R-HTTP-48)."""
    shown = excerpt(one_line(plain_url(target or "nowhere")))
    return f"{plain_url(asked)} redirects to {shown}, which is not followed"
