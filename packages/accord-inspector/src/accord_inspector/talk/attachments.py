"""The content of a prompt that the page sends: text, uploaded files, and files by their path."""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.client.connect import ConnectedAgent
from accord.local.files import OutsideRoots, Roots, TooLarge
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
)
from accord_inspector.json_http import ApiError

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
