"""What a client gives to a session: MCP servers, files, model, mode and options.

A session is opened as a new or a stored one; the latest one of a directory is remembered for agents
that cannot list their sessions.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec
from platformdirs import user_state_path

from accord.errors import AccordError, AuthRequired, NotOffered, RequestError, ResourceNotFound
from accord.text import lenient_json
from accord.types.content import ContentBlock, EmbeddedResource, ImageContent, ResourceLink
from accord.types.mcp import McpServer, McpServerHttp, McpServerSse, McpServerStdio
from accord.types.session import SelectOption, SessionOption
from accord_terminal.toolkit.text import one_line

if TYPE_CHECKING:
    from accord.client.agent_adapter import SessionInfo
    from accord.client.connect import ConnectedAgent
    from accord.client.session import ClientSession

# Reads a file of MCP servers, in the format that most editors and agents share.

MAX_BYTES = 1024 * 1024
_KINDS = ("stdio", "http", "streamable-http", "sse")


class McpFileError(AccordError):
    """The file cannot be read, or is not a file of MCP servers."""


def read_mcp_file(file: Path) -> tuple[McpServer, ...]:
    """Return the servers in the object `mcpServers`, except those with `"disabled": true`.

    Programs are looked up on PATH, because agents expect absolute paths. Raises `McpFileError`,
    which names the file, the server and the key.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        raise McpFileError(f"Cannot read {file}: {exc.strerror}") from None
    return mcp_servers(data, str(file))


def mcp_servers(data: str | bytes, source: str) -> tuple[McpServer, ...]:
    """Return the servers in the text of such a file; errors name the source."""
    if len(data) > MAX_BYTES:
        raise McpFileError(f"{source}: expected at most {MAX_BYTES} bytes")
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise McpFileError(f"{source}: expected JSON: {exc}") from None
    servers: Any = document.get("mcpServers") if lenient_json.is_object(document) else None
    if not lenient_json.is_object(servers):
        raise McpFileError(f'{source}: expected an object with the key "mcpServers"')
    enabled: list[McpServer] = []
    for name, entry in servers.items():
        where = f"{source}: mcpServers.{name}"
        if not lenient_json.is_object(entry):
            raise McpFileError(f"{where}: expected an object, got {type(entry).__name__}")
        if entry.get("disabled") is not True:
            enabled.append(_server(name, entry, where))
    return tuple(enabled)


def _server(name: str, entry: dict[str, Any], where: str) -> McpServer:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind not in _KINDS:
        raise McpFileError(f"{where}.type: expected one of {', '.join(_KINDS)}, got {kind!r}")
    if kind == "stdio":
        command = _require_string(entry, "command", where)
        args = entry.get("args", [])
        if not (lenient_json.is_array(args) and all(isinstance(word, str) for word in args)):
            raise McpFileError(f"{where}.args: expected an array of strings")
        program = shutil.which(command)
        if program is None:
            raise McpFileError(f"{where}.command: program not found: {command!r}")
        return McpServerStdio(
            name,
            str(Path(program).absolute()),
            tuple(map(str, args)),
            _require_strings(entry, "env", where),
        )
    url = _require_string(entry, "url", where)
    headers = _require_strings(entry, "headers", where)
    return McpServerSse(name, url, headers) if kind == "sse" else McpServerHttp(name, url, headers)


def _require_string(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise McpFileError(f"{where}.{key}: expected a string")
    return value


def _require_strings(entry: dict[str, Any], key: str, where: str) -> dict[str, str]:
    value: Any = entry.get(key, {})
    if not (
        lenient_json.is_object(value) and all(isinstance(text, str) for text in value.values())
    ):
        raise McpFileError(f"{where}.{key}: expected an object of strings")
    return {str(name): str(text) for name, text in value.items()}


# The type of an image by its first bytes: names and declared types can be wrong.

HEAD_BYTES = 16  # enough for `image_type`
MAX_IMAGE_BYTES = 10 * 1024 * 1024  # of an image that is sent
EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/bmp": "bmp",
}


