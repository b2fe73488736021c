"""What an agent tells and asks of a client, whatever version it speaks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from accord.client.agent_adapter import Setup
from accord.client.elicitation import Form, OnForm, OnUrl, Values, WebPage, why_wrong
from accord.client.event_stream import Feed, Read
from accord.client.events import Permission, PermissionRequest, Subagent
from accord.client.files import FileServer, within
from accord.client.permissions import Policy, chain, choose, policies_of
from accord.client.terminals import TerminalServer
from accord.client.url_pages import OpenPages
from accord.connection.flood_log import FloodLog
from accord.errors import MethodNotFound, ResourceNotFound
from accord.rules.quirks import tolerates
from accord.types.auth import LoginStatus
from accord.types.permission import PermissionOption

__all__ = ("Desk", "Extension")

log = logging.getLogger("accord.client")

# Takes params and returns a result, or nothing where no answer is wanted: all of it plain JSON.
Extension: TypeAlias = Callable[[Any], Any | Awaitable[Any]]

MOST_STRANGERS = 256  # sessions that are not open here
MOST_LEVELS = 64  # of subagents of subagents


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
        on_login: Callable[[LoginStatus], None] | None = None,
        extensions: Mapping[str, Extension] | None = None,
        unstable: bool = False,
        terminal_login: bool = False,
    ) -> None:
        self._decide = chain(*policies_of(permissions))
        self.feeds: dict[str, Feed] = {}
        self.setups: dict[str, Setup] = {}  # of the sessions that are open
        self._strangers: set[str] = set()  # feeds of sessions that are not open
        self._parents: dict[str, str] = {}  # of subagents
        self.files = files or FileServer(None)
        self.terminals = terminals
        self.on_form = on_form
        self.on_url = on_url
        self.unstable = unstable
        self._log = FloodLog(log)
        self.terminal_login = terminal_login
        self._on_login = on_login
        self._extensions = dict(extensions or {})
        for name in self._extensions:
            if not name.startswith("_"):
                raise ValueError(f"The name of an extension begins with an underscore: {name!r}")
        self._pages = OpenPages()

    def open(self, session_id: str, setup: Setup, read: Read, *, afresh: bool = False) -> Feed:
        """Open a session; `afresh` forgets what came for it before."""
        feed = None if afresh else self.feeds.get(session_id)
        if feed is None:
            before = self.feeds.get(session_id)
            feed = self._new_feed(session_id, read)
            if before is not None:
                before.release()
        self.setups[session_id] = setup
        self._strangers.discard(session_id)
        return feed

    @tolerates("updates-before-session")
    def feed(self, session_id: str, read: Read) -> Feed:
        """Return the feed of a session, which may not be open yet."""
        feed = self.feeds.get(session_id)
        if feed is not None:
            return feed
        if len(self._strangers) >= MOST_STRANGERS and self._opened_by(session_id) is None:
            self._log.log(logging.WARNING, "! dropped updates: too many sessions that are not open")
            return Feed(session_id, read)
        self._strangers.add(session_id)
        return self._new_feed(session_id, read)

    def _new_feed(self, session_id: str, read: Read) -> Feed:
        feed = self.feeds[session_id] = Feed(session_id, read)
        feed.on_subagent = partial(self._adopt, session_id)
        return feed

    def _adopt(self, parent: str, child: str) -> None:
        self._parents[child] = parent

    def setup(self, session_id: str) -> Setup:
        """Return where a session works; raise the error for the agent if it is not open."""
        setup = self.where(session_id)
        if setup is None:
            raise ResourceNotFound("Unknown session", data={"sessionId": session_id})
        return setup

    def where(self, session_id: str) -> Setup | None:
        """Return where a session works; a subagent has of its parent what it was not given."""
        found = self._opened_by(session_id)
        if found is None:
            return None
        setup, subagents = found
        for child in subagents:
            roots = setup.roots if child.roots is None else child.roots  # R-SUBAG-09
            setup = within(Setup(cwd=child.cwd or setup.cwd, roots=roots), setup)
        return setup

    def _opened_by(self, session_id: str) -> tuple[Setup, list[Subagent]] | None:
        """Return the setup of the open session above a subagent, and the subagents down to it."""
        subagents: list[Subagent] = []
        while (setup := self.setups.get(session_id)) is None:
            parent = self.feeds.get(self._parents.get(session_id, ""))
            child = None if parent is None else parent.transcript.subagents.get(session_id)
            if parent is None or child is None or len(subagents) >= MOST_LEVELS:
                return None
            subagents.append(child)
            session_id = parent.session_id
        return setup, subagents[::-1]

    async def leave(self, session_id: str) -> None:
        """End what runs for a session that is closed, and forget it."""
        if self.terminals is not None:
            await self.terminals.aclose(session_id)
        self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Forget a session that is not open, and its subagents."""
        self.setups.pop(session_id, None)
        leaving = [session_id]
        while leaving:
            gone = leaving.pop()
            self._strangers.discard(gone)
            feed = self.feeds.pop(gone, None)
            if feed is not None:
                feed.release()
            for child in () if feed is None else feed.transcript.subagents:
                if self._parents.get(child) == gone:
                    del self._parents[child]
                if child not in self.setups:
                    leaving.append(child)

    def reads_others(self, full: set[Any]) -> bool:
        """Tell whether a session keeps up, other than these, whose consumers are behind."""
        return any(
            feed.session_id not in full or (feed.queue is not None and not feed.full)
            for feed in self.feeds.values()
        )

    def end(self, error: BaseException) -> None:
        """The connection has ended."""
        for feed in self.feeds.values():
            feed.end(error)

    async def aclose(self) -> None:
        """End what runs here for the agent."""
        if self.terminals is not None:
            await self.terminals.aclose()

    def login_changed(self, status: LoginStatus) -> None:
        """Somebody has logged in to the agent, or out."""
        if self._on_login is not None:
            self._on_login(status)

    def extension(self, method: str, params: Any, *, is_request: bool) -> Any:
        """Serve a method of somebody's own."""
        handle = self._extensions.get(method)
        if handle is not None:
            return handle(params)
        if is_request:
            raise MethodNotFound(data={"method": method})
        return None

    async def fill_in(self, form: Form) -> tuple[str, Values | None]:
        """Return the action, `accept` with values, `decline` or `cancel`."""
        assert self.on_form is not None, "forms were not offered"
        try:
            values = await self.on_form(form)
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! the callback for forms failed", exc=exc)
            return "cancel", None
        if values is None:
            return "decline", None
        if (wrong := why_wrong(form, values)) is not None:
            self._log.log(logging.ERROR, "! the answer to a form is not sent: %s", wrong)
            return "cancel", None
        return "accept", values

    async def visit(self, page: WebPage) -> str:
        """Return `accept` when the user goes to the page, `decline` or `cancel`."""
        assert self.on_url is not None, "web pages were not offered"
        if not self._pages.add(page):
            return "cancel"
        agreed = False
        try:
            agreed = await self.on_url(page)
            return "accept" if agreed else "decline"
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! the callback for web pages failed", exc=exc)
            return "cancel"
        finally:
            self._pages.answered(page, agreed=agreed)

    def visited(self, page_id: str) -> None:
        """Tell whoever showed a page that the user is done; others are ignored (R-ELIC-30)."""
        self._pages.done(page_id)

    async def decide(self, feed: Feed, request: PermissionRequest) -> PermissionOption | None:
        """Return the option that is chosen, None when the request is cancelled."""
        option: PermissionOption | None = None
        try:
            option = choose(request.options, await self._decide(request) or "reject")
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception(
                "! a permission policy failed; the request is rejected: %s", exc, exc=exc
            )
            option = choose(request.options, "reject")
        finally:
            self._tell(feed, Permission(request, option))
        return option

    @staticmethod
    def _tell(feed: Feed, event: Any) -> None:
        feed.emit(event)
