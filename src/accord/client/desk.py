"""What an agent tells and asks of a client, whatever version it speaks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from accord.client.events import Permission, PermissionRequest
from accord.client.feed import Feed, Read
from accord.client.permissions import Policy, chain, choose
from accord.model.permission import PermissionOption

__all__ = ("Desk",)

log = logging.getLogger("accord.client")

MOST_STRANGERS = 256  # sessions that nobody has opened here


class Desk:
    """The sessions of one connection, and who answers for them."""

    def __init__(self, permissions: Policy | Sequence[Policy] | None) -> None:
        if permissions is None:
            permissions = ()
        elif callable(permissions):
            permissions = (permissions,)
        self._decide = chain(*permissions)
        self.feeds: dict[str, Feed] = {}
        self.cwds: dict[str, str] = {}

    def feed(self, session_id: str, read: Read) -> Feed:
        """Return what comes for a session, from before it is known here."""
        feed = self.feeds.get(session_id)
        if feed is None:
            feed = Feed(session_id, read)
            strangers = self.feeds.keys() - self.cwds.keys()
            if len(strangers) >= MOST_STRANGERS:
                log.warning("! updates for more sessions than anybody has opened are dropped")
                return feed
            self.feeds[session_id] = feed
        return feed

    def forget(self, session_id: str) -> None:
        """Drop a session that is closed."""
        self.feeds.pop(session_id, None)
        self.cwds.pop(session_id, None)

    def end(self, error: BaseException) -> None:
        """The connection has ended."""
        for feed in self.feeds.values():
            feed.end(error)

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
