"""Images in the conversation and on the whole screen, also hostile ones."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from textual.color import Color

from accord import Agent, AudioContent, EmbeddedResource, ImageContent, Turn
from accord_chat.view.picture_screen import PictureScreen
from accord_chat.view.pictures import Broken, decode
from accord_chat.view.text_views import ViewerScreen
from accord_terminal.toolkit.session_setup import image_type
from chat.chats import LocalAgent, Typist, open_chat
from chat.images import bomb, encoded, huge_header, picture

RED, BLUE = Color(255, 0, 0), Color(0, 0, 255)
ESCAPE = "\x1b]0;title\x07\x1b[2J"


@pytest.fixture(autouse=True)
def terminal_with_all_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")


class Painter(Agent):
    """Sends the images that the prompt names."""

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "show":
                await turn.say(ImageContent(picture(), "image/png", "file:///w/two%20colours.png"))
            case "several":
                await turn.say("Both:")
                await turn.say(ImageContent(picture(), "image/png"))
                await turn.say(ImageContent(picture(32, 32, "JPEG"), "image/jpeg"))
            case "tool":
                async with turn.tool("Take a screenshot", kind="read") as call:
                    await call.add_content(ImageContent(picture(), "image/png"))
            case "resource":
                shot = EmbeddedResource("app:///shot", picture(), "application/octet-stream")
                await turn.say(shot)
                await turn.say(EmbeddedResource("app:///notes.txt", "some notes", "text/plain"))
                await turn.say(AudioContent(bytes(2048), "audio/wav"))
            case "bomb":
                await turn.say(ImageContent(bomb(8000, 8000), "image/png"))
            case "huge":
                await turn.say(ImageContent(huge_header(60_000, 60_000), "image/png"))
            case "truncated":
                await turn.say(ImageContent(picture(400, 300)[:200], "image/png"))
            case "text":
                await turn.say(ImageContent(f"not an image {ESCAPE}".encode(), f"im{ESCAPE}"))
            case "svg":
                await turn.say(
                    ImageContent(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml")
                )
            case "wrong":
                await turn.say(
                    ImageContent(picture(64, 48, "JPEG"), "image/png", f"file:///{ESCAPE}")
                )
            case "many":
                for number in range(30):
                    await turn.say(ImageContent(picture(40 + number, 40), "image/png"))
        await turn.say("\n\nThat is all.")


def colours(user: Typist) -> set[Color]:
    """Return the colours of the upper halves of cells."""
    return {
        Color.from_rich_color(part.style.color)
        for strip in user.app.screen._compositor.render_strips()
        for part in strip
        if "▀" in part.text and part.style is not None and part.style.color is not None
    }


async def test_image_of_a_message_is_shown_in_half_cells(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Painter()), folder=tmp_path) as user:
        await user.send("show")
        await user.sees("▣ two colours.png · image/png · 64×48 pixels · ", "▀▀▀▀", "That is all.")
        assert {RED, BLUE} <= colours(user)
        await user.pilot.resize_terminal(24, 24)  # has one line for an image
        await user.until(lambda: "▀" not in user.screen and "64×48" in user.screen)


async def test_image_of_a_tool_call_is_shown_until_the_call_is_folded(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Painter(), version=1), folder=tmp_path) as user:
        await user.send("tool")
        await user.sees("Take a screenshot", "▣ image/png · 64×48 pixels", "▀▀▀▀", "That is all.")
        await user.press("f6", "up", "up", "enter", "enter")
        await user.until(lambda: "▀" not in user.screen)
        await user.press("escape")
        await user.send("resource")  # says what it is, and audio does
        await user.sees(
            "▣ shot · image/png · 64×48 pixels",
            "▀▀▀▀",
            "→ app:///notes.txt (text/plain · 10 bytes)",
            "♪ audio/wav · 2 KB · not played",
        )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("COLORTERM", "")])
async def test_terminal_with_few_colours_has_one_line_for_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")  # 16 colours
    monkeypatch.setenv(name, value)
    async with open_chat(LocalAgent(Painter()), folder=tmp_path) as user:
        await user.send("show")
        await user.sees("That is all.", "64×48 pixels")
        assert "▀" not in user.screen


BROKEN = {
    "bomb": " KB · cannot be shown: more than 50 million pixels",
    "huge": "cannot be shown: more than 50 million pixels",
    "truncated": "image/png · 200 bytes · cannot be shown: broken, or not an image",
    "text": "cannot be shown: broken, or not an image",
    "svg": "image/svg+xml · 41 bytes · cannot be shown: broken, or not an image",
}


async def test_image_that_cannot_be_shown_is_a_line(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Painter()), folder=tmp_path, size=(100, 24)) as user:
        for prompt, why in BROKEN.items():
            await user.send(prompt)
            whole = re.compile(rf"▌ {prompt}\n.*That is all\.\s+· \d+ s", re.DOTALL)
            await user.until(lambda whole=whole: whole.search(user.screen))
            await user.sees(why)
            assert "\x1b" not in user.screen
            to_answer = ["up"] if prompt == "bomb" else ["down"] * 3  # from the one before
            await user.press("f6", *to_answer, "v")
            await user.until(lambda: isinstance(user.app.screen, PictureScreen))
            await user.sees("This image cannot be shown: ")
            assert "\x1b" not in user.screen
            await user.press("escape", "escape")
            await user.until(lambda: user.composer.has_focus)


async def test_view_shows_an_image_large_and_its_text_with_t(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Painter()), folder=tmp_path) as user:
        await user.send("several")
        await user.sees("That is all.", "32×32")
        await user.press("f6", "up", "v")
        await user.sees("1 of 2 · image/png · 64×48 pixels", "← → others", "▀" * 55)
        assert {RED, BLUE} <= colours(user)
        await user.press("right")
        await user.sees("2 of 2 · image/jpeg · 32×32 pixels")
        await user.press("t")
        await user.until(lambda: isinstance(user.app.screen, ViewerScreen))
        await user.sees("Both:")
        await user.press("escape", "escape")
        await user.until(lambda: len(user.app.screen_stack) == 2)
        await user.pilot.resize_terminal(80, 50)
        await user.sees("That is all.", "32×32")
        lines = user.screen.split("\n")
        at = next(number for number, line in enumerate(lines) if "32×32" in line)
        await user.pilot.click(offset=(5, at + 3))
        await user.sees("2 of 2 · image/jpeg · 32×32 pixels")
        await user.press("escape")
        await user.sees("Both:")


async def test_image_is_saved_as_it_was_received(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Painter()), folder=tmp_path) as user:
        await user.send("wrong")  # the type and the name come from the content
        await user.sees("image/jpeg · 64×48 pixels", "That is all.")
        assert not set(user.screen) & {"\x1b", "\x07"}
        await user.press("f6", "up", "v")
        await user.sees("s saves")
        await user.press("s")
        await user.sees("Saved: image-")
        (saved,) = tmp_path.glob("image-*.jpg")  # noqa: ASYNC240
        assert saved.read_bytes() == picture(64, 48, "JPEG")
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
        await user.press("s")
        await user.until(lambda: len(list(tmp_path.glob("image-*.jpg"))) == 2)


async def test_image_that_is_decoded_late_does_not_move_what_is_read(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Painter()), folder=tmp_path) as user:
        await user.send("many")
        await user.sees("That is all.", "69×40 pixels")
        await user.press("f6", "home")
        await user.sees("▌ many", "40×40 pixels")
        assert user.view.cached_entries < 10


def test_kinds_and_modes_are_known_by_their_content() -> None:
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        data = picture(20, 10, kind)
        assert image_type(data[:16]) == f"image/{kind.lower()}"
        pixels = decode(data, 10, 10)
        assert (pixels.width, pixels.height, pixels.full_width) == (10, 5, 20), kind
        assert len(pixels.rgb) == 150
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"):
        kind = "JPEG" if mode == "CMYK" else "PNG"
        assert decode(encoded(Image.new(mode, (4, 4)), kind), 4, 4).width == 4, mode


def test_turned_photo_is_upright() -> None:
    image = Image.new("RGB", (40, 20))
    exif = image.getexif()
    exif[0x0112] = 6  # turned by 90 degrees
    pixels = decode(encoded_with(image, exif), 100, 100)
    assert (pixels.width, pixels.height) == (20, 40)
    assert (pixels.full_width, pixels.full_height) == (20, 40)


def encoded_with(image: Image.Image, exif: Image.Exif) -> bytes:
    import io

    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif)
    return file.getvalue()


def test_other_kinds_are_not_opened() -> None:
    for kind in ("TIFF", "PPM", "ICO", "TGA"):
        with pytest.raises(Broken, match="broken, or not an image"):
            decode(picture(20, 10, kind), 10, 10)


def test_large_photo_is_decoded_small_and_other_large_images_are_not_decoded() -> None:
    photo = encoded(Image.new("L", (8000, 6000)), "JPEG")
    pixels = decode(photo, 100, 100)
    assert (pixels.full_width, pixels.width, pixels.height) == (8000, 100, 75)
    with pytest.raises(Broken, match="more than 34 million pixels"):
        decode(bomb(6000, 6000), 100, 100)


def test_program_starts_without_pillow() -> None:
    code = "import sys, accord_chat.view.app; print('PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
