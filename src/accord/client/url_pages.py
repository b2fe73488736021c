"""The web pages that users are sent to: bounded in number, in time and in length."""

from __future__ import annotations

import asyncio
import logging

from accord.client.elicitation import WebPage
from accord.errors import InvalidParams

__all__ = ("MOST_PAGES", "MOST_URL_CHARS", "OPEN_S", "OpenPages")

log = logging.getLogger("accord.client")

MOST_PAGES = 32  # at a time, of all sessions of a connection
MOST_URL_CHARS = 8192  # browsers and servers take no more
OPEN_S = 3600.0  # for the agent to say that the user is done


class OpenPages:
    """The pages that a user is asked about, or has gone to and is not done with."""

    def __init__(self) -> None:
        self._asked: list[WebPage] = []
        self._open: dict[str, tuple[WebPage, float]] = {}  # until when, in the order they began

    def add(self, page: WebPage) -> bool:
        """Take a page before the user is asked; return False where there are too many.

        Raise the error for the agent when the address is too long.
        """
        if len(page.url) > MOST_URL_CHARS:
            raise InvalidParams("The URL is too long", data={"most": MOST_URL_CHARS})
        if len(self._asked) >= MOST_PAGES:
            log.warning("! a web page is not shown: the user is asked about %d", MOST_PAGES)
            return False
        self._asked.append(page)
        # The agent may say that it is done while the user is still asked.
        self._open.pop(page.id, None)
        self._open[page.id] = page, asyncio.get_running_loop().time() + OPEN_S
        self._drop_old()
        return True

    def answered(self, page: WebPage, *, agreed: bool) -> None:
        """The user has decided."""
        self._asked.remove(page)
        if not agreed and self._open.get(page.id, (None,))[0] is page:
            del self._open[page.id]

    def done(self, page_id: str) -> None:
        """The user is done with a page, the agent says; unknown ones are ignored."""
        if (known := self._open.pop(page_id, None)) is not None:
            known[0].done.set()

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        for page_id, (_, until) in tuple(self._open.items()):
            if until > now and len(self._open) <= MOST_PAGES:
                return
            del self._open[page_id]
