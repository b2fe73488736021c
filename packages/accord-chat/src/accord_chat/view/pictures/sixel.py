"""Pixels as sixels: bands of six rows, one pass for each colour."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accord_chat.view.pictures.decode import Pixels, indexed

_BAND = 6
_RUN = re.compile(rb"(.)\1{3,}", re.DOTALL)
_CHARACTERS = bytes((value & 63) + 63 for value in range(256))


def sixel(pixels: Pixels) -> str:
    """Return what shows an image at the cursor. This takes long: call it in a thread."""
    numbers, palette = indexed(pixels)
    parts = [b'\x1bP0;1;0q"1;1;%d;%d' % (pixels.width, pixels.height)]
    for number, colour in enumerate(palette):
        parts.append(b"#%d;2;%d;%d;%d" % (number, *(round(value / 2.55) for value in colour)))
    band = pixels.width * _BAND
    for start in range(0, len(numbers), band):
        parts.append(b"$".join(_passes(numbers[start : start + band], pixels.width)))
        parts.append(b"-")
    parts[-1] = b"\x1b\\"
    return b"".join(parts).decode("ascii")


def _passes(band: bytes, width: int) -> Iterator[bytes]:
    """Yield one pass over a band for each colour in it."""
    rows = [band[at : at + width] for at in range(0, len(band), width)]
    for colour in sorted(set(band)):
        is_colour = bytes(number == colour for number in range(256))
        bits = 0
        for bit, row in enumerate(rows):
            bits |= int.from_bytes(row.translate(is_colour)) << bit
        text = bits.to_bytes(width).translate(_CHARACTERS).rstrip(b"?")
        yield b"#%d" % colour + _RUN.sub(_repeated, text)


def _repeated(run: re.Match[bytes]) -> bytes:
    return b"!%d%b" % (len(run[0]), run[1])
