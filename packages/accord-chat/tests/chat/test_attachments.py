"""Images in prompts: mentioned, dropped on the terminal, pasted from the clipboard."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from textual.events import Paste

from accord import Agent, ContentBlock, ImageContent, ResourceLink, Turn
from accord_chat.model.prompts import (
    NoImage,
    attached,
    clipboard_image,
    dropped_images,
)
from accord_chat.view.prompt_area import AttachmentBar
from chat.chats import LocalAgent, Typist, open_chat
from chat.images import picture

VERSIONS = pytest.mark.parametrize("version", [1, 2])
IMAGE = picture()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the programs of the clipboard time on a busy machine."""
    monkeypatch.setattr("accord_chat.model.prompts.READ_S", 50.0)


class Viewer(Agent):
    """Keeps what it gets; takes images."""

    prompt_capabilities = frozenset({"image", "resource"})

    def __init__(self) -> None:
        self.prompts: list[list[ContentBlock]] = []

    async def prompt(self, turn: Turn) -> None:
        self.prompts.append(list(turn.content))
        if turn.text == "wait":
            await asyncio.Event().wait()
        await turn.say(f"Got {len(turn.content)} parts.")


class Blind(Viewer):
    """Takes no images."""

    prompt_capabilities = frozenset()


def drop(user: Typist, text: str) -> None:
    user.app.post_message(Paste(text))


def images(contents: list[ContentBlock]) -> list[ImageContent]:
    return [part for part in contents if isinstance(part, ImageContent)]


async def test_mentioned_image_is_sent_as_an_image(tmp_path: Path) -> None:
    (tmp_path / "shot.dat").write_bytes(picture(2000, 1500))  # the content decides
    agent = Viewer()
    async with open_chat(LocalAgent(agent, version=1), folder=tmp_path) as user:
        await user.send("Look at @shot.dat, please")
        await user.sees("Got 2 parts.")
        (image,) = images(agent.prompts[0])
        assert (image.data, image.mime_type) == (picture(2000, 1500), "image/png")
        assert image.uri == (tmp_path / "shot.dat").as_uri()


@VERSIONS
async def test_agent_that_takes_no_images_gets_a_link_and_the_user_knows(
    tmp_path: Path, version: int
) -> None:
    (tmp_path / "shot.png").write_bytes(IMAGE)
    agent = Blind()
    async with open_chat(LocalAgent(agent, version=version), folder=tmp_path) as user:
        await user.send("Look at @shot.png")
        await user.sees("shot.png was sent as a link: the agent takes no images", "Got 2 parts.")
        (link,) = (part for part in agent.prompts[0] if isinstance(part, ResourceLink))
        assert (link.name, link.mime_type) == ("shot.png", "image/png")
        drop(user, str(tmp_path / "shot.png"))
        await user.sees("The agent takes no images: the path")
        await user.until(lambda: user.composer.text == str(tmp_path / "shot.png"))


async def test_dropped_image_is_shown_and_sent(tmp_path: Path) -> None:
    (tmp_path / "my shot.png").write_bytes(IMAGE)
    agent = Viewer()
    async with open_chat(LocalAgent(agent, version=2), folder=tmp_path) as user:
        drop(user, f"'{tmp_path}/my shot.png' ")
        await user.sees("▣ my shot.png · image/png · 139 bytes  ✕ Alt+X removes")
        assert user.composer.text == ""
        await user.type("What is this?")
        await user.press("enter")
        await user.sees("Got 2 parts.", "▌ What is this?")
        assert "Alt+X" not in user.screen
        assert [image.data for image in images(agent.prompts[0])] == [IMAGE]
        await user.sees("▌ ▣ my shot.png · image/png · 64×48 pixels")


