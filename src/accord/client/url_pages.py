"""The web pages that users are sent to: bounded in number, in time and in length."""

from __future__ import annotations

import asyncio
import logging

from accord.client.elicitation import UrlElicitationRequest
from accord.errors import InvalidParams

__all__ = ("MAX_PAGES", "MAX_URL_CHARS", "PAGE_LIFETIME_S", "OpenUrlElicitations")

log = logging.getLogger("accord.client")

MAX_PAGES = 32  # at a time, of all sessions of a connection
MAX_URL_CHARS = 8192  # browsers and servers take no more
PAGE_LIFETIME_S = 3600.0  # for the agent to say that the user is done


class OpenUrlElicitations:
    """The pages that a user is asked about, or has gone to and is not done with."""

    def __init__(self) -> None:
        self._asked: list[UrlElicitationRequest] = []
        self._open: dict[
            str, tuple[UrlElicitationRequest, float]
        ] = {}  # until when, in the order they began

    def add(self, page: UrlElicitationRequest) -> bool:
        """Take a page before the user is asked; return False where there are too many.

        Raise the error for the agent when the address is too long.
        """
        if len(page.url) > MAX_URL_CHARS:
            raise InvalidParams("The URL is too long", data={"most": MAX_URL_CHARS})
        if len(self._asked) >= MAX_PAGES:
            log.warning("! a web page is not shown: the user is asked about %d", MAX_PAGES)
            return False
        self._asked.append(page)
        # The agent may say that it is done while the user is still asked.
        self._open.pop(page.id, None)
        self._open[page.id] = page, asyncio.get_running_loop().time() + PAGE_LIFETIME_S
        self._drop_old()
        return True

    def answered(self, page: UrlElicitationRequest, *, agreed: bool) -> None:
        """The user has decided."""
        self._asked.remove(page)
        if not agreed and self._open.get(page.id, (None,))[0] is page:
            del self._open[page.id]

    def complete(self, page_id: str) -> None:
        """The user is done with a page, the agent says; unknown ones are ignored."""
        if (known := self._open.pop(page_id, None)) is not None:
            known[0].done.set()

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        for page_id, (_, until) in tuple(self._open.items()):
            if until > now and len(self._open) <= MAX_PAGES:
                return
            del self._open[page_id]
