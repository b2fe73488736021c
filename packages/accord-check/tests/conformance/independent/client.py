"""A client that keeps all rules, written from the catalogue alone.

    client.py [--version N] [--cwd DIR] [--reject] [--cancel-on WORD] PROMPT… -- COMMAND…

It prints what happened as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from peer import INVALID, LATER, LOGIN, NO_METHOD, PARAMS, Peer, Refused, Withdrawn
from service import Files, Terminals, fill

Json = Any
INFO = {"name": "independent", "title": "The independent client", "version": "1.0"}
KINDS = {"allow_once", "allow_always", "reject_once", "reject_always"}
FORMS = {"form": {}, "url": {}}
PATIENCE = 150.0  # a prompt for all scenarios takes long on a busy machine


class Line(Peer):
    """Holds back the agent's messages until it has answered `initialize`."""

    initialized = False

    def __init__(self, *args: Json) -> None:
        super().__init__(*args)
        self.early: list[dict[str, Json]] = []

    def _called(self, message: dict[str, Json]) -> None:
        if self.initialized:
            super()._called(message)
        else:
            self.early.append(message)

    def _answered(self, message: dict[str, Json]) -> None:
        if not self.initialized and message.get("id") == 1 and "result" in message:
            result = message["result"]
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            self.version = version if version in (1, 2) and type(version) is int else 0
            self.initialized = self.version != 0
        super()._answered(message)
        if self.initialized:
            while self.early:
                super()._called(self.early.pop(0))


