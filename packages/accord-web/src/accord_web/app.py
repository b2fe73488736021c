"""The ASGI application of `accord web`: who may do what, the API, and one stream for each page.

A request needs the host name and the origin of this server, and the cookie of a device that was
paired; one that changes something is JSON from this page. Each page has one stream of events; a
journal is read while a page shows its session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from accord.errors import AccordError
from accord.remote.access import Access, Receive, Scope, Send, headers_of
from accord.text.excerpt import one_line
from accord_terminal.conversation import (
    ApiError,
    PageFiles,
    UnreadBody,
    body_of,
    changes_json,
    json_response,
    older_json,
    with_headers,
)
from accord_terminal.sessions.records import (
    Record,
    SessionsError,
    Store,
    StoreError,
    named_agent,
    new_record,
)
from accord_terminal.toolkit.agent_names import (
    SettingsError,
    load_settings,
    named_agents,
)
from accord_web.devices import ROLES, Device, Devices, Role, pairing_picture
from accord_web.live import DeviceSession
from accord_web.sessions import JournalLog, Overview

_logger: logging.Logger = logging.getLogger("accord.web")

PAGE: Path = Path(__file__).parent / "page"
_LOOK_S = 0.03  # between looks at the journals that pages show
_LIST_S = 1.0  # between looks at all sessions
_ALIVE_S = 15.0  # between signs of life on a stream
_LEAVES_S = 60.0  # after its last page, a device leaves its sessions
_MOST_FOLLOWED = 50  # sessions with an agent that runs, the last ones to be used
_MOST_PAGES = 100  # streams of all devices
_MOST_OF_DEVICE = 20
_COOKIE_S = 365 * 24 * 3600

_encode = msgspec.json.Encoder(enc_hook=str).encode


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator allows. `roots` are the folders below which sessions may be started."""

    roots: tuple[Path, ...] = ()
    agents: tuple[str, ...] = ()  # that may be started; empty: those of the settings
    public_url: str | None = None


class _Page:
    """One page that is open: its stream wakes when something has changed."""

    def __init__(self, device: Device, session: str) -> None:
        self.device = device
        self.session = session  # that it shows, or empty
        self.wake = asyncio.Event()
        self.is_over = False


