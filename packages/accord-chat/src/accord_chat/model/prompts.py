"""What the user sends: queued prompts, the files that they mention, and their images.

`prompt_contents` makes the content of a prompt from its text, its mentions (`@path`, or
`@"path with spaces"`) and its attachments. Images are read when the user attaches them: from
dropped files (`dropped_images`), or from the clipboard (`clipboard_image`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import shlex
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from accord.client.connect import ConnectedAgent
from accord.local.run import kill_process
from accord.types.content import ContentBlock, ImageContent, ResourceLink
from accord_chat.model.turn_changes import FolderFiles
from accord_terminal.toolkit.session_setup import (
    EXTENSIONS,
    HEAD_BYTES,
    MAX_IMAGE_BYTES,
    attached_content,
    image_type,
)


class QueuedPrompt(Struct, frozen=True):
    """A prompt as the user typed it; mentions of files are resolved when it is sent."""

    number: int
    text: str
    images: tuple[Attachment, ...] = ()


class PromptQueue:
    """Prompts in the order in which they are sent; each can be taken out until then."""

    def __init__(self) -> None:
        self._prompts: deque[QueuedPrompt] = deque()
        self._last_number = 0
        self._is_held = False

    def __len__(self) -> int:
        return len(self._prompts)

    def __iter__(self) -> Iterator[QueuedPrompt]:
        return iter(tuple(self._prompts))

    def add(self, text: str, images: Iterable[Attachment] = ()) -> QueuedPrompt:
        """Add a prompt at the end."""
        prompt = self.number(text, images)
        self._prompts.append(prompt)
        self._is_held = False
        return prompt

    def number(self, text: str, images: Iterable[Attachment] = ()) -> QueuedPrompt:
        """Return a prompt that is not queued."""
        self._last_number += 1
        return QueuedPrompt(self._last_number, text, tuple(images))

    def put_back(self, prompt: QueuedPrompt) -> None:
        """Put a prompt that was not sent at the beginning again."""
        self._prompts.appendleft(prompt)

    def hold(self) -> None:
        """Let the prompts wait until the user adds another one."""
        self._is_held = True

    def take_next(self) -> QueuedPrompt | None:
        """Remove and return the first prompt; None if there is none, or they are held."""
        return self._prompts.popleft() if self._prompts and not self._is_held else None

    def withdraw(self, number: int) -> QueuedPrompt | None:
        """Remove and return one prompt; None if it was already sent."""
        for prompt in self._prompts:
            if prompt.number == number:
                self._prompts.remove(prompt)
                return prompt
        return None

    def withdraw_last(self) -> QueuedPrompt | None:
        """Remove and return the prompt that was added last."""
        return self._prompts.pop() if self._prompts else None


def prompt_contents(
    agent: ConnectedAgent, prompt: QueuedPrompt, files: FolderFiles, warn: Callable[[str], None]
) -> list[ContentBlock]:
    """Return the contents of a prompt; `warn` gets what cannot be sent as it is."""
    found = [files.find(path) for path in mentions(prompt.text)]
    paths = list(dict.fromkeys(path for path in found if path is not None))
    mentioned = list(attached_content(agent, paths))
    takes_images = agent.supports_content("image")
    images, remarks = image_content(prompt.images, takes_images=takes_images)
    why = "it is too large" if takes_images else "the agent takes no images"
    remarks += [
        f"{content.name} was sent as a link: {why}"
        for content in mentioned
        if isinstance(content, ResourceLink) and content.mime_type in EXTENSIONS
    ]
    for remark in remarks:
        warn(remark)
    text: list[ContentBlock] = [prompt.text] if prompt.text or not images else []
    return [*text, *mentioned, *images]


# Mentions, and the search for what can be mentioned or chosen.

_MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|([^\s"@]+))')
_OPEN = re.compile(r'(?<![\w@])@("[^"\n]*|[^\s"@]*)$')


class Mention(Struct, frozen=True):
    """The unfinished mention before the cursor."""

    start: int  # the column of the @
    query: str


def mentions(text: str) -> Iterator[str]:
    """Yield the mentioned paths, each once, without punctuation that ends a sentence."""
    seen: set[str] = set()
    for quoted, plain in _MENTION.findall(text):
        for path in (quoted,) if quoted else (plain, plain.rstrip(".,;:!?)")):
            if path and path not in seen:
                seen.add(path)
                yield path


def mention_before(line: str) -> Mention | None:
    """Return the unfinished mention at the end of a line."""
    found = _OPEN.search(line)
    if found is None:
        return None
    return Mention(found.start(), found[1].removeprefix('"'))


def mention_text(path: str) -> str:
    """Return how a path is mentioned."""
    return f'@"{path}"' if re.search(r'[\s"@]', path) else f"@{path}"


MAX_SCORED = 2000  # candidates; a longer list is cut before it is sorted
_BOUNDARIES = frozenset("/_-. ")


def best_matches(query: str, candidates: Iterable[str], limit: int) -> list[str]:
    """Return the candidates that match, the best first; all of them for an empty query."""
    if not query:
        found: list[str] = []
        for candidate in candidates:
            found.append(candidate)
            if len(found) == limit:
                break
        return found
    pattern = re.compile(".*?".join(map(re.escape, query)), re.IGNORECASE)
    matching: list[str] = []
    for candidate in candidates:
        if pattern.search(candidate):
            matching.append(candidate)
            if len(matching) == MAX_SCORED:
                break
    return sorted(matching, key=lambda one: (-score(query, one), len(one), one))[:limit]


def score(query: str, candidate: str) -> int:
    """Return how well a candidate matches: adjacent letters, starts of words and its name count."""
    query, lower = query.lower(), candidate.lower()
    if not query:
        return 0
    name = lower.rpartition("/")[2]
    total = 0
    if name == query:
        total += 200
    elif name.startswith(query):
        total += 100
    elif query in name:
        total += 60
    elif query in lower:
        total += 30
    at = -1
    for letter in query:
        found = lower.find(letter, at + 1)
        if found < 0:
            return -1
        if found == at + 1:
            total += 3
        if found == 0 or lower[found - 1] in _BOUNDARIES:
            total += 5
        at = found
    return total


# Images.

MAX_ATTACHED = 10  # images of one prompt
MAX_PASTED = 4096  # characters of a text that can be paths
_ABSOLUTE = re.compile(r"/|~/|file://|[A-Za-z]:[\\/]|\\\\")


class Attachment(Struct, frozen=True):
    """An image; `path` is None if it came from the clipboard."""

    data: bytes
    mime_type: str
    path: Path | None = None

    @property
    def name(self) -> str:
        """What the user knows it by."""
        extension = EXTENSIONS.get(self.mime_type, "")
        return self.path.name if self.path is not None else f"clipboard.{extension}"


def attached(data: bytes, path: Path | None = None) -> Attachment:
    """Return an image to send; raise `ValueError`, which says why it cannot be sent."""
    mime_type = image_type(data[:HEAD_BYTES])
    if mime_type is None:
        raise ValueError("It is not a PNG, JPEG, GIF, WebP or BMP image")
    if len(data) > MAX_IMAGE_BYTES:
        raise ValueError(f"The image is larger than {MAX_IMAGE_BYTES // 1024 // 1024} MB")
    return Attachment(data, mime_type, path)


def dropped_images(text: str) -> list[Attachment]:
    """Return the images whose paths were pasted, as terminals do with dropped files.

    Empty if the text is anything else. Raises `ValueError` for an image that cannot be sent.
    This reads files: call it in a thread.
    """
    for paths in _candidates(text):
        if paths and all(_is_image(path) for path in paths):
            return [attached(_read(path), path.absolute()) for path in paths[:MAX_ATTACHED]]
    return []


def readable(paths: Iterable[str]) -> Iterator[Attachment]:
    """Yield the images that can still be read."""
    for path in paths:
        try:
            yield attached(_read(Path(path)), Path(path))
        except (OSError, ValueError):
            continue


def image_content(
    images: Sequence[Attachment], *, takes_images: bool
) -> tuple[list[ContentBlock], list[str]]:
    """Return the images as content, and what the user must know of those that are not sent so."""
    if takes_images:
        uris = [None if one.path is None else one.path.as_uri() for one in images]
        pairs = zip(images, uris, strict=True)
        return [ImageContent(one.data, one.mime_type, uri) for one, uri in pairs], []
    contents: list[ContentBlock] = []
    remarks: list[str] = []
    for one in images:
        if one.path is None:
            remarks.append("The agent takes no images: the one of the clipboard was not sent")
            continue
        remarks.append(f"The agent takes no images: {one.name} was sent as a link")
        link = ResourceLink(
            one.path.as_uri(), one.name, mime_type=one.mime_type, size=len(one.data)
        )
        contents.append(link)
    return contents, remarks


def _candidates(text: str) -> Iterator[list[Path]]:
    """Yield the paths that a text can mean: one, or several in quotes, escaped or as URIs."""
    text = text.strip()
    if not text or len(text) > MAX_PASTED:
        return
    yield list(_paths([text]))
    yield list(_paths(text.splitlines()))
    try:
        words = shlex.split(text, posix=sys.platform != "win32")
    except ValueError:  # a quote without its end
        return
    yield list(_paths(words))


def _paths(words: Sequence[str]) -> Iterator[Path]:
    """Yield the words as paths; nothing if one is not an absolute path."""
    words = [word.strip().strip("\"'") for word in words if word.strip()]
    if not all(_ABSOLUTE.match(word) for word in words):
        return
    for word in words:
        if not word.startswith("file://"):
            yield Path(word).expanduser()
            continue
        try:
            parts = urlsplit(word)
        except ValueError:
            continue
        if parts.hostname in (None, "localhost"):
            path = unquote(parts.path)
            yield Path(path.removeprefix("/") if re.match(r"/[A-Za-z]:", path) else path)


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():  # a named pipe would wait for its other end
            return False
        with path.open("rb") as file:
            return image_type(file.read(HEAD_BYTES)) is not None
    except (OSError, ValueError):
        return False


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_IMAGE_BYTES + 1)


# The clipboard, which a program of the desktop reads.

READ_S = 5.0  # for one program
MAX_OUTPUT = 3 * MAX_IMAGE_BYTES  # as base64 or hexadecimal digits
_KINDS = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp")
_OSASCRIPT = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$i=[Windows.Forms.Clipboard]::GetImage();"
    "if($i){$m=New-Object IO.MemoryStream;$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($m.ToArray())}"
)

Decode: TypeAlias = Callable[[bytes], bytes]


class NoImage(Exception):
    """There is none; the text says why."""


class _Reader(Struct, frozen=True):
    """How a program reads an image; `kinds` is the command that lists the types."""

    command: tuple[str, ...]  # followed by the type if there is `kinds`
    kinds: tuple[str, ...] | None = None
    after: tuple[str, ...] = ()
    decode: Decode = bytes


async def clipboard_image(environment: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of the image; raise `NoImage`."""
    variables = os.environ if environment is None else environment
    readers = list(_readers(variables))
    if not readers:
        raise NoImage(_missing(variables))
    for reader in readers:
        data = await _read_image(reader, variables)
        if data:
            return data
    raise NoImage("There is no image on the clipboard")


