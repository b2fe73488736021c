"""The turns of the independent agent: the first word of the prompt selects what it does."""

from __future__ import annotations

import base64
import itertools
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peer import BREAK, CANCELLED, GONE, INTERNAL, VARY, Refused, Withdrawn

if TYPE_CHECKING:
    from conformance.independent.agent import Agent, Session

Json = Any
NUMBERS = itertools.count(1)
LONG = 120.0
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def words(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


class Turn:
    """One prompt and its work."""

    def __init__(
        self, agent: Agent, session: Session, request_id: Json, text: str, params: dict[str, Json]
    ) -> None:
        self.agent = agent
        self.session = session
        self.request_id = request_id
        self.text = text
        self.blocks = params["prompt"]
        self.v2 = agent.version == 2
        self.asking = False
        self.withdrawn = False
        self.stop = threading.Event()
        self.wakes = self.stop  # the request that the work awaits
        self.done = threading.Event()
        self.lock = threading.Lock()
        self.pending: dict[int, queue.SimpleQueue[Json]] = {}
        self.open_tools: list[str] = []
        self.told_tools: list[str] = []
        self.message = ""

    def cancel(self) -> None:
        with self.lock:
            if self.stop.is_set():
                return
            self.stop.set()
            self.wakes.set()
            for request_id, answers in self.pending.items():
                if "leaves-open" not in BREAK:
                    self.agent.peer.note("$/cancel_request", {"requestId": request_id})
                answers.put(GONE)

    def ask(self, method: str, params: dict[str, Json], *, hold: bool = False) -> Json:
        """Send a request; a cancelled turn does not wait, unless the response is needed."""
        with self.lock:
            if self.stop.is_set() and not hold:
                raise Withdrawn
            request_id, answers = self.agent.peer.ask(
                method, {"sessionId": self.session.id, **params}
            )
            if not hold:
                self.pending[request_id] = answers
        try:
            answer = self.agent.peer.wait(answers)
        finally:
            with self.lock:
                self.pending.pop(request_id, None)
        if self.stop.is_set() and not hold:
            raise Withdrawn
        return answer

    def ask_user(self, method: str, params: dict[str, Json]) -> Json:
        """Send a request to the user, which blocks the work."""
        self.state("requires_action", asking=True)
        try:
            return self.ask(method, params)
        finally:
            if self.stop.is_set():
                self.asking = False
            else:
                self.state("running")

    def state(self, name: str, *, asking: bool = False, **fields: Json) -> None:
        with self.session.lock:
            self.asking = asking
            self.agent.say_state(self.session, {"state": name, **fields})

    def tell(self, kind: str, fields: dict[str, Json], *, keep: bool = True) -> None:
        with self.session.lock:
            self.agent.update(self.session, kind, fields)
            if keep:
                self.session.history.append({"sessionUpdate": kind, **fields})

    def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        if kind != "agent_message_chunk" or not self.message:
            self.message = f"message-{next(NUMBERS)}"
        if "whole" in VARY and self.v2:
            self.message = f"message-{next(NUMBERS)}"
            whole = {"messageId": self.message, "content": [words(text)]}
            self.tell(kind.removesuffix("_chunk"), whole)
        elif "whole" in VARY:
            self.tell(kind, {"content": words(text)})  # version 1 needs no ids
        else:
            self.tell(kind, {"messageId": self.message, "content": words(text)})

    # The start and end of a turn.

    def run(self) -> Callable[[], None]:
        """Do the work, and return how it ended."""
        return self.run_v2() if self.v2 else self.run_v1()

    def run_v1(self) -> Callable[[], None]:
        for block in self.blocks:
            update = {"sessionUpdate": "user_message_chunk", "content": block}
            self.session.history.append(update)
        peer = self.agent.peer
        try:
            reason = self.work()
            if "cancel-error" in VARY and self.withdrawn and reason == "cancelled":
                raise Refused(CANCELLED, "Request cancelled")
        except Refused as refused:
            return partial(peer.refuse, self.request_id, refused)
        result = {"stopReason": reason}
        if reason == "end_turn" and "no-stop-reason" in BREAK:
            result = {}
        if reason == "end_turn" and "late-update" in BREAK and self.told_tools:
            return partial(self.end_too_early, result, self.told_tools[-1])
        return partial(peer.answer, self.request_id, result)

    def end_too_early(self, result: dict[str, Json], tool: str) -> None:
        """Send a last update after the response: at once, before a client that reads it leaves."""
        with self.agent.peer.together():
            self.agent.peer.answer(self.request_id, result)
            self.on_tool(tool, title="Late")

    def run_v2(self) -> Callable[[], None]:
        message = f"message-{next(NUMBERS)}"
        if "chunks" in VARY:  # the response first, then the message in chunks
            self.agent.peer.answer(self.request_id, {"messageId": message})
            for block in self.blocks:
                self.tell("user_message_chunk", {"messageId": message, "content": block})
            self.state("running")
        else:
            self.state("running")
            self.tell("user_message", {"messageId": message, "content": self.blocks})
            self.agent.peer.answer(self.request_id, {"messageId": message})
        try:
            end: dict[str, Json] = {"stopReason": self.work()}
        except Refused as refused:
            end = {"stopReason": "error", "error": refused.error}
        return partial(self.agent.say_state, self.session, {"state": "idle", **end})

    def work(self) -> str:
        first = self.text.split(maxsplit=1)[0].lower() if self.text.strip() else ""
        try:
            WORK.get(first, Turn.talk)(self)
            self.session.updated = datetime.now(UTC).isoformat()
        except Withdrawn:
            for tool in list(self.open_tools):
                stoppable = self.session.stoppable.pop(tool, None) is not None
                withdrawn = {"capabilities": None} if stoppable else {}
                self.end_tool(tool, "cancelled" if self.v2 else "failed", **withdrawn)
            return "end_turn" if "works-on" in BREAK else "cancelled"
        return "end_turn"

    def check(self) -> None:
        if self.stop.is_set():
            raise Withdrawn

    # Tools.

    def tool(self, title: str, kind: str, **fields: Json) -> str:
        tool = f"call-{next(NUMBERS)}"
        self.open_tools.append(tool)
        self.told_tools.append(tool)
        shape = {"toolCallId": tool, "title": title, "name": kind, "kind": kind}
        first = shape | {"status": "pending"} | fields
        self.tell("tool_call_update" if self.v2 else "tool_call", first)
        return tool

    def on_tool(self, tool: str, **fields: Json) -> None:
        self.tell("tool_call_update", {"toolCallId": tool, **fields})

    def end_tool(self, tool: str, status: str = "completed", **fields: Json) -> None:
        self.open_tools.remove(tool)
        self.on_tool(tool, status=status, **fields)
        if "backwards" in BREAK and status == "completed":
            self.on_tool(tool, status="in_progress")

    def in_directory(self, name: str) -> str:
        return str(Path(self.session.cwd) / name)

    # The commands.

    def talk(self) -> None:
        self.say("Somebody greets me.", "agent_thought_chunk")
        self.message = ""
        done = [("Think", "completed"), ("Answer", "in_progress")]
        entries = [{"content": what, "priority": "medium", "status": is_} for what, is_ in done]
        if self.v2:
            plan = {"type": "items", "planId": "plan", "entries": entries}
            self.tell("plan_update", {"plan": plan})
        else:
            self.tell("plan", {"entries": entries})
        if self.v2 or self.agent.offers("session", "notices"):
            notice = {"severity": "info", "title": "This agent only pretends."}
            self.tell("notice", notice, keep=False)
        self.say("hel")
        self.say("lo")
        self.tell("usage_update", {"used": 120, "size": 8000}, keep=False)

    def list_files(self) -> None:
        tool = self.tool("List files", "search")
        self.on_tool(tool, status="in_progress")
        names = sorted(path.name for path in Path(self.session.cwd).iterdir())
        listed = {"type": "content", "content": words("\n".join(names))}
        self.end_tool(tool, content=[listed])
        self.say(f"There are {len(names)} files.")

    def permitted(self, tool: str, title: str) -> bool:
        if self.v2:
            subject = {"type": "tool_call", "toolCall": {"toolCallId": tool}}
            params: dict[str, Json] = {"title": f"{title}?", "subject": subject}
        else:
            params = {"toolCall": {"toolCallId": tool, "title": title}}
        try:
            answer = self.ask_user("session/request_permission", {**params, "options": OPTIONS})
        except Refused:
            return False
        outcome = answer.get("outcome") if isinstance(answer, dict) else None
        if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
            return False
        if "unknown-option" in BREAK:
            return outcome.get("optionId") != "no"
        return outcome.get("optionId") == "yes"

    def touch(self) -> None:
        tool = self.tool(
            "Run touch permitted.txt", "execute", rawInput={"command": "touch permitted.txt"}
        )
        if self.permitted(tool, "Run touch permitted.txt"):
            self.on_tool(tool, status="in_progress")
            Path(self.in_directory("permitted.txt")).touch()
            self.end_tool(tool)
            self.say("I made the file.")
        else:
            self.end_tool(tool, "cancelled" if self.v2 else "failed")
            self.say("I was not allowed to.")

    def read(self) -> None:
        path = self.in_directory("note.txt")
        shown = "note.txt" if "relative-path" in BREAK else path
        tool = self.tool("Read note.txt", "read", locations=[{"path": shown, "line": 1}])
        self.on_tool(tool, status="in_progress")
        try:
            if not self.v2 and self.agent.offers("fs", "readTextFile"):
                text = self.ask("fs/read_text_file", {"path": path})["content"]
            else:
                text = Path(path).read_text("utf-8")
        except (Refused, OSError, ValueError):
            self.end_tool(tool, "failed")
            self.say("There is no such file.")
            return
        self.end_tool(tool, content=[{"type": "content", "content": words(text)}])
        self.say(text)

    def diff(self, path: str, text: str, old: str | None) -> dict[str, Json]:
        if not self.v2:
            return {"type": "diff", "path": path, "oldText": old, "newText": text}
        operation = "add" if old is None else "modify"
        change = {"operation": operation, "path": path, "fileType": "text"}
        diff: dict[str, Json] = {"type": "diff", "changes": [change | {"mimeType": "text/plain"}]}
        if old is None:
            lines = [f"diff --git {path} {path}", "new file mode 100644", "--- /dev/null"]
            lines += [f"+++ {path}", "@@ -0,0 +1 @@", f"+{text}"]
            diff["patch"] = {"format": "git_patch", "text": "\n".join(lines)}
        return diff

    def write(self) -> None:
        path, text = self.in_directory("written.txt"), "hello\n"
        file = Path(path)
        old = file.read_text("utf-8") if file.exists() else None
        content = [self.diff(path, text, old)]
        tool = self.tool("Write written.txt", "edit", locations=[{"path": path}], content=content)
        if not self.permitted(tool, "Write written.txt"):
            self.end_tool(tool, "cancelled" if self.v2 else "failed")
            return
        self.on_tool(tool, status="in_progress")
        try:
            if not self.v2 and self.agent.offers("fs", "writeTextFile"):
                self.ask("fs/write_text_file", {"path": path, "content": text})
            else:
                file.write_text(text, "utf-8")
        except (Refused, OSError):
            self.end_tool(tool, "failed")
            return
        self.end_tool(tool)
        self.say("Written.")

    def run_command(self) -> None:
        tool = self.tool("Run echo hello", "execute")
        self.on_tool(tool, status="in_progress")
        if self.v2:
            self.display(tool)
        elif self.agent.offers("terminal"):
            self.in_terminal(tool)
        else:
            printed = subprocess.run(["echo", "hello"], capture_output=True, text=True, check=False)
            self.end_tool(tool, content=[{"type": "content", "content": words(printed.stdout)}])
        self.say("It printed hello.")

    def in_terminal(self, tool: str) -> None:
        command = {"command": "echo", "args": ["hello"], "cwd": self.session.cwd}
        self.check()
        # The terminal must be released, so wait for its id even if the turn is cancelled.
        try:
            made = self.ask("terminal/create", command, hold=True)
        except Refused:
            self.end_tool(tool, "failed")
            return
        terminal = {"terminalId": made["terminalId"]}
        try:
            self.on_tool(tool, content=[{"type": "terminal", **terminal}])
            ended = self.ask("terminal/wait_for_exit", terminal)
            shown = self.ask("terminal/output", terminal)
        finally:
            with suppress(Refused):
                if "keeps-terminals" in BREAK:
                    raise Refused(INTERNAL, "Kept")
                self.ask("terminal/release", terminal, hold=True)
        self.end_tool(tool, rawOutput={"output": shown["output"], "code": ended.get("exitCode")})

    def display(self, tool: str) -> None:
        terminal = {"terminalId": f"terminal-{next(NUMBERS)}"}
        about = {**terminal, "command": "echo hello", "cwd": self.session.cwd}
        self.tell("terminal_update", about)
        self.on_tool(tool, content=[{"type": "terminal", **terminal}])
        done = subprocess.run(
            ["echo", "hello"], cwd=self.session.cwd, capture_output=True, check=False
        )
        data = base64.b64encode(done.stdout).decode()
        self.tell("terminal_output_chunk", {**terminal, "data": data}, keep=False)
        self.tell("terminal_update", {**terminal, "exitStatus": {"exitCode": done.returncode}})
        shown = {"sessionUpdate": "terminal_update", **terminal, "output": {"data": data}}
        self.session.history.append(shown)
        self.end_tool(tool)

    def elicit(self) -> None:
        if not self.agent.offers("elicitation", "form"):
            self.say("What is your name?")
            return
        name = {"type": "string", "title": "Name", "minLength": 1}
        schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
        form = {"mode": "form", "message": "Who are you?", "requestedSchema": schema}
        try:
            answer = self.ask_user("elicitation/create", form)
        except Refused:
            answer = {}
        content = answer.get("content") if isinstance(answer, dict) else None
        given = content.get("name") if isinstance(content, dict) else None
        if isinstance(answer, dict) and answer.get("action") == "accept" and isinstance(given, str):
            self.say(f"Hello, {given}.")
        else:
            self.say("Then not.")

    def wait(self) -> None:
        tool = self.tool("Wait", "think")
        self.on_tool(tool, status="in_progress")
        self.say("I wait.")
        if self.stop.wait(LONG):
            if "works-on" in BREAK:
                self.end_tool(tool)
            raise Withdrawn
        self.end_tool(tool)

    def detach(self) -> None:
        """Start a tool call that continues after the turn."""
        tool = self.tool("Watch", "other", capabilities={"cancel": {}})
        stop = threading.Event()
        session = self.session
        with session.lock:
            self.on_tool(tool, status="in_progress")
            self.open_tools.remove(tool)
            session.stoppable[tool] = session.background[tool] = stop

        def watch() -> None:
            stopped = stop.wait(LONG)
            with session.lock:
                status = "cancelled" if stopped else "completed"
                session.stoppable.pop(tool, None)
                self.on_tool(tool, status=status, capabilities=None)
                del session.background[tool]
                self.agent.update(session, "state_update", session.state())

        threading.Thread(target=watch, name=session.id, daemon=True).start()
        self.say("I keep watch.")

    def stoppable(self) -> None:
        """Run something that can be cancelled individually, while the turn continues."""
        tool = self.tool("Take long", "other", capabilities={"cancel": {}})
        self.on_tool(tool, status="in_progress")
        stop = threading.Event()
        self.session.stoppable[tool] = self.wakes = stop
        self.check()
        stop.wait(LONG)
        self.session.stoppable.pop(tool, None)
        self.check()
        self.end_tool(tool, "cancelled", capabilities=None)
        self.say("Then without it.")

    def name(self) -> None:
        self.session.title = "A named conversation"
        self.tell("session_info_update", {"title": self.session.title}, keep=False)

    def greet(self) -> None:
        rest = self.text.split(maxsplit=1)
        self.say(f"Hello, {rest[1] if len(rest) > 1 else 'you'}!")

    def fail(self) -> None:
        raise Refused(INTERNAL, "The work failed")


WORK = {
    "list": Turn.list_files,
    "touch": Turn.touch,
    "read": Turn.read,
    "write": Turn.write,
    "run": Turn.run_command,
    "ask": Turn.elicit,
    "wait": Turn.wait,
    "detach": Turn.detach,
    "stoppable": Turn.stoppable,
    "name": Turn.name,
    "fail": Turn.fail,
    "/greet": Turn.greet,
}
