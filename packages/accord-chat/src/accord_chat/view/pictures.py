"""Images as text and graphics: decoded within bounds, and small ones for the conversation.

`decode` makes pixels of an image of an agent; nothing else of the original remains. They are shown
as half cells, or in the graphics protocol of the terminal (`kitty`, `sixel`). Decoding takes long:
it runs in a thread (`Background`).
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import groupby
from queue import SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from accord_chat.model.conversation import Picture, size_text
from accord_chat.view.lazy_lines import row_strips
from accord_terminal.toolkit.text import Row, one_line

if TYPE_CHECKING:
    from PIL.Image import Image


class Background:
    """A thread that runs one function at a time; the program ends without waiting for it."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_closed = False

    def submit(self, function: Callable[[], None], then: Callable[[], None]) -> None:
        """Call a function in the thread, and then another one in the event loop."""
        loop = asyncio.get_running_loop()

        def work() -> None:
            function()
            if not (self._is_closed or loop.is_closed()):
                loop.call_soon_threadsafe(then)

        self._work.put(work)
        if self._thread is None:
            # A daemon: an image that takes very long must not keep the program from ending.
            self._thread = Thread(target=self._run, name="accord chat images", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Drop what has not begun."""
        self._is_closed = True
        self._work.put(_nothing)  # wakes the thread

    def _run(self) -> None:
        while not self._is_closed:
            self._work.get()()


def _nothing() -> None:
    pass


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


UPPER_HALF = "▀"


def half_cells(pixels: Pixels, extra: Style | None = None) -> Iterator[Strip]:
    """Yield the lines of an image; `extra` is added to the style of each cell."""
    row_bytes = 3 * pixels.width
    for top in range(0, pixels.height, 2):
        upper = pixels.rgb[top * row_bytes : (top + 1) * row_bytes]
        lower = pixels.rgb[(top + 1) * row_bytes : (top + 2) * row_bytes]
        cells = ((upper[at : at + 3], lower[at : at + 3]) for at in range(0, row_bytes, 3))
        parts: list[Segment] = []
        for (above, below), same in groupby(cells):
            style = Style(
                color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below) if below else None
            )
            parts.append(Segment(UPPER_HALF * sum(1 for _ in same), style + extra))
        yield Strip(parts, pixels.width)


CHUNK = 4096  # the most that the protocol allows in one piece
IMAGE_ID = 4_012_002


def kitty(pixels: Pixels, columns: int, lines: int) -> str:
    """Return what shows an image at the cursor in the protocol of Kitty, on a number of cells."""
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


# Sixels are bands of six rows, with one pass for each colour.

_BAND = 6
_RUN = re.compile(rb"(.)\1{3,}", re.DOTALL)
_CHARACTERS = bytes((value & 63) + 63 for value in range(256))


def sixel(pixels: Pixels) -> str:
    """Return what shows an image at the cursor, as sixels. This takes long: use a thread."""
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


PICTURE = "picture"  # the key of the number of an image in the metadata of a cell's style
MAX_COLUMNS = 48
MAX_LINES = 10
MIN_COLUMNS = 24  # of a conversation; a narrower one shows one line for each image
MAX_KEPT = 64

# None: it is being decoded.
Decoded: TypeAlias = Pixels | Broken | None


class Previews:
    """The small images of a conversation: decodes them when they come near the screen."""

    def __init__(self) -> None:
        self.has_colours = True  # if not, there is one line for each image
        self._kept: OrderedDict[bytes, Pixels | Broken] = OrderedDict()
        self._waiting: dict[bytes, set[Callable[[], None]]] = {}  # what to call when it is decoded
        self._thread = Background()

    def close(self) -> None:
        """Decode nothing more."""
        self._thread.close()

    def lines(
        self, picture: Picture, number: int, width: int, redraw: Callable[[], None]
    ) -> list[Strip]:
        """Return the lines of an image; `redraw` is called when there are others."""
        decoded = self._decoded(picture, redraw)
        strips = row_strips([Row(title_of(picture, decoded), "magenta", "▣ ")], width)
        if isinstance(decoded, Pixels) and self.has_colours and width >= MIN_COLUMNS:
            strips += half_cells(decoded, Style.from_meta({PICTURE: number}))
        return strips

    def _decoded(self, picture: Picture, redraw: Callable[[], None]) -> Decoded:
        data = picture.data
        if data in self._waiting:
            self._waiting[data].add(redraw)  # the same image in two places
            return None
        if data in self._kept:
            self._kept.move_to_end(data)
            return self._kept[data]
        self._waiting[data] = {redraw}
        results: list[Pixels | Broken] = []

        def work() -> None:
            try:
                results.append(decode(data, MAX_COLUMNS, 2 * MAX_LINES))
            except Broken as broken:
                results.append(broken)

        def done() -> None:
            self._kept[data] = results[0]
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            for waiting in self._waiting.pop(data):
                waiting()

        self._thread.submit(work, done)
        return None


def title_of(picture: Picture, decoded: Decoded) -> str:
    """Return a line about an image."""
    kind = picture.mime_type or one_line(picture.declared_type, 40) or "unknown type"
    parts = [one_line(picture.name, 60)] if picture.name else []
    parts.append(kind)
    if isinstance(decoded, Pixels):
        parts.append(f"{decoded.full_width}×{decoded.full_height} pixels")
    parts.append(size_text(len(picture.data)))
    if isinstance(decoded, Broken):
        parts.append(f"cannot be shown: {decoded}")
    return " · ".join(parts)
