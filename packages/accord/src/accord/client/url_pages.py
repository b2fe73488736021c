"""Open URL elicitations: bounded in number, in time and in the length of the URL."""

from __future__ import annotations

import asyncio
import logging

from accord.client.elicitation import UrlElicitationRequest
from accord.errors import InvalidParams

log: logging.Logger = logging.getLogger("accord.client")

MAX_PAGES = 32  # at a time, in all sessions of a connection
MAX_URL_CHARS = 8192  # the limit of many browsers and servers
PAGE_LIFETIME_S = 3600.0  # for the agent to report the completion


class OpenUrlElicitations:
    """The URLs that the user is asked to open, or has opened and not completed."""

    def __init__(self) -> None:
        self._asked: list[UrlElicitationRequest] = []
        self._open: dict[
            str, tuple[UrlElicitationRequest, float]
        ] = {}  # with their deadlines, oldest first

    def add(self, page: UrlElicitationRequest) -> bool:
        """Add a request before the user is asked; return False if there are too many.

        Raises `InvalidParams` if the URL is too long.
        """
        if len(page.url) > MAX_URL_CHARS:
            raise InvalidParams("The URL is too long", data={"max": MAX_URL_CHARS})
        if len(self._asked) >= MAX_PAGES:
            log.warning(
                "! a URL elicitation was cancelled: the user is being asked about %d others",
                MAX_PAGES,
            )
            return False
        self._asked.append(page)
        # The agent can report the completion while the user is still being asked.
        self._open.pop(page.id, None)
        self._open[page.id] = page, asyncio.get_running_loop().time() + PAGE_LIFETIME_S
        self._drop_old()
        return True

    def answered(self, page: UrlElicitationRequest, *, agreed: bool) -> None:
        """Record the decision of the user."""
        self._asked.remove(page)
        if not agreed and self._open.get(page.id, (None,))[0] is page:
            del self._open[page.id]

    def complete(self, page_id: str) -> None:
        """Set `done` of a request; an unknown id is ignored."""
        if (known := self._open.pop(page_id, None)) is not None:
            known[0].done.set()

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        for page_id, (_, until) in tuple(self._open.items()):
            if until > now and len(self._open) <= MAX_PAGES:
                return
            del self._open[page_id]
