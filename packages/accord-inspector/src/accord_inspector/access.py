"""Decides who may use the page: a token in the first address, a cookie for all other requests."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from accord.remote.access import Access, Refusal, Scope, headers_of

# Of every response: nothing runs that is not a file of the page, and nothing is embedded.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[str, str], ...] = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class PageAccess:
    """Checks the host name, the origin and the login of each request.

    `token` opens the page once per browser: the address is `start_path`, and the response sets a
    cookie. `hosts` are names of this server in addition to those of this machine.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self.token: str = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._origins = Access(token=self.token, hosts=hosts)

    @property
    def start_path(self) -> str:
        """The path and the query of the first address."""
        return f"/?token={self.token}"

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why the host name or the origin is refused; None if they are allowed."""
        refused = self._origins.check_origin(scope)
        return None if refused is None else Refusal(403, refused.text)

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request has the cookie."""
        for value in headers_of(scope).get("cookie", []):
            try:
                found = SimpleCookie(value).get(_cookie_name(scope))
            except CookieError:
                continue
            if found is not None and _equal(found.value, self._secret):
                return True
        return False

    def login(self, scope: Scope) -> tuple[str, str] | None:
        """Return the cookie and the address without the token; None if a request has no token.

        The cookie is empty if the token is wrong.
        """
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if not given:
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path: str = scope["path"]
        # A path such as //host would be another server.
        target = f"/{path.lstrip('/')}{'?' if rest else ''}{rest}"
        if len(given) != 1 or not _equal(given[0], self.token):
            return "", target
        name = _cookie_name(scope)
        return f"{name}={self._secret}; Path=/; HttpOnly; SameSite=Strict", target


def _cookie_name(scope: Scope) -> str:
    """Return a name for this port: browsers send cookies to all servers of a host."""
    server = scope.get("server")
    return f"accord_inspect_{server[1] if server else 0}"


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
