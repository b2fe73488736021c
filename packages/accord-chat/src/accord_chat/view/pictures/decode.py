"""Decodes images of agents, within bounds. What comes out is pixels, nothing of the original."""

from __future__ import annotations

import io
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from PIL.Image import Image


MAX_BYTES = 32 * 1024 * 1024
MAX_PIXELS = 50_000_000  # of the file: a limit for the time
MAX_DECODED = 34_000_000  # of what is in memory: an 8K screen; JPEG is made smaller while decoded
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")  # others start programs, or are rarely images
BACKGROUND = (128, 128, 128)  # of transparent images: dark and light ones can be seen
COLOURS = 128  # of a palette
_SCALED = ("L", "RGB", "RGBA")  # modes that are made smaller as they are
_AT_ONCE = BoundedSemaphore(2)  # images in memory


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
        raise Broken(_too_large(MAX_PIXELS) if bomb else "broken, or not an image") from None


def _too_large(pixels: int) -> str:
    return f"more than {pixels // 1_000_000} million pixels"


def _decode(data: bytes, max_width: int, max_height: int) -> Pixels:
    from PIL import Image as Images
    from PIL import ImageOps

    with Images.open(io.BytesIO(data), formats=FORMATS) as opened:
        width, height = opened.size
        if width * height > MAX_PIXELS:
            raise Broken(_too_large(MAX_PIXELS))
        opened.draft("RGB", (max_width * 2, max_height * 2))  # only JPEG: decodes fewer pixels
        if opened.width * opened.height > MAX_DECODED:
            raise Broken(_too_large(MAX_DECODED))
        orientation = opened.getexif().get(0x0112, 1)
        if orientation in (5, 6, 7, 8):
            width, height, max_width, max_height = height, width, max_height, max_width
        with _AT_ONCE:
            opened.load()
            image: Image = opened
            if image.mode not in _SCALED:
                image = image.convert("RGBA" if _has_alpha(image) else "RGB")
            scale = min(1.0, max_width / image.width, max_height / image.height)
            size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
            image.thumbnail(size, Images.Resampling.BOX)
        image = ImageOps.exif_transpose(_flat(image))
    return Pixels(*image.size, image.tobytes(), width, height)


def _has_alpha(image: Image) -> bool:
    return "transparency" in image.info or image.mode in ("LA", "PA", "La", "RGBa", "RGBA")


def _flat(image: Image) -> Image:
    """Return an image without transparency, with three bytes for each pixel."""
    from PIL import Image as Images

    if not _has_alpha(image):
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
