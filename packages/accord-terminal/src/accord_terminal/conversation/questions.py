"""What a page sends: the content of prompts, and the answers to questions of the agent."""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import mimetypes
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accord.client.connect import ConnectedAgent
from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    FormValues,
    UrlElicitationRequest,
    form_error,
)
from accord.client.events import Decision, PermissionRequest
from accord.client.permissions import is_distinct
from accord.local.files import OutsideRoots, Roots, TooLarge
from accord.text.excerpt import one_line, visible
from accord.text.lenient_json import is_array, is_object
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
)
from accord_terminal.conversation.shown import bounded, tool_call_json


class ApiError(Exception):
    """A request of a page that cannot be served: an HTTP status, and a text for the user."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: int = status
        self.text: str = text


MAX_FILES = 20
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_EMBEDDED_BYTES = 1024 * 1024  # of a file by its path; a larger one is linked


async def prompt_contents(
    agent: ConnectedAgent, directories: Sequence[str], body: dict[str, Any]
) -> list[ContentBlock]:
    """Return the content of a prompt; raise `ApiError` for one that cannot be sent.

    A file by its path must be in one of the directories, with symbolic links resolved.
    """
    contents: list[ContentBlock] = []
    text = body.get("text")
    if isinstance(text, str) and text:
        contents.append(text)
    files = body.get("files", [])
    if not is_array(files) or len(files) > MAX_FILES:
        raise ApiError(400, f"files: expected a list of at most {MAX_FILES}")
    for number, file in enumerate(files):
        where = f"files[{number}]"
        if not is_object(file):
            raise ApiError(400, f"{where}: expected an object")
        if "path" in file:
            contents.append(await _by_path(agent, directories, file, where))
        else:
            contents.append(_uploaded(agent, file, where))
    if not contents:
        raise ApiError(400, "text: expected a text or a file")
    return contents


async def _by_path(
    agent: ConnectedAgent, directories: Sequence[str], file: dict[str, Any], where: str
) -> ContentBlock:
    given = str(file["path"])
    roots = Roots(directories)
    path = Path(directories[0], given)  # an absolute path stays
    try:
        resolved, size = await asyncio.to_thread(_resolved, roots, path)
    except OutsideRoots:
        raise ApiError(
            403, f"{where}.path: {one_line(given)} is not in the folder of the session"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ApiError(400, f"{where}.path: {one_line(given)}: {reason}") from None
    mime = mimetypes.guess_type(path.name)[0]
    link = ResourceLink(resolved.as_uri(), path.name, mime_type=mime, size=size)
    if file.get("as") != "content" or not agent.supports_content("resource"):
        return link
    try:
        content = await asyncio.to_thread(roots.read, str(path), max_bytes=MAX_EMBEDDED_BYTES)
    except (TooLarge, UnicodeDecodeError):
        return link
    except OSError as error:
        raise ApiError(400, f"{where}.path: {one_line(given)}: {error.strerror}") from None
    return EmbeddedResource(resolved.as_uri(), content, mime)


def _resolved(roots: Roots, path: Path) -> tuple[Path, int]:
    """Return the real path of a file, and its size."""
    real = Path(roots.resolve(str(path)))
    return real, real.stat().st_size


def _uploaded(agent: ConnectedAgent, file: dict[str, Any], where: str) -> ContentBlock:
    name, mime, data = file.get("name"), file.get("mime"), file.get("data")
    if not isinstance(name, str) or not isinstance(data, str):
        raise ApiError(400, f"{where}: expected `name` and `data`, or `path`")
    mime = mime if isinstance(mime, str) and mime else mimetypes.guess_type(name)[0]
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{where}.data: expected Base64") from None
    if len(content) > MAX_FILE_BYTES:
        raise ApiError(413, f"{where}: {one_line(name)} exceeds {MAX_FILE_BYTES >> 20} MB")
    uri = Path("/", name).as_uri().replace("file:///", "attachment:///", 1)
    for kind, block in (("image", ImageContent), ("audio", AudioContent)):
        if mime is not None and mime.startswith(f"{kind}/") and agent.supports_content(kind):
            return block(content, mime)
    if not agent.supports_content("resource"):
        raise ApiError(409, f"{where}: the agent takes no files, only their paths")
    try:
        return EmbeddedResource(uri, content.decode("utf-8"), mime)
    except UnicodeDecodeError:
        return EmbeddedResource(uri, content, mime)


MAX_ENDED = 20  # that are still shown


class Question:
    """One question. `read` returns the answer in the JSON of the page; it raises `ApiError`."""

    def __init__(
        self, number: int, session_id: str | None, shown: dict[str, Any], read: Callable[[Any], Any]
    ) -> None:
        self.number: int = number
        self.session_id: str | None = session_id
        self.shown: dict[str, Any] = shown
        self.read: Callable[[Any], Any] = read
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.ended: str | None = None  # why no answer is possible any more

    def json(self) -> dict[str, Any]:
        """Return the question for the page."""
        return {
            "number": self.number,
            "session": self.session_id,
            "ended": self.ended,
            **self.shown,
        }


_NOT_WAITING = "The agent does not wait for the answer any more"
_DISCONNECTED = "The connection to the agent has ended"


class Questions:
    """The questions of a connection, for all pages: the first answer counts.

    The three methods that ask are policies and callbacks of `accord.connect`.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._numbers = itertools.count(1)
        self._open: dict[int, Question] = {}
        self._ended: deque[Question] = deque(maxlen=MAX_ENDED)
        self.has_ended: Callable[[], bool] = lambda: False  # whether the connection has

    def json(self) -> list[dict[str, Any]]:
        """Return the questions that wait, and those that ended without an answer."""
        return [question.json() for question in (*self._ended, *self._open.values())]

    def waiting(self, session_id: str) -> int:
        """Return how many questions of a session wait."""
        return sum(question.session_id == session_id for question in self._open.values())

    def answer(self, number: int, answer: Any) -> None:
        """Answer a question; raise `ApiError` if it does not wait, or for an invalid answer."""
        question = self._open.get(number)
        if question is None or question.answer.done():
            raise ApiError(409, "This question does not wait for an answer any more")
        question.answer.set_result(question.read(answer))

    def disconnected(self, reason: str) -> None:
        """Tell why the questions ended that waited when the connection ended."""
        for question in self._ended:
            if question.ended == _DISCONNECTED:
                question.ended = f"{_DISCONNECTED}: {one_line(reason)}"
        self._changed()

    def dismiss(self, number: int) -> None:
        """Stop showing a question that has ended."""
        for question in list(self._ended):
            if question.number == number:
                self._ended.remove(question)
        self._changed()

    async def ask_permission(self, request: PermissionRequest) -> Decision:
        """Wait until the user chooses an option."""
        offered = request.options

        def read(answer: Any) -> Decision:
            option = answer.get("option") if is_object(answer) else None
            if option is None:
                return "cancel"
            if not isinstance(option, int) or not 0 <= option < len(offered):
                raise ApiError(400, f"option: expected a number from 0 to {len(offered) - 1}")
            return offered[option]

        call = request.tool_call
        shown: dict[str, Any] = {
            "kind": "permission",
            "title": one_line(request.title, 500),
            "description": bounded(request.description or "")["text"],
            "command": None if request.command is None else bounded(request.command),
            "cwd": one_line(request.cwd),
            "call": None if call is None else tool_call_json(call),
            "options": [
                {
                    "name": one_line(option.name, 200),
                    "kind": one_line(option.kind, 60),
                    "ambiguous": not is_distinct(option, offered),
                }
                for option in offered
            ],
        }
        return await self._ask(request.session_id, shown, read)

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Wait until the user fills in a form, or declines."""

        def read(answer: Any) -> FormValues | None:
            values = answer.get("values") if is_object(answer) else None
            if values is None:
                return None
            if not is_object(values):
                raise ApiError(400, "values: expected an object")
            if (wrong := form_error(form, values)) is not None:
                raise ApiError(400, f"values: {wrong}")
            return values

        shown = {
            "kind": "form",
            "title": one_line(form.title or "The agent asks for input", 500),
            "message": bounded(form.message)["text"],
            "description": bounded(form.description or "")["text"],
            "fields": [_field(field) for field in form.fields],
        }
        return await self._ask(form.session_id, shown, read)

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Wait until the user agrees to open a URL, or declines."""

        def read(answer: Any) -> bool:
            return is_object(answer) and answer.get("open") is True

        shown = {
            "kind": "url",
            "title": "The agent asks you to open an address",
            "message": bounded(page.message)["text"],
            "url": visible(page.url),
            "opens": page.url if page.url.lower().startswith(("http://", "https://")) else None,
        }
        return await self._ask(page.session_id, shown, read)

    async def _ask(
        self, session_id: str | None, shown: dict[str, Any], read: Callable[[Any], Any]
    ) -> Any:
        question = Question(next(self._numbers), session_id, shown, read)
        self._open[question.number] = question
        self._changed()
        try:
            return await question.answer
        except asyncio.CancelledError:
            question.ended = _DISCONNECTED if self.has_ended() else _NOT_WAITING
            self._ended.append(question)
            raise
        finally:
            del self._open[question.number]
            self._changed()


def _field(field: FormField) -> dict[str, Any]:
    return {
        "name": field.name,
        "kind": field.kind,
        "title": one_line(field.title, 200),
        "description": bounded(field.description or "")["text"],
        "required": field.required,
        "default": field.default,
        "choices": [
            {
                "value": choice.value,
                "name": one_line(choice.name, 200),
                "description": one_line(choice.description or ""),
            }
            for choice in field.choices
        ],
        "minimum": field.minimum,
        "maximum": field.maximum,
        "format": field.format,
    }
