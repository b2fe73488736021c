"""Steers each agent during a turn, with a fake model: for a table of the page Compatibility.

1. *answer*: a message during a long answer. It is injected, or runs once after the answer.
2. *tool*: a message during a tool call, for agents that can be steered.
3. *cut*: a message with the fallback `cancel` during a long answer: the answer is cut, and the
   message is the next prompt.
4. a prompt afterwards: the session still works, and no message is run again.

    python tests/recordings/steer_agents.py                all agents that are installed
    python tests/recordings/steer_agents.py qwen-code      one

`tests/recordings/install_agents.sh` installs the agents.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import accord
from accord.errors import AccordError
from accord.transports.process import process
from recordings.agents import AGENTS, CODEX_CONFIG, OWN, ROOT, Known
from recordings.record import Place, fake_model

__all__ = ("DATA", "steer")

DATA = ROOT / "docs" / "reference" / "compatibility-steering.json"
TURN_S = 90.0
BEGIN_S = 15.0  # for the agent to show something of a turn
SETTLE_S = 1.5  # after a turn, for what comes late
COUNT = 30
LONG = f"Count to {COUNT}."
LAST = f"{COUNT - 1}"
INTERRUPTED = "interrupted your work"
LEFT_OUT = frozenset({"accord-coder", "accord-script", "minion"})  # ours, and a canned turn
MORE = (
    Known(
        "codex-acp-rust",
        (str(OWN / "@zed-industries/codex-acp-linux-x64/bin/codex-acp"),),
        env={"CODEX_HOME": "{home}/.codex", "OPENAI_API_KEY": "none"},
        home_files={".codex/config.toml": CODEX_CONFIG},
    ),
)  # that are not recorded


class Steering:
    """One agent; `found` has what happened."""

    def __init__(self, known: Known, agent: accord.ConnectedAgent, log: Path) -> None:
        self.known = known
        self.agent = agent
        self.log = log
        self.found: dict[str, Any] = {
            "program": agent.info.title or agent.info.name,
            "version": agent.info.version,
            "protocol": agent.version,
            "native": agent.supports("steer"),
        }
        self.session: accord.ClientSession = None  # type: ignore[assignment]

    async def run(self, place: Place) -> None:
        """Play all cases in one session."""
        self.session = await self.agent.new_session(place.project)
        if self.known.mode is not None:
            await self.session.set_mode(self.known.mode)
        await self.case("answer", LONG, "Ada", "queue")
        if self.found["native"]:
            await self.case("tool", "Sleep in a command.", "Eve", "queue")
        await self.case("cut", LONG, "Bob", "cancel")
        async with asyncio.timeout(TURN_S), self.session.prompt("Say hello to Cid.") as turn:
            await turn.wait()
        await asyncio.sleep(SETTLE_S)
        text = self.text(0)
        counts = {name: text.count(f"Hello {name}!") for name in ("Ada", "Bob", "Cid")}
        wrong = [f"{name} {count} times" for name, count in counts.items() if count != 1]
        self.found["again"] = "yes" if not wrong else f"answered {', '.join(wrong)}"

    async def case(self, name: str, prompt: str, friend: str, fallback: Any) -> None:
        """Say something during a turn."""
        message = f"Say hello to {friend}."
        began, start = time.monotonic(), len(self.session.transcript.items)
        case = self.found[name] = {}
        try:
            async with asyncio.timeout(TURN_S), self.session.prompt(prompt) as turn:
                await self.begun(turn, tool=name == "tool")
                requests = len(self.requests())
                asked = time.monotonic()
                steered = await turn.steer(message, fallback=fallback)
                case |= {"outcome": steered.outcome, "by": steered.by, "reason": steered.reason}
                case["answered_ms"] = round((time.monotonic() - asked) * 1000)
                case["stop_reason"] = await turn.wait()
                in_turn = turn.text.count(f"Hello {friend}!")
                case["unsent"] = len(turn.unsent) + len(turn.unconfirmed)
        except (AccordError, TimeoutError) as error:
            case["error"] = str(error) or f"the turn did not end within {TURN_S:g} s"
            return
        await asyncio.sleep(SETTLE_S)
        text = self.text(start)
        later = [said for said in self.requests()[requests:] if any(message in one for one in said)]
        case |= {
            "answers": text.count(f"Hello {friend}!"),
            "in_turn": in_turn,
            "finished": LAST in text.partition(f"Hello {friend}!")[0],
            "in_requests": max((sum(message in one for one in said) for said in later), default=0),
            "shown": self.shown(start, message),
            "told_of_the_cut": any(INTERRUPTED in one for said in later for one in said),
            "seconds": round(time.monotonic() - began, 1),
        }

    async def begun(self, turn: Any, *, tool: bool) -> None:
        """Wait until the agent works, and the model has been asked."""
        kinds: Any = accord.ToolCall if tool else accord.Text
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_S if self.known.name not in WHOLE else 1.0):
                async for event in turn:
                    if isinstance(event, kinds):
                        break
        await asyncio.sleep(0.5)

    def requests(self) -> list[list[str]]:
        """Return what the model was asked, one list of texts for each request."""
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]

    def text(self, start: int) -> str:
        """Return what the agent has said since an item."""
        return " ".join(self.said("agent", start))

    def shown(self, start: int, message: str) -> int:
        """Return how often the transcript has the message of the user."""
        return "\n".join(self.said("user", start)).count(message)

    def said(self, role: str, start: int) -> list[str]:
        """Return the messages of one side since an item."""
        items = self.session.transcript.items[start:]
        messages = (item for item in items if isinstance(item, accord.Message))
        return [message.text for message in messages if message.role == role]


# Their answers come as a whole, so that nothing shows that the model answers.
WHOLE = frozenset({"deepagents", "gptme", "openhands"})


async def steer(known: Known) -> dict[str, Any]:
    """Steer one agent; return what happened."""
    with tempfile.TemporaryDirectory(prefix="accord-steering-") as folder:
        log = Path(folder) / "requests"
        async with fake_model(log) as model:
            place = Place(Path(folder), model)
            place.prepare(known)
            start = process(
                *known.argv,
                cwd=place.project,
                env=place.environment(known),
                on_stdout_noise=lambda _line: None,
            )
            found: dict[str, Any] = {}
            try:
                async with accord.connect(
                    start, versions=[known.version], permissions=lambda _: "allow"
                ) as agent:
                    steering = Steering(known, agent, log)
                    found = steering.found
                    if known.program is not None:
                        found["program"], found["version"] = known.program
                    async with asyncio.timeout(5 * TURN_S):
                        await steering.run(place)
            except (AccordError, TimeoutError) as error:
                text = str(error).splitlines()[0] if str(error) else type(error).__name__
                found["error"] = place.hide(text.encode()).decode()[:300]
            return found


def problems(found: dict[str, Any]) -> list[str]:
    """Return what is not as promised."""
    if "error" in found:
        return [found["error"]]
    wrong: list[str] = []
    for name in ("answer", "tool", "cut"):
        case = found.get(name)
        if case is None:
            continue
        if "error" in case:
            wrong.append(f"{name}: {case['error']}")
            continue
        # A command that ends later is a further request to the model, which says the same again.
        if not case["answers"] or (name != "tool" and case["answers"] > 1):
            wrong.append(f"{name}: answered {case['answers']} times")
        if case["answers"] and not case["in_turn"]:
            wrong.append(f"{name}: answered after the end of the turn")
        if case["shown"] != 1:
            wrong.append(f"{name}: shown {case['shown']} times")
        if case["unsent"]:
            wrong.append(f"{name}: unsent")
        if case["in_requests"] != 1:
            wrong.append(f"{name}: {case['in_requests']} times in a request to the model")
        if found["native"] and case["outcome"] != "injected":
            wrong.append(f"{name}: {case['outcome']}")
    if found["again"] != "yes":
        wrong.append(found["again"])
    return wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Steer agents with a fake model.")
    parser.add_argument("name", nargs="*", help="an agent of agents.py; all if none is named")
    options = parser.parse_args(arguments)
    agents = (*AGENTS, *MORE)
    names = {known.name for known in agents}
    if unknown := set(options.name) - names:
        parser.error(f"unknown agents: {', '.join(sorted(unknown))}")
    for known in agents:
        chosen = known.name in options.name if options.name else True
        if not chosen or known.name in LEFT_OUT or known.has_link:
            continue
        if not known.is_installed:
            print(f"{known.name}: not installed")
            continue
        found = asyncio.run(steer(known))
        found["problems"] = problems(found)
        data = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
        data[known.name] = found
        print(f"{known.name}: {'; '.join(found['problems']) or 'ok'}", flush=True)
        text = json.dumps(dict(sorted(data.items())), indent=2, ensure_ascii=False)
        DATA.write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
