"""Agents that violate one rule each: turns, their updates, and their ends."""

from __future__ import annotations

import asyncio
from typing import Any

from conformance.agent.filtered_agent import Json, MessageFilter
from conformance.agent.session_doubles import answering, double


class Updating(MessageFilter):
    """Changes updates."""

    def down(self, message: Json) -> Json | None:
        if message.get("method") == "session/update":
            params = message["params"]
            changed = self.on_update(params["sessionId"], dict(params["update"]))
            return None if changed is None else {**message, "params": {**params, "update": changed}}
        return self.other(message)

    def other(self, message: Json) -> Json | None:
        """Change any other message."""
        return message

    def on_update(self, session: str, update: Json) -> Json | None:
        """Change an update."""
        return update

    def call_of(self, message: Json) -> Json:
        """Return the request that a message answers, or None."""
        return {} if "method" in message else self.calls.get(repr(message.get("id")), {})


@double("R-PROMPT-03", versions=(1,))
class AnswersAtOnce(MessageFilter):
    """Answers a prompt when it arrives."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt":
            self.answer(message, {"stopReason": "end_turn"})
        return message

    def down(self, message: Json) -> Json | None:
        call = self.calls.get(repr(message.get("id")), {})
        return None if "result" in message and call.get("method") == "session/prompt" else message


@double("R-PROMPT-12", versions=(2,), seconds=0.2)
class NeverIdle(Updating):
    """Never sends the idle state."""

    def on_update(self, session: str, update: Json) -> Json | None:
        return None if update.get("state") == "idle" else update


@double("R-MSG-03")
class OneIdForAll(Updating):
    """Uses one id for all messages."""

    def on_update(self, session: str, update: Json) -> Json | None:
        return {**update, "messageId": "m"} if "message" in update["sessionUpdate"] else update

    def other(self, message: Json) -> Json | None:
        result = message.get("result") or {}
        if self.call_of(message).get("method") == "session/prompt" and "messageId" in result:
            return {**message, "result": {"messageId": "m"}}
        return message


@double("R-PROMPT-19", versions=(2,))
class ShowsWhatItRefused(Updating):
    """Shows a message of a prompt that it rejects."""

    def other(self, message: Json) -> Json | None:
        call = self.call_of(message)
        if call.get("method") == "session/prompt" and "error" in message:
            content = [{"type": "text", "text": "?"}]
            session = call["params"]["sessionId"]
            self.update(session, sessionUpdate="user_message", messageId="m", content=content)
        return message


@double("R-TOOL-13")
class NamesItLate(Updating):
    """Names a tool in the second update of its call."""

    name = None
    done = False

    def on_update(self, session: str, update: Json) -> Json | None:
        if update["sessionUpdate"] not in ("tool_call", "tool_call_update"):
            return update
        if update.get("name") and self.name is None:
            self.name = update.pop("name")
        elif self.name and not self.done:
            self.done = True
            update["name"] = self.name
        return update


@double("R-PROMPT-35", versions=(2,))
class StopsCommands(Updating):
    """Ends a command with a custom stop reason."""

    def on_update(self, session: str, update: Json) -> Json | None:
        if update.get("stopReason") == "end_turn":
            update["stopReason"] = "_command"
        return update


@double("R-PROMPT-28", versions=(2,))
class FailsWithoutAWord(Updating):
    """Stops with an error without details."""

    def on_update(self, session: str, update: Json) -> Json | None:
        if update.get("stopReason") == "error":
            update.pop("error", None)
        return update


class Withdrawing(MessageFilter):
    """Answers withdrawn prompts with another code, after one kind of cancel."""

    method = ""
    last = ""

    def up(self, message: Json) -> Json | None:
        if message.get("method") in ("$/cancel_request", "session/cancel", "session/close"):
            self.last = message["method"]
        return message

    def down(self, message: Json) -> Json | None:
        if (message.get("error") or {}).get("code") == -32800 and self.last == self.method:
            return {**message, "error": {"code": -32603, "message": "No"}}
        return message


@double("R-PROMPT-27", versions=(2,))
class FailsWhenWithdrawn(Withdrawing):
    """Answers a withdrawn prompt with an error."""

    method = "$/cancel_request"


@double("R-CANCEL-13", versions=(2,))
class FailsWhenCancelled(Withdrawing):
    """Answers a queued prompt with an error when its session is cancelled."""

    method = "session/cancel"


def allowing(bend: MessageFilter, message: Json) -> Json | None:
    """Return an approval instead of another response."""
    asked = bend.asked.get(repr(message.get("id")), {})
    if "result" not in message or asked.get("method") != "session/request_permission":
        return None
    options = asked["params"]["options"]
    option = next(one for one in options if one["kind"] == "allow_once")
    outcome = {"outcome": "selected", "optionId": option["optionId"]}
    return {**message, "result": {"outcome": outcome}}


@double("R-PERM-05")
class TakesAnyOption(MessageFilter):
    """Treats an option that it did not offer as approval."""

    def up(self, message: Json) -> Json | None:
        chosen = (message.get("result") or {}).get("outcome") or {}
        if isinstance(chosen, dict) and "unknown" in str(chosen.get("optionId")):
            return allowing(self, message)
        return message


@double("R-PERM-14", versions=(2,))
class TakesAnyOutcome(MessageFilter):
    """Treats an unknown outcome as approval."""

    def up(self, message: Json) -> Json | None:
        outcome = (message.get("result") or {}).get("outcome") or {}
        if isinstance(outcome, dict) and outcome.get("outcome") == "_accord":
            return allowing(self, message)
        return message


class Keeping(MessageFilter):
    """Does not cancel its own requests."""

    method = ""

    def down(self, message: Json) -> Json | None:
        if message.get("method") == "$/cancel_request":
            asked = self.asked.get(repr(message["params"]["requestId"]), {})
            if asked.get("method") == self.method:
                return None
        return message


@double("R-REQCAN-09", versions=(1,))
class KeepsPermissionsOpen(Keeping):
    """Leaves a permission request open when its prompt is withdrawn."""

    method = "session/request_permission"


@double("R-CANCEL-16", versions=(2,))
class KeepsFormsOpen(Keeping):
    """Leaves a form open when the turn is cancelled."""

    method = "elicitation/create"


class HidesWaiting(Updating):
    """Does not report that it waits for the user."""

    def on_update(self, session: str, update: Json) -> Json | None:
        return None if update.get("state") == "requires_action" else update


double("R-PROMPT-14", versions=(2,))(type("WaitsInSilence", (HidesWaiting,), {}))
double("R-ELIC-35", versions=(2,))(type("AsksInSilence", (HidesWaiting,), {}))


@double("R-SESS-04", versions=(1,))
class ReadsElsewhere(MessageFilter):
    """Reads files in the directory where it was started."""

    def down(self, message: Json) -> Json | None:
        if message.get("method") == "fs/read_text_file":
            return {**message, "params": {**message["params"], "path": "/elsewhere/note.txt"}}
        return message


@double("R-SESS-04", versions=(2,))
class LooksElsewhere(Updating):
    """Reads files in the directory where it was started, and shows that path."""

    def on_update(self, session: str, update: Json) -> Json | None:
        if update["sessionUpdate"] == "tool_call_update":
            update["locations"] = [{"path": "/elsewhere/note.txt"}]
        return update


@double("R-DTERM-10", versions=(2,))
class SaysTheCommandLate(Updating):
    """Sends the command of a terminal after its output."""

    command = None

    def on_update(self, session: str, update: Json) -> Json | None:
        if update["sessionUpdate"] != "terminal_update":
            return update
        if self.command is None:
            self.command = update.pop("command")
        else:
            update["command"] = self.command
        return update


@double("R-ELIC-25")
class ReadsWhatWasDeclined(Updating):
    """Uses the content of a response that declines."""

    confused = False

    def up(self, message: Json) -> Json | None:
        result = message.get("result") or {}
        self.confused = bool(result.get("content")) if "action" in result else self.confused
        return message

    def on_update(self, session: str, update: Json) -> Json | None:
        if update.get("stopReason") == "end_turn" and self.confused:
            update["stopReason"] = "refusal"
        return update

    def other(self, message: Json) -> Json | None:
        if self.confused and (message.get("result") or {}).get("stopReason") == "end_turn":
            return {**message, "result": {"stopReason": "refusal"}}
        return message


@double("R-CANCEL-04", seconds=0.4)
class StopsLate(MessageFilter):
    """Reacts to a cancel only after a delay."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") != "session/cancel":
            return message
        asyncio.get_running_loop().call_later(1.5 * self.seconds, self.forward, message)
        return None