class Client:
    """A client without a user."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cwd = str(Path(options.cwd).resolve())
        self.process = subprocess.Popen(
            options.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.cwd
        )
        assert self.process.stdin
        assert self.process.stdout
        read, write = (self.process.stdout.readline, partial(os.write, self.process.stdin.fileno()))
        self.peer = Line(read, write, self.request, self.note)
        self.files = Files(self.cwd)
        self.terminals = Terminals(self.cwd)
        self.lock = threading.Condition()
        self.sessions: set[str] = set()
        self.opening = 0  # sessions that are being opened: their ids are unknown
        self.state = "idle"
        self.reason: Json = None
        self.cancelled = False
        self.busy = False
        self.text = ""
        self.seen: dict[str, Json] = {"texts": [], "stops": [], "calls": [], "tools": {}}

    # Messages of the agent.

    def note(self, method: str, params: dict[str, Json]) -> None:
        update, session = params.get("update"), str(params.get("sessionId"))
        if method != "session/update" or not isinstance(update, dict):
            return  # as with `$/cancel_request`: all requests are answered at once
        with self.lock:
            if session not in self.sessions and not self.opening:
                return
            self.updated(session, update)
            self.lock.notify_all()

    def updated(self, session: str, update: dict[str, Json]) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                content = update.get("content")
                if isinstance(content, dict) and isinstance(content.get("text"), str):
                    self.said(session, content["text"])
            case "agent_message" if isinstance(update.get("content"), list):
                for block in update["content"]:
                    if isinstance(block, dict) and isinstance(block.get("text"), str):
                        self.said(session, block["text"])
            case "tool_call" | "tool_call_update":
                if isinstance(update.get("toolCallId"), str) and isinstance(
                    update.get("status"), str
                ):
                    self.seen["tools"][update["toolCallId"]] = update["status"]
            case "state_update" if isinstance(update.get("state"), str):
                self.state = update["state"]
                if self.state == "idle" and update.get("stopReason") is not None:
                    self.reason = update["stopReason"]

    def said(self, session: str, text: str) -> None:
        self.text += text
        word = self.options.cancel_on
        if word and word in self.text and self.busy and not self.cancelled:
            self.cancelled = True
            self.peer.note("session/cancel", {"sessionId": session})

    def request(self, request_id: Json, method: str, params: dict[str, Json]) -> Json:
        self.seen["calls"].append(method)
        calls = CALLS[self.peer.version]
        if method not in calls:
            raise Refused(NO_METHOD, "Method not found")
        if method == "elicitation/create":
            return self.elicited(params)
        session = params.get("sessionId")
        if not isinstance(session, str):
            raise Refused(PARAMS, "Expected a string as sessionId")
        if session not in self.sessions and not self.opening:
            if method == "session/request_permission":
                return {"outcome": {"outcome": "cancelled"}}
            raise Refused(PARAMS, "No such session")
        if method == "terminal/wait_for_exit":
            terminal = self.terminals.find(params)
            threading.Thread(
                target=lambda: self.peer.answer(request_id, terminal.wait()), daemon=True
            ).start()
            return LATER
        return calls[method](self, params)

    def permission(self, params: dict[str, Json]) -> Json:
        options = params.get("options")
        if not isinstance(options, list) or (self.peer.version == 2 and not options):
            raise Refused(PARAMS, "Expected a list of options")
        for option in options:
            if not isinstance(option, dict) or not all(
                isinstance(option.get(key), str) for key in ("optionId", "name", "kind")
            ):
                raise Refused(PARAMS, "Malformed option")
            if self.peer.version == 1 and option["kind"] not in KINDS:
                raise Refused(PARAMS, "Unknown kind of option")
        if self.peer.version == 1:
            tool = params.get("toolCall")
        else:
            tool = self.subject(params)
        sound = isinstance(tool, dict) and isinstance(tool.get("toolCallId"), str)
        if not sound and not (tool is None and self.peer.version == 2):
            raise Refused(PARAMS, "Malformed tool call")
        with self.lock:
            if self.cancelled:
                return {"outcome": {"outcome": "cancelled"}}
        wanted = ("reject_once", "reject_always") if self.options.reject else ("allow_once",)
        for kind in wanted:
            for option in options:
                if option["kind"] == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        if self.peer.version == 1 and options:
            return {"outcome": {"outcome": "selected", "optionId": options[-1]["optionId"]}}
        return {"outcome": {"outcome": "cancelled"}}

    def subject(self, params: dict[str, Json]) -> Json:
        """Check the members that version 2 adds, and return the tool call of the request."""
        subject = params.get("subject")
        if not isinstance(params.get("title"), str):
            raise Refused(PARAMS, "Expected a string as title")
        if subject is None:
            return None
        if not isinstance(subject, dict) or not isinstance(subject.get("type"), str):
            raise Refused(PARAMS, "Malformed subject")
        if subject["type"] == "command":
            command, cwd = subject.get("command"), subject.get("cwd")
            if not isinstance(command, str) or not isinstance(cwd, str) or cwd[:1] != "/":
                raise Refused(PARAMS, "Malformed command")
        return subject.get("toolCall", {}) if subject["type"] == "tool_call" else None

    def elicited(self, params: dict[str, Json]) -> Json:
        mode = params.get("mode")
        scopes = [key for key in ("sessionId", "requestId") if key in params]
        if not scopes or (self.peer.version == 2 and len(scopes) > 1):
            raise Refused(PARAMS, "Expected one scope")
        if mode not in ("form", "url") or not isinstance(params.get("message"), str):
            raise Refused(PARAMS, "Unsupported form of elicitation")
        if mode == "url":
            if not all(isinstance(params.get(key), str) for key in ("url", "elicitationId")):
                raise Refused(PARAMS, "Malformed elicitation")
            return {"action": "decline"}  # no user can agree to open it
        content = fill(params.get("requestedSchema"), self.peer.version)
        if self.cancelled:
            return {"action": "cancel"}
        return (
            {"action": "decline"} if content is None else {"action": "accept", "content": content}
        )

    # Actions of the client.

    def initialize(self) -> dict[str, Json]:
        params: dict[str, Json] = {"protocolVersion": self.options.version}
        if self.options.version == 2:
            params |= {"info": INFO, "capabilities": {"elicitation": FORMS}}
        else:
            session = {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}}
            params["clientInfo"] = INFO
            params["clientCapabilities"] = {
                "fs": {"readTextFile": True, "writeTextFile": True},
                "terminal": True,
                "session": session,
                "elicitation": FORMS,
            }
        result = self.peer.call("initialize", params)
        if not self.peer.version or self.peer.version > self.options.version:
            raise Refused(INVALID, "The agent speaks no version that I do")
        return result

    def open(self, offered: dict[str, Json]) -> str:
        params: dict[str, Json] = {"cwd": self.cwd, "mcpServers": []}
        self.opening += 1
        try:
            made = self.peer.call("session/new", params)
        except Refused as refused:
            methods = offered.get("authMethods") or []
            key = "methodId" if self.peer.version == 2 else "id"
            mine = [m for m in methods if m.get("type", "agent") == "agent"]
            if refused.code != LOGIN or not mine:
                raise
            login = "auth/login" if self.peer.version == 2 else "authenticate"
            self.peer.call(login, {"methodId": mine[0][key]})
            made = self.peer.call("session/new", params)
        with self.lock:
            self.opening = 0
            self.sessions.add(made["sessionId"])
        return made["sessionId"]

    def prompt(self, session: str, text: str) -> None:
        with self.lock:
            self.text, self.cancelled, self.busy = "", False, True
            self.reason = None
        blocks = [{"type": "text", "text": text}]
        try:
            result = self.peer.call(
                "session/prompt", {"sessionId": session, "prompt": blocks}, PATIENCE
            )
            if self.peer.version == 1:
                self.reason = result.get("stopReason")
            else:
                with self.lock:
                    # An idle state without a reason can be a snapshot of something else.
                    self.lock.wait_for(
                        lambda: self.reason is not None and self.state == "idle", PATIENCE
                    )
        except Refused as refused:
            self.reason = refused.code
        with self.lock:
            self.busy = False
            self.seen["texts"].append(self.text)
            self.seen["stops"].append(self.reason)

    def close(self, session: str, offered: dict[str, Json]) -> None:
        found = offered.get("agentCapabilities", {}).get("sessionCapabilities", {}).get("close")
        if self.peer.version == 2 or isinstance(found, dict):
            self.peer.call("session/close", {"sessionId": session})

    def main(self) -> int:
        threading.Thread(target=self.peer.run, daemon=True).start()
        try:
            offered = self.initialize()
            self.seen["version"] = self.peer.version
            session = self.open(offered)
            for text in self.options.prompts:
                self.prompt(session, text)
            self.close(session, offered)
        except (Refused, Withdrawn) as problem:
            self.seen["problem"] = str(problem) or "The agent hung up"
        finally:
            self.end()
        print(json.dumps(self.seen))
        return 1 if "problem" in self.seen else 0

    def end(self) -> None:
        self.terminals.end()
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(50)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(10)


BOTH = {"session/request_permission": Client.permission, "elicitation/create": Client.elicited}
V1 = {
    "fs/read_text_file": lambda self, params: self.files.read(params),
    "fs/write_text_file": lambda self, params: self.files.write(params),
    "terminal/create": lambda self, params: self.terminals.create(params),
    "terminal/output": lambda self, params: self.terminals.find(params).output(),
    "terminal/wait_for_exit": None,  # answered after the end, see `request`
    "terminal/kill": lambda self, params: self.terminals.find(params).kill(),
    "terminal/release": lambda self, params: self.terminals.release(params),
}
CALLS: dict[int, dict[str, Any]] = {1: BOTH | V1, 2: BOTH}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int, default=2, choices=(1, 2))
    parser.add_argument("--cwd", default=".")
    parser.add_argument("--reject", action="store_true")
    parser.add_argument("--cancel-on")
    parser.add_argument("prompts", nargs="+")
    dashes = sys.argv.index("--")
    found = parser.parse_args(sys.argv[1:dashes])
    found.command = sys.argv[dashes + 1 :]
    return found


if __name__ == "__main__":
    sys.exit(Client(options()).main())
