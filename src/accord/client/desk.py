"""What an agent tells and asks of a client, whatever version it speaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from accord.client.dialect import Setup
from accord.client.elicitation import Form, OnForm, OnUrl, Values, WebPage, why_wrong
from accord.client.events import Permission, PermissionRequest
from accord.client.feed import Feed, Read
from accord.client.files import FileServer
from accord.client.permissions import Policy, chain, choose
from accord.client.terminals import TerminalServer
from accord.errors import ResourceNotFound
from accord.model.permission import PermissionOption

__all__ = ("Desk",)

log = logging.getLogger("accord.client")

MOST_STRANGERS = 256  # sessions that nobody has opened here


class Desk:
    """The sessions of one connection, and who answers for them."""

    def __init__(
        self,
        permissions: Policy | Sequence[Policy] | None,
        *,
        files: FileServer | None = None,
        terminals: TerminalServer | None = None,
        on_form: OnForm | None = None,
        on_url: OnUrl | None = None,
    ) -> None:
        if permissions is None:
            permissions = ()
        elif callable(permissions):
            permissions = (permissions,)
        self._decide = chain(*permissions)
        self.feeds: dict[str, Feed] = {}
        self.setups: dict[str, Setup] = {}  # of the sessions that somebody has opened
        self.files = files or FileServer(None)
        self.terminals = terminals
        self.on_form = on_form
        self.on_url = on_url
        self._pages: dict[str, asyncio.Event] = {}

    def feed(self, session_id: str, read: Read) -> Feed:
        """Return what comes for a session, from before it is known here."""
        feed = self.feeds.get(session_id)
        if feed is None:
            feed = Feed(session_id, read)
            strangers = self.feeds.keys() - self.setups.keys()
            if len(strangers) >= MOST_STRANGERS:
                log.warning("! updates for more sessions than anybody has opened are dropped")
                return feed
            self.feeds[session_id] = feed
        return feed

    def setup(self, session_id: str) -> Setup:
        """Return where a session works; raise the error for the agent when nobody opened it."""
        setup = self.setups.get(session_id)
        if setup is None:
            raise ResourceNotFound("Unknown session", data={"sessionId": session_id})
        return setup

    async def leave(self, session_id: str) -> None:
        """End what runs for a session that is closed, and forget it."""
        if self.terminals is not None:
            await self.terminals.aclose(session_id)
        self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Forget a session that is not open."""
        self.feeds.pop(session_id, None)
        self.setups.pop(session_id, None)

    def end(self, error: BaseException) -> None:
        """The connection has ended."""
        for feed in self.feeds.values():
            feed.end(error)

    async def aclose(self) -> None:
        """End what runs here for the agent."""
        if self.terminals is not None:
            await self.terminals.aclose()

    async def fill_in(self, form: Form) -> tuple[str, Values | None]:
        """Return the action, `accept` with values, `decline` or `cancel`."""
        assert self.on_form is not None, "forms were not offered"
        try:
            values = await self.on_form(form)
        except Exception:
            log.exception("! the callback for forms failed")
            return "cancel", None
        if values is None:
            return "decline", None
        if (wrong := why_wrong(form, values)) is not None:
            log.error("! the answer to a form is not sent: %s", wrong)
            return "cancel", None
        return "accept", values

    async def visit(self, page: WebPage) -> str:
        """Return `accept` when the user goes to the page, `decline` or `cancel`."""
        assert self.on_url is not None, "web pages were not offered"
        self._pages[page.id] = page.done
        try:
            return "accept" if await self.on_url(page) else "decline"
        except Exception:
            log.exception("! the callback for web pages failed")
            return "cancel"

    def visited(self, page_id: str) -> None:
        """Tell whoever showed a page that the user is done; others are ignored (R-ELIC-30)."""
        if (done := self._pages.pop(page_id, None)) is not None:
            done.set()

    async def decide(self, feed: Feed, request: PermissionRequest) -> PermissionOption | None:
        """Return the option that is chosen, None when the request is cancelled."""
        option: PermissionOption | None = None
        try:
            option = choose(request.options, await self._decide(request) or "reject")
        except Exception:
            log.exception("! a permission policy failed; the request is rejected")
            option = choose(request.options, "reject")
        finally:
            self._tell(feed, Permission(request, option))
        return option

    @staticmethod
    def _tell(feed: Feed, event: Any) -> None:
        with feed.never_full():  # one event more is no flood
            feed.emit(event)