@double("R-CANCEL-05", "R-CANCEL-04", versions=(1,), seconds=0.3)
class GoesOn(MessageFilter):
    """Ignores a cancel."""

    def up(self, message: Json) -> Json | None:
        return None if message.get("method") == "session/cancel" else message


@double("R-CANCEL-07", "R-CANCEL-04", versions=(2,), seconds=0.3)
class GoesOnInVersion2(GoesOn):
    """The same in version 2."""


@double("R-CANCEL-05", "R-CANCEL-04", "R-SESS-21", versions=(1,), seconds=0.3)
class ForgetsThePrompt(MessageFilter):
    """Stops after a cancel, but never answers the prompt."""

    def down(self, message: Json) -> Json | None:
        stopped = (message.get("result") or {}).get("stopReason") == "cancelled"
        return None if stopped else message


# Closes a session and continues its turn.
answering("ClosesAndGoesOn", "session/close", {}, "R-SESS-21", versions=(1,))
answering("ClosesAndGoesOn", "session/close", {}, "R-SESS-21", "R-SESS-22", versions=(2,))


@double("R-REQCAN-13", versions=(1,))
class FailsWhenWithdrawnInVersion1(Updating):
    """Answers a withdrawn prompt with an error."""

    withdrawn = False

    def up(self, message: Json) -> Json | None:
        self.withdrawn |= message.get("method") == "$/cancel_request"
        return message

    def other(self, message: Json) -> Json | None:
        if self.withdrawn and self.call_of(message).get("method") == "session/prompt":
            error = {"code": -32603, "message": "No"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return message


@double("R-MODE-05", versions=(1,))
class ModesAlone(Updating):
    """Has modes, but no option for them."""

    def other(self, message: Json) -> Json | None:
        result = message.get("result")
        if isinstance(result, dict) and "configOptions" in result:
            options = [one for one in result["configOptions"] if one.get("category") != "mode"]
            return {**message, "result": {**result, "configOptions": options}}
        return message


@double("R-BGW-08", "R-TCAN-03", versions=(2,))
class CancelsAll(Updating):
    """Stops background work when the session is cancelled."""

    item: Any = None

    def on_update(self, session: str, update: Json) -> Json | None:
        for item in update.get("background") or ():
            self.item = item
        return update

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/cancel" and self.item:
            on_update = {"toolCallId": self.item["toolCallId"], "status": "cancelled"}
            session = message["params"]["sessionId"]
            self.update(session, sessionUpdate="tool_call_update", **on_update)
        return message


# Accepts the cancel of a tool call, but does not stop it.
answering("OnlySaysSo", "tool_call/cancel", {}, "R-TCAN-04", versions=(2,), seconds=0.3)
# Accepts the cancel of an unknown tool call.
answering("CancelsAnything", "terminal/cancel", {}, "R-TCAN-05", versions=(2,))


@double("R-TCAN-06", versions=(2,))
class EndsTheTurn(MessageFilter):
    """Ends the turn when a tool call is cancelled."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "tool_call/cancel":
            on_update: Json = {"sessionUpdate": "state_update", "background": []}
            session = message["params"]["sessionId"]
            self.update(session, **on_update, state="idle", stopReason="cancelled")
            self.update(session, **on_update, state="running")
        return message


class HidesChildren(Updating):
    """Does not report the state of a subagent to the parent session."""

    def on_update(self, session: str, update: Json) -> Json | None:
        if update["sessionUpdate"] == "subagent_update":
            update.pop("state", None)
        return update


double("R-SUBAG-07", versions=(2,))(type("DoesNotMirror", (HidesChildren,), {}))
double("R-SUBAG-08", versions=(1,))(type("TellsNoState", (HidesChildren,), {}))


@double("R-PROMPT-36", "R-BGW-02", versions=(2,))
class GoesOnWhenAllowed(MessageFilter):
    """Continues when a permission arrives late."""

    cancelled = ""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/cancel":
            self.cancelled = message["params"]["sessionId"]
        if self.cancelled and "outcome" in (message.get("result") or {}):
            self.update(self.cancelled, sessionUpdate="state_update", state="running")
        return message


class EndsOtherwise(Updating):
    """Ends cancelled turns with another stop reason."""

    reason = "end_turn"
    stopped = False

    def up(self, message: Json) -> Json | None:
        if message.get("method") in ("session/cancel", "session/close"):
            self.stopped = message["method"] == "session/cancel"
        return message

    def on_update(self, session: str, update: Json) -> Json | None:
        if update.get("stopReason") == "cancelled" and self.stopped:
            update["stopReason"] = self.reason
            if self.reason == "error":
                update["error"] = {"code": -32603, "message": "No"}
        return update

    def other(self, message: Json) -> Json | None:
        reason = (message.get("result") or {}).get("stopReason")
        if reason != "cancelled" or not self.stopped:
            return message
        if self.reason == "error":
            error = {"code": -32603, "message": "No"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return {**message, "result": {"stopReason": self.reason}}


class FailsInstead(EndsOtherwise):
    """Ends cancelled turns with an error."""

    reason = "error"


double("R-CANCEL-05", versions=(1,))(type("EndsAsUsual", (EndsOtherwise,), {}))
double("R-CANCEL-07", versions=(2,))(type("EndsAsUsualInVersion2", (EndsOtherwise,), {}))
double("R-CANCEL-06", versions=(1,))(type("FailsInsteadInVersion1", (FailsInstead,), {}))
double("R-CANCEL-08", versions=(2,))(type("FailsInsteadInVersion2", (FailsInstead,), {}))


@double("R-TOOL-02")
class CountsInEachTurn(Updating):
    """Starts the ids of its tool calls again with each turn."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt":
            self.ids: Json = {}
        return message

    def on_update(self, session: str, update: Json) -> Json | None:
        if "toolCallId" in update:
            ident = self.ids.setdefault(update["toolCallId"], f"call-{len(self.ids)}")
            update["toolCallId"] = ident
        return update


class Steered(MessageFilter):
    """Answers what the user says while a turn runs."""

    said: Json | None = None

    def up(self, message: Json) -> Json | None:
        return self.on_said(message) if message.get("method") == "_session/steering" else message

    def on_said(self, message: Json) -> Json | None:
        """Handle a message."""
        return message


@double("R-STEER-02")
class SteeredWithoutAnOutcome(Steered):
    """Answers a message with an empty result."""

    def on_said(self, message: Json) -> Json | None:
        self.answer(message, {})
        return None


@double("R-STEER-03")
class SteeredByNothing(Steered):
    """Accepts a message without content."""

    def on_said(self, message: Json) -> Json | None:
        if message["params"]["prompt"]:
            return message
        self.answer(message, {"outcome": "promptRequired"})
        return None


@double("R-STEER-04")
class StartsATurn(Steered):
    """Starts a turn that the client does not wait for."""

    def on_said(self, message: Json) -> Json | None:
        return {**message, "params": {**message["params"], "_meta": {}}}


@double("R-STEER-05")
class WorksAfterTheTurn(Steered):
    """Ends the turn before its work on a message, or before it has the message."""

    def on_said(self, message: Json) -> Json | None:
        self.said = message
        if "_meta" in message["params"] and not self._is_version_2():
            self.answer(message, {"outcome": "injected"})
        return None

    def _is_version_2(self) -> bool:
        first = next(one for one in self.sent if one.get("method") == "initialize")
        return first["params"]["protocolVersion"] == 2

    def down(self, message: Json) -> Json | None:
        if self.said is None:
            return message
        said, is_idle = self.said, "idle" in str(message.get("params"))
        if "stopReason" in message.get("result", {}):
            self.said = None
            self.tell(message)
            text = {"type": "text", "text": "Now I work on it"}
            session = said["params"]["sessionId"]
            self.update(session, sessionUpdate="agent_message_chunk", content=text)
            return None
        if is_idle:
            self.said = None
            self.tell(message)
            self.answer(said, {"outcome": "injected"})
            return None
        return message


@double("R-STEER-06")
class AnswersItsPermission(Steered):
    """Cancels its permission request when the user says something."""

    def on_said(self, message: Json) -> Json | None:
        for asked in self.asked.values():
            if asked.get("method") == "session/request_permission":
                self.tell({"method": "$/cancel_request", "params": {"requestId": asked["id"]}})
        return message
