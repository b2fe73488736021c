"""Decodes images of agents, within bounds. What comes out is pixels, nothing of the original."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ("MAX_BYTES", "MAX_PIXELS", "Broken", "Pixels", "decode", "indexed")

MAX_BYTES = 32 * 1024 * 1024
MAX_PIXELS = 50_000_000
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")  # others start programs, or are rarely images
BACKGROUND = (128, 128, 128)  # of transparent images: dark and light ones can be seen
COLOURS = 128  # of a palette


class Broken(Exception):
    """The data cannot be shown; the text says why."""


class Pixels(Struct, frozen=True):
    """An image that was made smaller: three bytes for each pixel, row by row."""

    width: int
    height: int
    rgb: bytes
    full_width: int
    full_height: int


def decode(data: bytes, max_width: int, max_height: int) -> Pixels:
    """Return the pixels of the first frame, made smaller to fit; raise `Broken`.

    This takes long: call it in a thread.
    """
    if len(data) > MAX_BYTES:
        raise Broken(f"larger than {MAX_BYTES // 1024 // 1024} MB")
    try:
        return _decode(data, max_width, max_height)
    except Broken:
        raise
    except ImportError:
        raise Broken("Pillow is not installed") from None
    except MemoryError:
        raise Broken("not enough memory") from None
    except Exception as error:  # noqa: BLE001  # Pillow raises anything for broken data
        bomb = "DecompressionBomb" in type(error).__name__
        raise Broken(_TOO_LARGE if bomb else "broken, or not an image") from None


_TOO_LARGE = f"more than {MAX_PIXELS // 1_000_000} million pixels"


def _decode(data: bytes, max_width: int, max_height: int) -> Pixels:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
        width, height = opened.size
        if width * height > MAX_PIXELS:
            raise Broken(_TOO_LARGE)
        opened.draft("RGB", (max_width * 2, max_height * 2))  # only JPEG: decodes fewer pixels
        opened.load()
        turned = opened.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        if turned:
            width, height = height, width
        image = ImageOps.exif_transpose(_flat(opened))
    scale = min(1.0, max_width / width, max_height / height)
    small = (max(1, round(width * scale)), max(1, round(height * scale)))
    image.thumbnail(small, Image.Resampling.BOX)
    return Pixels(*image.size, image.tobytes(), width, height)


def _flat(image: Image) -> Image:
    """Return an image without transparency, with three bytes for each pixel."""
    from PIL import Image as Images

    has_alpha = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    if not has_alpha:
        return image.convert("RGB")
    ground = Images.new("RGBA", image.size, (*BACKGROUND, 255))
    return Images.alpha_composite(ground, image.convert("RGBA")).convert("RGB")


def indexed(pixels: Pixels) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the pixels as numbers of colours, and the colours."""
    from PIL import Image

    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    reduced = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE)
    flat = reduced.getpalette() or []
    palette = list(zip(flat[0::3], flat[1::3], flat[2::3], strict=True))
    return reduced.tobytes(), palette