def _readers(environment: Mapping[str, str]) -> Iterator[_Reader]:
    def has(program: str) -> bool:
        return shutil.which(program, path=environment.get("PATH")) is not None

    if environment.get("WAYLAND_DISPLAY") and has("wl-paste"):
        yield _Reader(("wl-paste", "--no-newline", "--type"), ("wl-paste", "--list-types"))
    if environment.get("DISPLAY") and has("xclip"):
        words = ("xclip", "-selection", "clipboard", "-o", "-t")
        yield _Reader(words, (*words, "TARGETS"))
    if has("pngpaste"):
        yield _Reader(("pngpaste", "-"))
    if has("osascript"):
        yield _Reader(("osascript", "-e", "get the clipboard as «class PNGf»"), decode=_from_hex)
    if has("powershell.exe"):  # Windows, and Linux in Windows
        words = ("powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-Command", _POWERSHELL)
        yield _Reader(words, decode=_from_base64)


def _missing(environment: Mapping[str, str]) -> str:
    if environment.get("WAYLAND_DISPLAY"):
        return "To paste images, install wl-clipboard (wl-paste)"
    if environment.get("DISPLAY"):
        return "To paste images, install xclip"
    if sys.platform in ("darwin", "win32"):
        return "No program was found that reads the clipboard"
    return "There is no clipboard here: the program runs without a desktop"


async def _read_image(reader: _Reader, environment: Mapping[str, str]) -> bytes:
    words = list(reader.command)
    if reader.kinds is not None:
        listed = (await _output(reader.kinds, environment)).decode("ascii", "replace").split()
        kind = next((kind for kind in _KINDS if kind in listed), None)
        if kind is None:
            return b""
        words.append(kind)
    return reader.decode(await _output(words, environment))


async def _output(words: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return what a program prints; nothing if it fails."""
    try:
        program = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environment),
        )
    except OSError:
        return b""
    assert program.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            while more := await program.stdout.read(65536):
                output += more
                if len(output) > MAX_OUTPUT:
                    raise NoImage("The image on the clipboard is too large")
            status = await program.wait()
    except TimeoutError:
        raise NoImage(f"{words[0]} did not respond in time") from None
    finally:
        await kill_process(program)
    return bytes(output) if status == 0 else b""


def _from_hex(output: bytes) -> bytes:
    found = _OSASCRIPT.search(output)
    return b"" if found is None else bytes.fromhex(found[1].decode("ascii"))


def _from_base64(output: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(output.split()), validate=True)
    except binascii.Error:
        return b""
