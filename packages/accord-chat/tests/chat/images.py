"""Images for tests: small ones, large ones, and hostile ones."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

__all__ = ("bomb", "encoded", "huge_header", "picture")


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    """Return an image as a file of this kind."""
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def picture(width: int = 64, height: int = 48, kind: str = "PNG") -> bytes:
    """Return an image that is red on the left and blue on the right."""
    image = Image.new("RGB", (width, height), (255, 0, 0))
    image.paste((0, 0, 255), (width // 2, 0, width, height))
    return encoded(image, kind)


def huge_header(width: int, height: int) -> bytes:
    """Return a PNG that says that it is this large, with a few bytes of data."""
    return _png(width, height, zlib.compress(bytes(100)))


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of some kilobytes that becomes this large."""
    rows = zlib.compressobj(9)
    row = bytes(1 + 3 * width)
    data = b"".join(rows.compress(row) for _ in range(height)) + rows.flush()
    return _png(width, height, data)


def _png(width: int, height: int, data: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", data), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)
