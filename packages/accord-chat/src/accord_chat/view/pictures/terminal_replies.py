"""What the terminal answers to questions about graphics, taken out of what the user types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Protocol: TypeAlias = Literal["kitty", "sixel"]

KITTY_ID = 4_012_001  # of the image in the question; nothing else has this number
_SIXEL = "4"  # among the attributes of a device
_MAX_HELD = 256
_REPLY = re.compile(
    r"\x1b_G(?P<kitty>[^\x1b]*)\x1b\\"
    r"|\x1b\[6;(?P<height>\d{1,5});(?P<width>\d{1,5})t"
    r"|\x1b\[\?(?P<attributes>[\d;]*)c"
)
_UNFINISHED = re.compile(r"\x1b(?:_(?:G[^\x1b]*\x1b?)?|\[\?[\d;]*|\[6;[\d;]*)$")


class TerminalGraphics(Struct, frozen=True):
    """What a terminal can show."""

    protocol: Protocol | None = None
    cell_width: int | None = None  # pixels
    cell_height: int | None = None


def question(environment: Mapping[str, str]) -> str | None:
    """Return what asks the terminal; None if this terminal would show the question itself.

    The last part is answered by every terminal, so nothing has to wait for what is not answered.
    """
    name = environment.get("TERM", "")
    if name in ("", "dumb", "linux"):
        return None
    cell_size, attributes = "\x1b[16t", "\x1b[c"
    # tmux and screen take this for a title.
    if environment.get("TMUX") or name.startswith(("tmux", "screen")):
        return cell_size + attributes
    if environment.get("TERM_PROGRAM") == "Apple_Terminal":
        return cell_size + attributes
    kitty = f"\x1b_Gi={KITTY_ID},s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"
    return kitty + cell_size + attributes


class Replies:
    """Collects the answers, which may come in pieces, between keys, and late."""

    def __init__(self) -> None:
        self.graphics = TerminalGraphics()
        self.is_complete = False
        self._on_complete: Callable[[], object] | None = None
        self._held = ""

    def expect(self, on_complete: Callable[[], object]) -> None:
        """Take answers out of the input from now on; `on_complete` is called at the last one."""
        self._on_complete = on_complete

    def take(self, data: str) -> str:
        """Return the input without answers."""
        if self._on_complete is None:
            return data
        data, self._held = self._held + data, ""
        kept = _REPLY.sub(self._note, data)
        unfinished = _UNFINISHED.search(kept)
        if unfinished is not None and not self.is_complete and len(unfinished[0]) < _MAX_HELD:
            self._held = unfinished[0]
            kept = kept[: unfinished.start()]
        return kept

    def _note(self, reply: re.Match[str]) -> str:
        now = self.graphics
        if (kitty := reply["kitty"]) is not None:
            if f"i={KITTY_ID}" in kitty.partition(";")[0].split(",") and kitty.endswith(";OK"):
                self.graphics = TerminalGraphics("kitty", now.cell_width, now.cell_height)
        elif (attributes := reply["attributes"]) is not None:
            if now.protocol is None and _SIXEL in _further(attributes.split(";")):
                self.graphics = TerminalGraphics("sixel", now.cell_width, now.cell_height)
            self.is_complete = True
            if self._on_complete is not None:
                self._on_complete()
        elif int(reply["width"]) and int(reply["height"]):
            self.graphics = TerminalGraphics(
                now.protocol, int(reply["width"]), int(reply["height"])
            )
        return ""


def _further(attributes: Iterable[str]) -> list[str]:
    """Return the attributes after the first, which is the class of the terminal."""
    return list(attributes)[1:]