def image_type(head: bytes) -> str | None:
    """Return the MIME type of an image that models and terminals show; None for other data."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith(b"BM") and len(head) > 6 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return None


# Attaches files to a prompt: embedded if the agent supports that, else as links.

MAX_FILE_BYTES = 256 * 1024  # larger files are linked; images may be larger


def attached_content(agent: ConnectedAgent, files: Iterable[Path]) -> Iterator[ContentBlock]:
    """Yield the content blocks for these files."""
    for file in files:
        yield _content(agent, file.absolute())


def _content(agent: ConnectedAgent, path: Path) -> ContentBlock:
    import mimetypes  # slow, and rarely needed

    size = path.stat().st_size
    with path.open("rb") as file:
        image = image_type(file.read(HEAD_BYTES))
    mime_type = image or mimetypes.guess_type(path.name)[0]
    link = ResourceLink(path.as_uri(), path.name, mime_type=mime_type, size=size)
    if image is not None:
        if size > MAX_IMAGE_BYTES or not agent.supports_content("image"):
            return link
        return ImageContent(path.read_bytes(), image, path.as_uri())
    if size > MAX_FILE_BYTES or not agent.supports_content("resource"):
        return link
    try:
        return EmbeddedResource(path.as_uri(), path.read_text("utf-8"), mime_type)
    except UnicodeDecodeError:
        return link


# Remembers the latest session of a directory, for agents that cannot list their sessions.

_FILE = "sessions.json"
_MAX_SESSIONS = 500  # the latest ones

_Entry = tuple[str, str, str]  # agent name, directory, session id


def remembered_session(agent: ConnectedAgent, cwd: Path) -> str | None:
    """Return the id of the session that was last opened with this agent in this directory."""
    for name, folder, session_id in reversed(_read()):
        if (name, folder) == (agent.info.name, str(cwd)):
            return session_id
    return None


def remember_session(agent: ConnectedAgent, cwd: Path, session_id: str) -> None:
    """Store the id of a session, if the agent can load sessions but cannot list them."""
    can_load = agent.supports("load_session") or agent.supports("resume_session")
    if agent.supports("list_sessions") or not can_load:
        return
    place = (agent.info.name, str(cwd))
    entries = [entry for entry in _read() if entry[:2] != place]
    entries.append((*place, session_id))
    with contextlib.suppress(OSError):  # a read-only home directory
        _write(entries[-_MAX_SESSIONS:])


def _path() -> Path:
    return user_state_path("accord", appauthor=False) / _FILE


def _read() -> list[_Entry]:
    try:
        return msgspec.json.decode(_path().read_bytes(), type=list[_Entry])
    except (OSError, msgspec.MsgspecError):
        return []


def _write(entries: list[_Entry]) -> None:
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{_FILE}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(entries))
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


_ON = {"true": True, "on": True, "yes": True, "1": True}
_OFF = {"false": False, "off": False, "no": False, "0": False}
# For an agent that has only the demonstration model.
_NEEDS_KEY = (
    "; other models need the API key of their provider, such as OPENAI_API_KEY, "
    "in the agent's environment"
)


async def open_session(
    agent: ConnectedAgent,
    cwd: Path,
    *,
    session_id: str | None,
    latest: bool,
    mcp_servers: Sequence[McpServer] = (),
    meta: dict[str, Any] | None = None,
) -> ClientSession:
    """Open the session with this id, the latest one of the directory, or a new one."""
    if latest:
        session_id = await _latest_session_id(agent, cwd)
    if session_id is None:
        session = await agent.new_session(cwd, mcp_servers=mcp_servers, meta=meta)
    else:
        session = await _load_session(agent, cwd, session_id, mcp_servers, meta)
    remember_session(agent, cwd, session.id)
    return session


async def _latest_session_id(agent: ConnectedAgent, cwd: Path) -> str:
    if agent.supports("list_sessions"):
        sessions = [session async for session in agent.list_sessions(cwd)]
        if not sessions:
            raise click.UsageError(f"The agent has no session to continue in {cwd}")
        return max(sessions, key=_updated_at).id
    if not (agent.supports("load_session") or agent.supports("resume_session")):
        raise click.UsageError("The agent does not support stored sessions")
    session_id = remembered_session(agent, cwd)
    if session_id is None:
        raise click.UsageError(
            f"The agent cannot list its sessions, and no session was opened in {cwd} before: use "
            "--session ID"
        )
    return session_id


async def _load_session(
    agent: ConnectedAgent,
    cwd: Path,
    session_id: str,
    mcp_servers: Sequence[McpServer],
    meta: dict[str, Any] | None,
) -> ClientSession:
    try:
        return await agent.load_session(
            session_id, cwd, mcp_servers=mcp_servers, meta=meta, replay=False
        )
    except NotOffered:
        raise click.UsageError("The agent does not support stored sessions") from None
    except ResourceNotFound as exc:
        raise ResourceNotFound(f"The agent has no session {session_id!r}") from exc


async def apply_session_options(
    session: ClientSession, *, model: str | None, mode: str | None, options: Sequence[str]
) -> None:
    """Set the model, the mode and other options of a session.

    For an unknown option or value, raises `click.UsageError` that lists the valid ones.
    """
    if model is not None:
        option = option_of(session.transcript.options, "model")
        if option is None:
            raise click.UsageError("--model: the agent has no option for the model")
        await _set_option(session, option, model, "--model")
    if mode is not None:
        option = session.transcript.mode_option
        if option is None:
            raise click.UsageError("--mode: the agent has no modes")
        await _set_option(session, option, mode, "--mode")
    for assignment in options:
        name, _, value = assignment.partition("=")
        known = {option.id: option for option in session.transcript.options}
        if name not in known:
            raise click.UsageError(
                f"--option: expected one of {_join_names(known)}, got {name!r}"
                if known
                else "--option: the agent has no options"
            )
        await _set_option(session, known[name], value, f"--option {name}")


class RestoredOptions(NamedTuple):
    """What `restore_session_options` has done, in words."""

    restored: list[str]
    failed: list[str]
    lost_mode: str  # the one of `failed` that is about the mode; empty if there is none
    not_set: dict[str, str | bool]  # the values of `failed`, by id


def option_values(options: Iterable[SessionOption]) -> dict[str, str | bool]:
    """Return the values of options by id, for `restore_session_options`."""
    return {option.id: option.value for option in options}


def mode_option_id(session: ClientSession, before: str = "") -> str:
    """Return the id of the option for the mode; `before`, or "mode", if there is none now."""
    mode = session.transcript.mode_option
    return (before or "mode") if mode is None else mode.id


async def restore_session_options(
    session: ClientSession, values: Mapping[str, str | bool], mode_id: str = ""
) -> RestoredOptions:
    """Set the options of a session to the values that they had before its agent was started again.

    Agents load a session with their default values: one that was read-only could then write.
    `mode_id` was the option for the mode; an agent may not offer it now. Raises `AuthRequired`.
    """
    mode_id = mode_option_id(session, mode_id)
    done = RestoredOptions([], [], "", {})
    # The mode is the last: another option may change it.
    for option_id, value in sorted(values.items(), key=lambda item: item[0] == mode_id):
        failure = await _restore(session, option_id, value, done.restored)
        if failure:
            done.failed.append(failure)
            done.not_set[option_id] = value
            done = done._replace(lost_mode=failure if option_id == mode_id else done.lost_mode)
    return done


async def _restore(
    session: ClientSession, option_id: str, value: str | bool, restored: list[str]
) -> str:
    """Set one option; return why it could not be set, or an empty text."""
    known = {option.id: option for option in session.transcript.options}
    option = known.get(option_id)
    if option is None:
        return f"{one_line(option_id, 60)}: the agent has no such option now"
    if option.value == value:
        return ""
    name, shown = one_line(option.name, 60), _value_name(option, value)
    if not shown:
        offered = _value_name(option, option.value) or option.value
        return f"{name}: the agent no longer has {one_line(str(value), 60)!r}; it is {offered}"
    try:
        await session.set_option(option.id, value)
    except AuthRequired:
        raise
    except RequestError as error:
        return f"{name}: {shown} could not be set: {one_line(str(error), 200)}"
    restored.append(f"{name}: {shown}")
    return ""


def _value_name(option: SessionOption, value: str | bool) -> str:
    """Return the name of a value; empty if the option cannot have it."""
    if isinstance(option, SelectOption):
        names = [choice.name for choice in option.choices if choice.value == value]
        return one_line(names[0], 60) if names else ""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else ""


async def _set_option(
    session: ClientSession, option: SessionOption, given: str, where: str
) -> None:
    value: str | bool = given
    if isinstance(option, SelectOption):
        choices = {choice.value for choice in option.choices}
        if given not in choices:  # a name is accepted too, if it is unambiguous
            named = [choice.value for choice in option.choices if choice.name == given]
            if len(named) != 1:
                raise click.UsageError(
                    f"{where}: expected one of {_join_names(choices)}, got {given!r}"
                    + (_NEEDS_KEY if choices == {"demo"} else "")
                )
            value = named[0]
    else:
        switched = (_ON | _OFF).get(given.lower())
        if switched is None:
            raise click.UsageError(f"{where}: expected on or off, got {given!r}")
        value = switched
    if value != option.value:
        await session.set_option(option.id, value)


def option_of(options: Sequence[SessionOption], category: str) -> SessionOption | None:
    """Return the option of a category, else the one whose id is that of the category."""
    for name in ("category", "id"):
        for option in options:
            if getattr(option, name) == category:
                return option
    return None


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, sorted(names)))


def _updated_at(session: SessionInfo) -> float:
    """Return when a session last changed; an unknown time counts as the earliest."""
    try:
        time = datetime.fromisoformat(session.updated_at or "")
    except ValueError:
        return float("-inf")
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