async def test_attached_images_are_of_a_session_and_can_be_removed(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        (tmp_path / name).write_bytes(IMAGE)
    async with open_chat(LocalAgent(Viewer()), folder=tmp_path) as user:
        for how in ("alt+x", "backspace", "click"):
            drop(user, f"{tmp_path}/one.png {tmp_path}/two.png")
            await user.sees("one.png", "two.png")
            if how == "click":
                bar = user.app.screen.query_one(AttachmentBar)
                await user.pilot.click(bar.children[1])
            else:
                await user.press(how)
            await user.until(lambda: "two.png" not in user.screen)
            assert [one.name for one in user.session.attachments] == ["one.png"]
            if how != "click":
                await user.press("alt+x")
                await user.until(lambda: "one.png" not in user.screen)
        await user.press("f8")
        await user.until(lambda: "✕ Alt+X" not in user.screen)
        await user.press("alt+1")
        await user.sees("✕ Alt+X removes")
        await user.press("enter")  # a prompt can be only an image
        await user.sees("Got 1 parts.")


async def test_pasted_text_and_other_files_stay_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.png").write_text("no image")
    (tmp_path / "shot.png").write_bytes(IMAGE)
    texts = ["just text", "/does/not/exist.png", f"{tmp_path}/notes.png", "see /tmp and so on"]
    texts += [f"{tmp_path}/shot.png is nice", "shot.png"]
    large = tmp_path / "large.png"
    large.write_bytes(IMAGE + bytes(10 * 1024 * 1024))
    monkeypatch.setattr("accord_chat.view.prompt_area.MAX_ATTACHED", 2)
    async with open_chat(LocalAgent(Viewer()), folder=tmp_path) as user:
        for text in texts:
            user.composer.set_text("")
            drop(user, text)
            await user.until(lambda text=text: user.composer.text == text)
        user.composer.set_text("")
        drop(user, "/does/not/exist.png")
        await user.type(" why")  # keys after a path come after it
        await user.until(lambda: user.composer.text == "/does/not/exist.png why")
        user.composer.set_text("")
        drop(user, str(large))
        await user.sees("The image is larger than 10 MB")
        assert user.composer.text == str(large)
        assert user.session.attachments == []
        for count in (1, 2, 2):
            drop(user, str(tmp_path / "shot.png"))
            await user.until(lambda count=count: len(user.session.attachments) == count)
        await user.sees("At most 2 images")
        assert len(user.session.attachments) == 2


async def test_queued_image_is_taken_back_with_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(IMAGE)
    async with open_chat(LocalAgent(Viewer()), folder=tmp_path) as user:
        await user.send("wait")
        await user.sees("working")
        drop(user, str(tmp_path / "shot.png"))
        await user.sees("✕ Alt+X removes")
        await user.send("and then this")
        await user.until(lambda: "✕ Alt+X" not in user.screen)
        await user.press("f7")
        await user.sees("and then this [1 image]")
        await user.press("escape", "alt+up")
        await user.sees("✕ Alt+X removes", "❯ and then this")


async def test_attached_images_come_back_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(IMAGE)
    async with open_chat(LocalAgent(Viewer()), folder=tmp_path) as user:
        drop(user, str(tmp_path / "shot.png"))
        await user.sees("shot.png")
        user.app.screen_stack[-1].query_one(AttachmentBar)
        user.session.attachments.append(attached(IMAGE))  # from the clipboard
        await user.type("draft")
    async with open_chat(LocalAgent(Viewer()), folder=tmp_path, restores=True) as user:
        await user.sees("❯ draft", "▣ shot.png", "Not kept: 1 of the images that were attached")


FORMS = (
    "{folder}/my shot.png",
    "  {folder}/my shot.png\n",
    "'{folder}/my shot.png'",
    '"{folder}/my shot.png"',
    "{folder}/my\\ shot.png",
    "file://{folder}/my%20shot.png",
    "file://localhost{folder}/my%20shot.png",
    "file://{folder}/my%20shot.png\r\nfile://{folder}/my%20shot.png",
    "'{folder}/my shot.png' '{folder}/my shot.png'",
)


def test_every_form_of_a_dropped_path_is_known_and_other_texts_are_none(tmp_path: Path) -> None:
    file = tmp_path / "my shot.png"
    file.write_bytes(IMAGE)
    for form in FORMS:
        found = dropped_images(form.format(folder=tmp_path))
        assert [one.name for one in found] == ["my shot.png"] * form.count("shot"), form
    for text in (f"file://other.example{file}", f"{file}\nand text", "x" * 10_000):
        assert dropped_images(text) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_named_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert dropped_images(str(tmp_path / "pipe.png")) == []


# The clipboard.


def program(folder: Path, name: str, lines: str) -> None:
    """Write a program that does the work of one of the desktop."""
    (folder / "bin").mkdir(exist_ok=True)
    file = folder / "bin" / name
    file.write_text(f"#!{sys.executable}\nimport sys, base64, time\n{lines}\n")
    file.chmod(0o700)


def desktop(folder: Path, **variables: str) -> Mapping[str, str]:
    return {"PATH": str(folder / "bin"), **variables}


PRINT = f"sys.stdout.buffer.write(base64.b64decode({base64.b64encode(IMAGE).decode()!r}))"
WL_PASTE = f"""
if sys.argv[1:] == ["--list-types"]: print("text/html\\nimage/png")
elif sys.argv[1:] == ["--no-newline", "--type", "image/png"]: {PRINT}
else: sys.exit(1)"""
XCLIP = f"""
assert sys.argv[1:5] == ["-selection", "clipboard", "-o", "-t"]
if sys.argv[5] == "TARGETS": print("TARGETS\\nimage/png")
else: {PRINT}"""


PROGRAMS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("wl-paste", WL_PASTE, {"WAYLAND_DISPLAY": "wayland-0"}),
    ("xclip", XCLIP, {"DISPLAY": ":0"}),
    ("pngpaste", PRINT, {}),
    ("osascript", f"print('«data PNGf{IMAGE.hex().upper()}»')", {"PYTHONIOENCODING": "utf-8"}),
    ("powershell.exe", f"print({base64.b64encode(IMAGE).decode()!r})", {}),
)


