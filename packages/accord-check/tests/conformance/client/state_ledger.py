"""The state of a client's sessions, kept as plain JSON by the rules of the protocol."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from accord_conformance.client.state_probe import PROBE_METHOD
from conformance.client.driven_client import Between, Json

__all__ = ("Bend", "Ledger")

# Takes an update; returns the update to apply instead, or None to apply it unchanged.
Bend = Callable[[Json], Json | list[Json] | None]

_STATES = ("running", "idle", "requires_action", "unknown")
_WORK = {"tool_call": "toolCallId", "terminal": "terminalId", "subagent": "sessionId"}
_BLANK: dict[str, Json] = {
    "toolCalls": {"kind": "other", "status": "pending"},
    "compactions": {"status": "in_progress"},
}


class Ledger:
    """Accumulates the messages, and answers state probes for a client.

    `bend` changes updates before they are applied; `by_key` patches metadata by key, by default as
    in the version.
    """

    def __init__(
        self, version: int, *, bend: Bend = lambda _: None, by_key: bool | None = None
    ) -> None:
        self.version = version
        self._bend = bend
        self._by_key = version == 2 if by_key is None else by_key
        self.sessions: dict[str, Json] = {}
        self.setups: dict[str, Json] = {}
        self.login: Any = None
        self._asked: Json = {}

    def stands_in(self, between: Between) -> None:
        """Answer for the client behind this transport."""
        between.from_agent, between.from_client = self._from_agent, self._from_client

    def _from_agent(self, message: Json) -> Json:
        params = message.get("params") or {}
        result = message.get("result")
        if isinstance(result, dict) and "sessionId" in result and message["id"] in self._asked:
            self.setups[result["sessionId"]] = self._asked[message["id"]]
        if message.get("method") == "session/update" and isinstance(params.get("update"), dict):
            if "sessionUpdate" in params["update"]:
                self._apply(self._session(params["sessionId"]), params["update"])
        elif message.get("method") == "auth/status_update":
            known = params["state"] in ("authenticated", "unauthenticated", "not_required")
            self.login = params["state"] if known else "unknown"
        elif message.get("method") == "session/request_permission":
            about = params.get("subject") or params
            if isinstance(about.get("toolCall"), dict):
                self._tool_call_update(self._session(params["sessionId"]), about["toolCall"])
        return message

    def _from_client(self, message: Json, asked: Json) -> Json:
        if message.get("method") == "session/new":
            self._asked[message["id"]] = message["params"]
        if asked.get("method") != PROBE_METHOD or "result" not in message:
            return message
        return {**message, "result": self._shown(asked["params"]["sessionId"], message["result"])}

    def _shown(self, ident: str, own: Json) -> Json:
        """Return the complete state; terminals that the client runs belong to the client."""
        session = self._session(ident)
        shown: Json = {"login": self.login, "terminals": own["terminals"]}
        for table, held in session.items():
            shown[table] = list(held.values()) if table in _TABLES else held
        if self.version == 2:
            shown["terminals"] = [
                {**one, "output": bytes(one["output"]).decode("utf-8", "replace")}
                for one in session["terminals"].values()
            ]
        setup = self.setups.get(ident, {})
        for child in shown["subagents"]:
            child["cwd"] = child.get("cwd") or setup.get("cwd")
        return shown

    def _session(self, ident: str) -> Json:
        return self.sessions.setdefault(ident, {table: {} for table in _TABLES})

    def _apply(self, session: Json, update: Json) -> None:
        bent = self._bend(update)
        for one in [update] if bent is None else bent if isinstance(bent, list) else [bent]:
            fold = getattr(self, f"_{one['sessionUpdate']}", None)
            if fold is not None:
                fold(session, one)

    def _entry(self, session: Json, table: str, key: str, update: Json) -> Json:
        new = {key: update[key], **_BLANK.get(table, {})}
        return session[table].setdefault(update[key], new)

    def _patch(self, table: str, entry: Json, update: Json, *names: str) -> None:
        """Absent keeps the value, null clears it, a value replaces it."""
        for name in names:
            if name in update:
                entry[name] = update[name]
                if update[name] is None:
                    entry[name] = _BLANK.get(table, {}).get(name)
        if "_meta" in update:
            new = update["_meta"]
            if self._by_key and new is not None:
                whole = {**(entry.get("_meta") or {}), **new}
                new = {name: value for name, value in whole.items() if value is not None}
            entry["_meta"] = new

    def _append(self, entry: Json, name: str, block: Json) -> None:
        entry[name] = [*(entry.get(name) or []), block]

    # Messages and tool calls.

    def _agent_message_chunk(self, session: Json, update: Json) -> None:
        if isinstance(update.get("content"), dict) and "messageId" in update:
            message = self._entry(session, "messages", "messageId", update)
            self._append(message, "content", update["content"])

    def _agent_message(self, session: Json, update: Json) -> None:
        message = self._entry(session, "messages", "messageId", update)
        self._patch("messages", message, update, "content")

    _TOOL = ("title", "kind", "status", "name", "content", "locations", "capabilities")

    def _tool_call(self, session: Json, update: Json) -> None:
        session["toolCalls"].pop(update["toolCallId"], None)
        self._tool_call_update(session, update)

    def _tool_call_update(self, session: Json, update: Json) -> None:
        if "toolCallId" not in update:
            return
        call = self._entry(session, "toolCalls", "toolCallId", update)
        if self.version == 1:
            update = {name: value for name, value in update.items() if value is not None}
        self._patch("toolCalls", call, update, *self._TOOL)

    def _tool_call_content_chunk(self, session: Json, update: Json) -> None:
        call = self._entry(session, "toolCalls", "toolCallId", update)
        self._append(call, "content", update["content"])

    def _terminal_update(self, session: Json, update: Json) -> None:
        terminal = self._entry(session, "terminals", "terminalId", update)
        terminal.setdefault("output", b"")
        self._patch("terminals", terminal, update, "command", "cwd", "exitStatus", "size")
        if "output" in update:
            output = update["output"]
            terminal["output"] = b"" if output is None else base64.b64decode(output["data"])

    def _terminal_output_chunk(self, session: Json, update: Json) -> None:
        terminal = self._entry(session, "terminals", "terminalId", update)
        terminal["output"] = terminal.get("output", b"") + base64.b64decode(update["data"])

    # The state of the session.

    def _plan(self, session: Json, update: Json) -> None:
        session["plans"][None] = {"entries": update["entries"]}

    def _plan_update(self, session: Json, update: Json) -> None:
        session["plans"][update["plan"]["planId"]] = update["plan"]

    def _plan_removed(self, session: Json, update: Json) -> None:
        session["plans"].pop(update["planId"], None)

    def _config_option_update(self, session: Json, update: Json) -> None:
        session["configOptions"] = [
            {"configId": one.get("configId") or one.get("id")} for one in update["configOptions"]
        ]

    def _session_info_update(self, session: Json, update: Json) -> None:
        session.update({name: update[name] for name in ("title", "updatedAt") if name in update})

    def _usage_update(self, session: Json, update: Json) -> None:
        before = session.get("usage") or {}
        cost = update.get("cost", before.get("cost") if self.version == 2 else None)
        session["usage"] = {"used": update["used"], "size": update["size"], "cost": cost}

    def _state_update(self, session: Json, update: Json) -> None:
        session["state"] = update["state"]
        work = update.get("background") if update["state"] in _STATES else None
        ids = [one.get(_WORK.get(one["type"], "type")) for one in work or ()]
        session["background"] = None if work is None or None in ids else ids

    def _notice(self, session: Json, update: Json) -> None:
        session["notices"][update["title"]] = update

    # Compactions, subagents, and messages between sessions.

    def _compaction_update(self, session: Json, update: Json) -> None:
        compaction = self._entry(session, "compactions", "compactionId", update)
        self._patch("compactions", compaction, update, "status", "summary", "error")

    def _compaction_summary_chunk(self, session: Json, update: Json) -> None:
        compaction = self._entry(session, "compactions", "compactionId", update)
        self._append(compaction, "summary", update["content"])

    _CHILD = ("title", "description", "state", "capabilities", "cwd", "additionalDirectories")

    def _subagent_update(self, session: Json, update: Json) -> None:
        child = self._entry(session, "subagents", "sessionId", update)
        self._patch("subagents", child, update, *self._CHILD)

    _ENDS = ("senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId")

    def _session_message(self, session: Json, update: Json) -> None:
        message = self._entry(session, "sessionMessages", "messageId", update)
        self._patch("sessionMessages", message, update, *self._ENDS, "content")

    def _session_message_chunk(self, session: Json, update: Json) -> None:
        message = self._entry(session, "sessionMessages", "messageId", update)
        self._append(message, "content", update["content"])


_TABLES = (
    "messages",
    "toolCalls",
    "terminals",
    "plans",
    "notices",
    "compactions",
    "subagents",
    "sessionMessages",
)
