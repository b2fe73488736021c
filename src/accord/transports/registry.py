"""Finds the transport for a URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from accord.transports.base import TransportFactory

__all__ = ("UrlOpener", "is_url", "register_scheme", "transport_for_url")

UrlOpener: TypeAlias = Callable[[str], TransportFactory]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# By scheme: a function, or where to import it from, as "package.module:function".
_openers: dict[str, UrlOpener | str] = {}


def register_scheme(scheme: str, opener: UrlOpener | str) -> None:
    """Let `connect` accept URLs with this scheme.

    `opener(url)` returns a transport factory. A string "package.module:function" names an opener
    that is imported when it is first used.
    """
    _openers[scheme.lower()] = opener


def is_url(text: str) -> bool:
    """Return True if a text begins with a scheme and `://`."""
    return _URL.match(text) is not None


def transport_for_url(url: str) -> TransportFactory:
    """Return what connects to a URL; raise `ValueError` if its scheme is unknown."""
    match = _URL.match(url)
    scheme = match[1].lower() if match is not None else ""
    opener = _openers.get(scheme)
    if opener is None:
        known = ", ".join(sorted(_openers)) or "none is registered"
        raise ValueError(f"Unknown URL scheme {scheme!r}: expected one of: {known}")
    if isinstance(opener, str):
        module, _, name = opener.partition(":")
        opener = _openers[scheme] = getattr(import_module(module), name)
    return opener(url)