async def test_image_is_read_by_the_program_of_the_desktop(tmp_path: Path) -> None:
    for name, lines, variables in PROGRAMS:
        folder = tmp_path / name
        folder.mkdir()
        program(folder, name, lines)
        assert await clipboard_image(desktop(folder, **variables)) == IMAGE, name


async def test_clipboard_without_a_usable_image_says_why(tmp_path: Path) -> None:
    for lines, why in (
        ("print('text/plain')", "There is no image on the clipboard"),
        ("sys.exit(1)", "There is no image on the clipboard"),
        ("while True: sys.stdout.buffer.write(bytes(1 << 20))", "too large"),
    ):
        program(tmp_path, "xclip", lines)
        with pytest.raises(NoImage, match=why):
            await clipboard_image(desktop(tmp_path, DISPLAY=":0"))
    for variables, why in (
        ({"WAYLAND_DISPLAY": "wayland-0"}, "install wl-clipboard"),
        ({"DISPLAY": ":0"}, "install xclip"),
        ({}, "without a desktop"),
    ):
        with pytest.raises(NoImage, match=why):
            await clipboard_image(desktop(tmp_path / "empty", **variables))


async def test_program_that_hangs_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord_chat.model.prompts.READ_S", 0.2)
    program(tmp_path, "pngpaste", "time.sleep(60)")
    with pytest.raises(NoImage, match="pngpaste did not respond in time"):
        await clipboard_image(desktop(tmp_path))


async def test_keys_attach_the_image_of_the_clipboard_or_say_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "pngpaste", PRINT)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    agent = Viewer()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        for key in ("alt+v", "ctrl+v"):
            await user.press(key)
            await user.sees("▣ clipboard.png · image/png · 139 bytes")
            await user.send("this")
            await user.until(lambda: "▣ clipboard.png · image/png · 139" not in user.screen)
            await user.until(lambda: not user.session.is_busy and not user.session.queue)
        found = [[(one.data, one.uri) for one in images(prompt)] for prompt in agent.prompts]
        assert found == [[(IMAGE, None)]] * 2
        (tmp_path / "bin" / "pngpaste").unlink()
        user.app.copy_to_clipboard("copied before")
        await user.press("ctrl+v")
        await user.until(lambda: user.composer.text == "copied before")
        await user.press("alt+v")
        await user.sees("There is no clipboard here")
