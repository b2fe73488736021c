"""The type of an image by its first bytes: names and declared types can be wrong."""

from __future__ import annotations

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
