"""Uses each agent in `accord chat`, as a person does: for a table of the page Compatibility.

The program runs in a pseudo-terminal, with a real agent and a fake model, and gets only keys:

1. a prompt and its answer
2. a prompt that changes a file at two places; `y` allows it, F4 and `x` reject the first change,
   and the file on the disk must have the second one only
3. a prompt whose turn is cancelled with Esc, and another one afterwards
4. Ctrl+Q, the program again, and another prompt in the same session

    python tests/recordings/use_chat.py                     all agents that are installed
    python tests/recordings/use_chat.py qwen-code           one
    python tests/recordings/use_chat.py --screens FOLDER    and save the screen at each step

The saved screens show whether a row is true.

`tests/recordings/install_agents.sh` installs the agents.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from recordings.chat_agents import CHAT_AGENTS, ChatAgent, Say  # noqa: E402
from recordings.chat_screen import ChatScreen, NotSeen  # noqa: E402
from recordings.compatibility import (  # noqa: E402
    answers,
    by_method,
    messages,
    turns_of,
    version_of,
)
from recordings.fake_model import NEW, NO, OLD, YES  # noqa: E402
from recordings.record import Place, fake_model  # noqa: E402

__all__ = ("DATA", "use")

DATA = ROOT / "docs" / "reference" / "compatibility-chat.json"
WAIT_S = 60.0
START_S = 240.0  # the first start of an agent with hundreds of modules
REVIEW = "a accept · x reject"
NO_CHANGES = "has shown no changes"
TOLD = "I have undone your changes"
NOT_UNDONE = "! not undone"
REFUSED = "The earlier session could not be opened"
CANCELLED_AT_ONCE = "Cancelled · 0 s"  # the next turn, too
UNDONE = "rejected: the old text is back"


class Use:
    """One agent in use; `found` has what happened."""

    def __init__(
        self, agent: ChatAgent, folder: Path, model: str, wait_s: float, screens: Path | None
    ) -> None:
        self.agent = agent
        self._screens = screens
        self._steps = itertools.count(1)
        self.place = Place(folder, model)
        self.place.prepare(agent.known)
        self.notes = self.place.project / "notes.txt"
        self.notes.write_text(OLD)
        self.found: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self._wait_s = wait_s
        self._record = folder / "messages"
        self._record.mkdir()
        env = self.place.environment(agent.known)
        self._env = {name: value for name, value in env.items() if value is not None}
        self._env |= {"ACCORD_CONFIG": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        (folder / "settings.toml").write_text(self._settings())

    def _settings(self) -> str:
        recorder = [sys.executable, "-m", "accord", "trace", "record", "--no-redact", "-o"]
        argv = [self.place.filled(word) for word in self.agent.known.argv]
        command = [*recorder, str(self._record / "{pid}.acp.jsonl"), "--", *argv]
        protocol = self.agent.known.version
        lines = [f"command = {json.dumps(command)}", f"protocol = {protocol}"]
        if self.agent.mode is not None:
            lines.append(f'mode = "{self.agent.mode}"')
        return "\n".join([f"[agents.{self.agent.name}]", *lines, ""])

    def start(self) -> ChatScreen:
        """Start the chat as a user does, and wait for the agent."""
        words = ["--agent", self.agent.name]
        screen = ChatScreen(
            words,
            self.place.project,
            self._env,
            wait_s=max(START_S, self._wait_s),
            on_question=lambda text: self._save("question", text),
        )
        try:
            screen.sees("F1")
            screen.rests()
        except BaseException:
            screen.close()
            raise
        screen.wait_s = self._wait_s
        return screen

    def first_run(self) -> None:
        with self.timed("start"):
            screen = self.start()
        try:
            with self.timed("turn"):
                self._say(screen, self.agent.hello)
            self._save("hello", screen.text)
            self._change(screen)
            self._cancel(screen)
            self.found["left_running"] = screen.leave()
        finally:
            screen.close()

    def _save(self, step: str, text: str) -> None:
        """Save a screen, if they are saved."""
        if self._screens is not None:
            file = self._screens / f"{self.agent.name}-{next(self._steps):02}-{step}.txt"
            file.write_text(text + "\n", "utf-8")

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)

    def _say(self, screen: ChatScreen, say: Say) -> None:
        screen.send(say.prompt.replace("{notes}", str(self.notes)))
        screen.rests(say.answer, answers="y")

    def _change(self, screen: ChatScreen) -> None:
        """Let the agent change the file at two places, and undo the first change."""
        self._say(screen, self.agent.edit)
        self.found["changed"] = self.notes.read_text() == NEW
        self._save("edit", screen.text)
        screen.press("F4")
        screen.until("the review", lambda: REVIEW in screen.text or NO_CHANGES in screen.text)
        self._save("review", screen.text)
        if NO_CHANGES in screen.text:
            self.found |= {"hunks": 0, "rejected": False}
            return
        title = screen.text.partition("\n")[0]
        self.found["hunks"] = int(title.partition(" of ")[2].split()[0])
        for at in range(2, self.found["hunks"] + 1):  # an agent can write its log there, too
            if "notes.txt:" in title:
                break
            screen.press("Right")
            screen.sees(f"change {at} of")
            title = screen.text.partition("\n")[0]
        screen.press("x")
        screen.until("the verdict", lambda: UNDONE in screen.text or NOT_UNDONE in screen.text)
        self._save("rejected", screen.text)
        has_rest = self.notes.read_text() == NEW.replace("report", "draft", 1)
        self.found["rejected"] = UNDONE in screen.text and has_rest
        self.found["why_not"] = screen.text.partition(NOT_UNDONE)[2].partition("\n")[0].strip(" │:")
        screen.press("Esc")
        screen.until("the end of the review", lambda: REVIEW not in screen.text)
        if self.found["rejected"]:
            screen.sees(TOLD)  # the next prompt says it to the agent
            if not self.agent.tells_undone:
                screen.press("Ctrl+C")
                screen.until("an empty prompt", lambda: TOLD not in screen.text)

    def _cancel(self, screen: ChatScreen) -> None:
        """Cancel a turn with the keyboard; the session must go on."""
        screen.send(self.agent.slow.prompt)
        screen.works(self.agent.slow.answer, answers="y")
        with self.timed("cancel"):
            screen.press("Esc")
            screen.rests()
        self._save("cancelled", screen.text)
        screen.send(self.agent.again.prompt)
        screen.rests(self.agent.again.answer, CANCELLED_AT_ONCE, answers="y")
        self._save("again", screen.text)
        self.found["goes_on"] = self.agent.again.answer in screen.text

    def second_run(self) -> None:
        """Start the program again: the session is back, and takes another prompt."""
        if self.agent.needs_new_minute:
            time.sleep(61 - time.time() % 60)
        with self.timed("restart"):
            screen = self.start()
        try:
            self._save("restarted", screen.text)
            refused = screen.text.partition(REFUSED)[2].partition("\n\n")[0]
            self.found["refused"] = " ".join(refused.split("\n")[1:]).strip()
            said = (self.agent.hello.answer, self.agent.edit.answer, self.agent.again.answer)
            self.found["shows_conversation"] = any(text in screen.text for text in said)
            if self.agent.recalls:
                screen.send("Did I say hello?")
                screen.rests(YES, NO, answers="y")
                self.found["remembers"] = YES in screen.text
            else:
                self._say(screen, self.agent.hello)
            self._save("remembers", screen.text)
            screen.leave()
        finally:
            screen.close()

    def read_messages(self) -> None:
        """Add what only the messages say."""
        paths = sorted(self._record.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        first, second = (messages(path) for path in paths)
        answer = next(answers(first, "initialize")).value
        info = answer.get("agentInfo") or answer.get("info") or {}
        reported = (str(info.get("title") or info.get("name", "")), str(info.get("version", "")))
        program, version = self.agent.known.program or reported
        again = (one.method for one in second if one.method in ("session/load", "session/resume"))
        self.found = {
            "agent": self.agent.name,
            "program": program,
            "version": version,
            "protocol": version_of(first),
            "mode": self.agent.mode,
            "permissions": sum(1 for _ in by_method(first, "session/request_permission")),
            **self.found,
            "cancel": next((reason for reason in turns_of(first)[2:3]), None),
            "resume": (resume := next(again, None)),
            "remembers": self.found.get("remembers") if resume else None,
            "seconds": self.seconds,
            "remarks": list(self.agent.remarks),
        }


def use(
    agent: ChatAgent,
    folder: Path,
    model: str = "",
    *,
    wait_s: float = WAIT_S,
    screens: Path | None = None,
) -> dict[str, Any]:
    """Use an agent; return what happened. Raises `NotSeen` if a step is not possible.

    The screen at each step is saved in the folder `screens`.
    """
    one = Use(agent, folder, model, wait_s, screens)
    one.first_run()
    one.second_run()
    one.read_messages()
    return one.found


def write(found: list[dict[str, Any]]) -> None:
    """Replace the rows of these agents."""
    before = json.loads(DATA.read_text("utf-8")) if DATA.exists() else []
    rows = {row["agent"]: row for row in (*before, *found)}
    known = [rows[agent.name] for agent in CHAT_AGENTS if agent.name in rows]
    DATA.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n", "utf-8")


async def main(names: Sequence[str], screens: Path | None) -> int:
    status = 0
    for agent in CHAT_AGENTS:
        if names and agent.name not in names:
            continue
        if not agent.known.is_installed:
            print(f"{agent.name}: not installed")
            status |= bool(names)
            continue
        with tempfile.TemporaryDirectory(prefix="accord-chat-") as folder:
            async with fake_model() as model:
                try:
                    found = await asyncio.to_thread(
                        use, agent, Path(folder), model, screens=screens
                    )
                except NotSeen as error:
                    print(f"{agent.name}: {error}")
                    status = 1
                    continue
        write([found])
        print(f"{agent.name}: {json.dumps(found)}", flush=True)
    return status


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; exit for an unknown agent."""
    parser = argparse.ArgumentParser(description="Use agents in accord chat, with a fake model.")
    parser.add_argument("name", nargs="*", help="an agent of chat_agents.py; all if none is named")
    parser.add_argument("--screens", type=Path, metavar="FOLDER", help="save the screens there")
    options = parser.parse_args(arguments)
    unknown = set(options.name) - {agent.name for agent in CHAT_AGENTS}
    if unknown:
        parser.error(f"unknown agents: {', '.join(sorted(unknown))}")
    if options.screens is not None:
        options.screens.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    given = options_of(sys.argv[1:])
    sys.exit(asyncio.run(main(given.name, given.screens)))
