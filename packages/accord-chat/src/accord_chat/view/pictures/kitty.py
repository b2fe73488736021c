"""Pixels in the graphics protocol of Kitty."""

from __future__ import annotations

import base64
import zlib

from accord_chat.view.pictures.decode import Pixels

CHUNK = 4096  # the most that the protocol allows in one piece
IMAGE_ID = 4_012_002


def kitty(pixels: Pixels, columns: int, lines: int) -> str:
    """Return what shows an image at the cursor, on a number of cells."""
    data = base64.b64encode(zlib.compress(pixels.rgb, 1)).decode("ascii")
    size = f"s={pixels.width},v={pixels.height},c={columns},r={lines}"
    # C=1: the cursor stays. q=2: no answer.
    head = f"a=T,f=24,o=z,t=d,i={IMAGE_ID},C=1,q=2,{size},"
    parts: list[str] = []
    for at in range(0, len(data), CHUNK):
        more = int(at + CHUNK < len(data))
        parts.append(f"\x1b_G{head}m={more};{data[at : at + CHUNK]}\x1b\\")
        head = "q=2,"
    return "".join(parts)


def kitty_removed() -> str:
    """Return what removes the image."""
    return f"\x1b_Ga=d,d=I,i={IMAGE_ID},q=2\x1b\\"
