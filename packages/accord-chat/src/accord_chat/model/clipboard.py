"""The image on the clipboard, by the program of the desktop that reads it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from accord_terminal.toolkit.session_setup import MAX_IMAGE_BYTES

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
        data = await _read(reader, variables)
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


async def _read(reader: _Reader, environment: Mapping[str, str]) -> bytes:
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
        if program.returncode is None:
            program.kill()
            await program.wait()
    return bytes(output) if status == 0 else b""


def _from_hex(output: bytes) -> bytes:
    found = _OSASCRIPT.search(output)
    return b"" if found is None else bytes.fromhex(found[1].decode("ascii"))


def _from_base64(output: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(output.split()), validate=True)
    except binascii.Error:
        return b""