class WebApp:
    """Serves the page and `/api/…` to devices that were paired."""

    def __init__(
        self, store: Store, devices: Devices, access: Access, settings: WebSettings
    ) -> None:
        self._store = store
        self._devices = devices
        self._access = access
        self._settings = settings
        self._overview = Overview(store)
        self._sessions: dict[tuple[int, str], DeviceSession] = {}
        self._unused: dict[tuple[int, str], float] = {}  # since when its device has no page
        self._pages: set[_Page] = set()
        self._watching: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._app = Starlette(
            routes=self._routes(),
            exception_handlers={ApiError: _api_error, HTTPException: _http_error},
        )

    # Access.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        body = UnreadBody(scope, receive, with_headers(send))
        app = self._refusal(scope) or self._app
        await app(scope, body.receive, body.send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return why a request is not served: its host, its origin, its form, or no device."""
        refused = self._access.check_origin(scope)
        if refused is not None:
            return JSONResponse({"error": refused.text}, refused.status)
        headers = headers_of(scope)
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            site = headers.get("sec-fetch-site", ["none"])
            kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
            if scope["method"] != "POST" or kind != "application/json":
                return JSONResponse({"error": "Expected a POST with application/json"}, 415)
            if site not in (["same-origin"], ["none"]):
                return JSONResponse({"error": "This request comes from another site"}, 403)
        elif path.startswith("/api/") and headers.get("sec-fetch-site", ["none"]) not in (
            ["same-origin"],
            ["none"],
        ):
            return JSONResponse({"error": "This request comes from another site"}, 403)
        if not path.startswith("/api/") or path == "/api/pair":
            return None
        device = self._device(scope)
        if device is None:
            text = "This browser is not paired: open the address that `accord web pair` prints"
            return JSONResponse({"error": text}, 401)
        scope["accord.device"] = device
        return None

    def _device(self, scope: Scope) -> Device | None:
        name = self._cookie(scope)
        for value in headers_of(scope).get("cookie", []):
            try:
                found = SimpleCookie(value).get(name)
            except CookieError:
                continue
            if found is not None and (device := self._devices.of_token(found.value)) is not None:
                return device
        return None

    def _is_secure(self, scope: Scope) -> bool:
        """Return whether the browser has reached this server by TLS, here or at its proxy."""
        if scope.get("scheme") == "https":
            return True
        public = urlsplit(self._settings.public_url or "")
        host = headers_of(scope).get("host", [""])[0]
        return public.scheme == "https" and host.lower() == public.netloc.lower()

    def _cookie(self, scope: Scope) -> str:
        if self._is_secure(scope):
            return "__Host-accord_web"
        server = scope.get("server")  # browsers send a cookie to all ports of a host
        return f"accord_web_{server[1] if server else 0}"

    # The end.

    async def drain(self, timeout_s: float) -> None:
        """End the streams of all pages, and leave the sessions, which go on."""
        await self.disconnect(timeout_s)

    async def disconnect(self, timeout_s: float) -> None:
        """End the streams of all pages, and leave the sessions, which go on."""
        self._ended.set()
        for page in self._pages:
            page.is_over = True
            page.wake.set()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await asyncio.gather(*(session.aclose() for session in self._sessions.values()))
        self._sessions.clear()

    # What changes.

    async def _watch(self) -> None:
        """Look at the journals that pages show, and at all sessions, while pages are open."""
        loop = asyncio.get_running_loop()
        next_list = 0.0
        while self._pages or self._sessions:
            now = loop.time()
            try:
                if now >= next_list:
                    next_list = now + _LIST_S
                    if await self._overview.look():
                        self._wake_all()
                    await self._follow_running()
                    await self._leave_unused(now)
                for session_id in {page.session for page in self._pages if page.session}:
                    await self._look_at(session_id)
            except (AccordError, OSError):
                _logger.exception("! cannot look at the sessions")
            await asyncio.sleep(_LOOK_S)

    async def _follow_running(self) -> None:
        """Let the agents that run ask the devices whose page is open, at any address of it."""
        devices = {page.device.number: page.device for page in self._pages}
        for device in devices.values():
            if device.may("answer"):
                for session_id in self._overview.owned[:_MOST_FOLLOWED]:
                    with suppress(ApiError):
                        (await self._session(device, session_id)).follow()

    async def _look_at(self, session_id: str) -> None:
        pages = [page for page in self._pages if page.session == session_id]
        for page in pages:
            key = (page.device.number, session_id)
            if key in self._sessions:
                self._sessions[key].follow()
        for log in {s.journal for s in self._sessions.values() if s.record.id == session_id}:
            try:
                changed = await log.refresh()
            except ApiError:
                continue  # the page asks for the session and gets the error
            if changed:
                for page in pages:
                    page.wake.set()

    def _wake_all(self) -> None:
        for page in self._pages:
            page.wake.set()

    async def _leave_unused(self, now: float) -> None:
        present = {page.device.number for page in self._pages}
        for key, session in list(self._sessions.items()):
            if key[0] in present or session.is_busy:
                self._unused.pop(key, None)
            elif now - self._unused.setdefault(key, now) > _LEAVES_S:
                del self._sessions[key], self._unused[key]
                await session.aclose()

    # Sessions.

    def _record(self, session_id: str) -> Record:
        main = session_id.partition("/")[0]
        if not Store.is_id(main):
            raise ApiError(404, f"Unknown session {one_line(session_id, 100)}")
        try:
            return self._store.read(main)
        except StoreError as error:
            text = "This session is not there any more: it was deleted"
            raise ApiError(404, text if "Unknown" in str(error) else str(error)) from None

    async def _journal(self, session_id: str) -> JournalLog:
        log = self._overview.log_of(self._record(session_id))
        await log.refresh()
        return log

    async def _session(self, device: Device, session_id: str) -> DeviceSession:
        """Return a device's part in a session."""
        main = session_id.partition("/")[0]
        journal = await self._journal(main)
        key = (device.number, main)
        found = self._sessions.get(key)
        if found is None:
            found = DeviceSession(device, journal, self._store, self._wake_all)
            self._sessions[key] = found
            self._watch_on()
        return found

    def _watch_on(self) -> None:
        if self._ended.is_set():
            raise ApiError(503, "The server stops")
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="accord web watch")

    # The stream of a page.

    async def _live(self, request: Request) -> Response:
        device: Device = request.scope["accord.device"]
        session = request.query_params.get("session", "").partition("/")[0]
        of_device = sum(page.device.number == device.number for page in self._pages)
        if len(self._pages) >= _MOST_PAGES or of_device >= _MOST_OF_DEVICE:
            raise ApiError(429, "Too many pages are open: close one")
        page = _Page(device, session)
        self._pages.add(page)
        try:
            self._watch_on()
        except ApiError:
            self._pages.discard(page)
            raise
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(page), media_type="text/event-stream", headers=headers
        )

    async def _events(self, page: _Page) -> AsyncIterator[bytes]:
        sent: dict[str, bytes] = {}
        try:
            yield b"retry: 1000\n\n"
            while not page.is_over:
                page.wake.clear()
                if page.device.number not in {one.number for one in self._devices.all()}:
                    yield b"event: revoked\ndata: {}\n\n"
                    return
                for name, value in (await self._states(page)).items():
                    data = _encode(value)
                    if sent.get(name) != data:
                        sent[name] = data
                        yield b'data: {"' + name.encode() + b'":' + data + b"}\n\n"
                try:
                    async with asyncio.timeout(_ALIVE_S):
                        await page.wake.wait()
                except TimeoutError:
                    yield b"event: alive\ndata: {}\n\n"
        finally:
            self._pages.discard(page)

    async def _states(self, page: _Page) -> dict[str, Any]:
        found: dict[str, Any] = {"sessions": self._overview.lines}
        if page.session:
            try:
                session = await self._session(page.device, page.session)
                session.follow()
                listed = {line["id"]: line for line in self._overview.lines}
                found["conversation"] = session.json(listed.get(page.session, {}))
            except ApiError as error:
                found["conversation"] = {"session": page.session, "error": error.text}
        return found

    # The API.

    def _routes(self) -> list[BaseRoute]:
        files = PageFiles(PAGE)

        async def index(_request: Request) -> Response:
            return files.index()

        async def manifest(_request: Request) -> Response:
            text = (PAGE / "manifest.webmanifest").read_bytes()
            return Response(text, media_type="application/manifest+json")

        async def worker(_request: Request) -> Response:
            text = (PAGE / "offline.js").read_bytes()
            return Response(text, media_type="text/javascript")

        return [
            Route("/api/pair", self._pair, methods=["POST"]),
            Route("/api/me", self._me),
            Route("/api/live", self._live),
            Route("/api/search", self._search),
            Route("/api/conversation/session", self._changes),
            Route("/api/conversation/{action}", self._act, methods=["POST"]),
            Route("/api/new", self._new, methods=["POST"]),
            Route("/api/devices", self._list_devices),
            Route("/api/devices/pair", self._new_code, methods=["POST"]),
            Route("/api/devices/revoke", self._revoke, methods=["POST"]),
            Route("/api/{rest:path}", _unknown, methods=["GET", "POST"]),
            Route("/manifest.webmanifest", manifest),
            Route("/offline.js", worker),
            Mount("/page", files),
            Route("/{rest:path}", index, methods=["GET"]),
        ]

    async def _pair(self, request: Request) -> Response:
        body = await body_of(request)
        code, name = body.get("code"), body.get("name")
        if not isinstance(code, str) or not isinstance(name, str):
            raise ApiError(400, "Expected `code` and `name`")
        device, token = self._devices.pair(code, name)
        _logger.info("+ paired %s as %s", device.name, device.role)
        response = json_response({"name": device.name, "role": device.role})
        secure = "; Secure" if self._is_secure(request.scope) else ""
        response.headers["Set-Cookie"] = (
            f"{self._cookie(request.scope)}={token}; Path=/; HttpOnly; SameSite=Strict; "
            f"Max-Age={_COOKIE_S}{secure}"
        )
        return response

    async def _me(self, request: Request) -> Response:
        device: Device = request.scope["accord.device"]
        agents: Sequence[str] = ()
        with suppress(SettingsError):
            agents = self._settings.agents or [*named_agents(load_settings())]
        return json_response(
            {
                "name": device.name,
                "number": device.number,
                "role": device.role,
                "roots": [str(root) for root in self._settings.roots],
                "agents": [one_line(name, 100) for name in agents],
            }
        )

    async def _search(self, request: Request) -> Response:
        """Find sessions by their texts: each with the entries that have all words."""
        words = request.query_params.get("text", "").casefold().split()[:10]
        if not words:
            raise ApiError(400, "text: expected words")
        found: list[dict[str, Any]] = []
        await self._overview.look()
        for line in self._overview.lines:
            log = (await self._journal(line["id"])).log
            for entry in reversed(log.entries):
                text = entry.value.text if entry.kind == "message" else ""
                if entry.kind == "tool":
                    text = entry.value.title
                folded = text.casefold()
                if text and all(word in folded for word in words):
                    at = max(folded.find(words[0]) - 40, 0)
                    found.append(
                        {
                            "session": line["id"],
                            "title": line["title"],
                            "entry": entry.id,
                            "text": one_line(text[at : at + 200], 200),
                        }
                    )
                    break
            await asyncio.sleep(0)
        return json_response({"found": found[:100]})

    async def _changes(self, request: Request) -> Response:
        params = request.query_params
        session_id = params.get("session", "")
        log = (await self._journal(session_id)).find(session_id)
        if "before" in params:
            return json_response(older_json(log, _number(params["before"])))
        known = {name: _number(params.get(name, "-1")) for name in ("since", "epoch", "first")}
        return json_response(changes_json(log, **known))

    async def _act(self, request: Request) -> Response:
        device: Device = request.scope["accord.device"]
        action = _ACTIONS.get(request.path_params["action"])
        if action is None:
            raise ApiError(404, f"Unknown address {request.url.path}")
        role, work = action
        _require(device, role)
        body = await body_of(request)
        session_id = body.get("session")
        if not isinstance(session_id, str):
            raise ApiError(400, "session: expected a string")
        session = await self._session(device, session_id)
        result = await work(session, body)
        self._wake_all()
        return json_response({"result": result})

    async def _new(self, request: Request) -> Response:
        """Make a session of an agent in a folder below the roots; its prompt starts the agent."""
        device: Device = request.scope["accord.device"]
        _require(device, "full")
        body = await body_of(request)
        agent, text = body.get("agent"), body.get("text")
        if not isinstance(agent, str) or not isinstance(text, str) or not text.strip():
            raise ApiError(400, "Expected `agent` and `text`")
        if self._settings.agents and agent not in self._settings.agents:
            known = ", ".join(self._settings.agents)
            raise ApiError(403, f"agent: expected one of {known}, got {one_line(agent, 100)}")
        mode = body.get("mode")
        folder = self._folder(body.get("folder"))
        try:
            record = new_record(
                None,
                folder,
                named_agent(agent),
                mode=mode if isinstance(mode, str) and mode else None,
            )
            record = replace(record, name=self._free_name(text, record))
            record, _ = self._store.find_or_create(record)
        except SessionsError as error:
            raise ApiError(400, one_line(str(error))) from None
        session = await self._session(device, record.id)
        await session.prompt({"text": text})
        return json_response({"session": record.id})

    def _free_name(self, text: str, record: Record) -> str:
        base = " ".join(text.split())[:48].strip().lstrip("-") or "task"
        taken = {one.name for one in self._store if not one.closed and one.cwd == record.cwd}
        name, number = base, 2
        while name in taken:
            name, number = f"{base} {number}", number + 1
        return one_line(name, 60)

    def _folder(self, given: object) -> Path:
        if not isinstance(given, str) or not given:
            raise ApiError(400, "folder: expected a path")
        if not self._settings.roots:
            raise ApiError(403, "No folder is open for new sessions: `accord web --root FOLDER`")
        try:
            folder = Path(given).resolve(strict=True)
        except (OSError, ValueError):
            raise ApiError(400, f"folder: {one_line(given)} is not a folder") from None
        if not any(folder.is_relative_to(root.resolve()) for root in self._settings.roots):
            raise ApiError(403, f"folder: {one_line(given)} is not below a folder of --root")
        if not folder.is_dir():
            raise ApiError(400, f"folder: {one_line(given)} is not a folder")
        return folder

    async def _list_devices(self, request: Request) -> Response:
        _require(request.scope["accord.device"], "full")
        return json_response({"devices": [msgspec.structs.asdict(d) for d in self._devices.all()]})

    async def _new_code(self, request: Request) -> Response:
        """Return a code for another device, as an address and a picture."""
        device: Device = request.scope["accord.device"]
        _require(device, "full")
        role = (await body_of(request)).get("role", "answer")
        if role not in ROLES:
            raise ApiError(400, f"role: expected one of {', '.join(ROLES)}")
        base = self._settings.public_url or str(request.base_url)
        address = f"{base.rstrip('/')}/pair#{self._devices.new_code(role)}"
        return json_response({"address": address, "picture": pairing_picture(address)})

    async def _revoke(self, request: Request) -> Response:
        _require(request.scope["accord.device"], "full")
        number = (await body_of(request)).get("number")
        if not isinstance(number, int) or not self._devices.revoke(number):
            raise ApiError(404, "No device has this number")
        for key, session in list(self._sessions.items()):
            if key[0] == number:
                del self._sessions[key]
                await session.aclose()
        self._wake_all()
        return json_response({})


_Action: TypeAlias = Callable[[DeviceSession, Mapping[str, Any]], Awaitable[Any]]
_ACTIONS: dict[str, tuple[Role, _Action]] = {
    "answer": ("answer", DeviceSession.answer),
    "prompt": ("full", DeviceSession.prompt),
    "steer": ("full", DeviceSession.steer),
    "cancel": ("answer", DeviceSession.cancel),
    "withdraw": ("full", DeviceSession.withdraw),
    "option": ("full", DeviceSession.option),
    "cancel-tool-call": ("answer", DeviceSession.cancel_tool_call),
    "close": ("full", DeviceSession.close),
}


def _require(device: Device, role: Role) -> None:
    if not device.may(role):
        raise ApiError(403, f"The role of this device is {device.role}: this needs {role}")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, f"Expected a whole number, got {one_line(text, 60)!r}") from None


async def _unknown(request: Request) -> Response:
    raise ApiError(404, f"Unknown address {request.url.path}")


async def _api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse({"error": error.text}, error.status)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
