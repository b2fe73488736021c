"""Agents that violate one rule each: handshakes, sessions and lists of sessions."""

from __future__ import annotations

from typing import Any

from accord_conformance.agent.scenario_client import UNKNOWN_SESSION
from conformance.agent.filtered_agent import Json, MessageFilter

DOUBLES: list[type[MessageFilter]] = []


def double(*rules: str, versions: tuple[int, ...] = (1, 2), seconds: float = 5.0) -> Any:
    """Register a double that violates the first rule; the others fail as a consequence."""

    def register(cls: type[MessageFilter]) -> type[MessageFilter]:
        cls.rule, cls.also = rules[0], frozenset(rules[1:])
        cls.versions, cls.seconds = versions, seconds
        DOUBLES.append(cls)
        return cls

    return register


def refusing(rule: str, method: str, when: Any, code: int, **more: Any) -> None:
    """Register a double that rejects some requests."""

    class Refusing(MessageFilter):
        def up(self, message: Json) -> Json | None:
            if message.get("method") == method and when(message.get("params") or {}):
                self.refuse(message, code)
                return None
            return message

    double(rule, **more)(Refusing)


def answering(name: str, method: str, result: Json, *rules: str, **more: Any) -> None:
    """Register a double that answers some requests itself, and does nothing else about them.

    `when` selects them, if not all.
    """
    when = more.pop("when", lambda _: True)

    class Answering(MessageFilter):
        def up(self, message: Json) -> Json | None:
            if message.get("method") == method and when(message.get("params") or {}):
                self.answer(message, result)
                return None
            return message

    Answering.__name__ = name
    double(*rules, **more)(Answering)


def recoding(rule: str, method: str, when: Any, code: int, **more: Any) -> None:
    """Register a double that sends another code, and no data, in errors of some requests."""

    class Recoding(MessageFilter):
        def down(self, message: Json) -> Json | None:
            call = self.calls.get(repr(message.get("id")), {})
            if "error" not in message or call.get("method") != method:
                return message
            if not when(call.get("params") or {}):
                return message
            return {**message, "error": {"code": code, "message": "No"}}

    double(rule, **more)(Recoding)


def capabilities(params: Json) -> Json:
    return params.get("clientCapabilities", params.get("capabilities")) or {}


NEW = "session/new"
refusing("R-INIT-18", "initialize", lambda p: "accordUnknown" in capabilities(p), -32602)
refusing("R-GEN-08", "initialize", lambda p: "accordUnknown" in p, -32602)
refusing("R-GEN-08", NEW, lambda p: "accordUnknown" in p, -32602)
refusing("R-INIT-37", "initialize", lambda p: p.get("info") == "a client", -32602, versions=(2,))
recoding("R-GEN-11", NEW, lambda p: p.get("cwd") == 5, -32603)
recoding(
    "R-SESS-37",
    "session/prompt",
    lambda p: p["sessionId"] == UNKNOWN_SESSION,
    -32002,
    versions=(2,),
)
refusing(
    "R-SESS-32", "session/close", lambda p: p["sessionId"] == UNKNOWN_SESSION, -32602, versions=(2,)
)
refusing("R-MCP-01", NEW, lambda p: len(p.get("mcpServers", ())) == 1, -32602, versions=(1,))
refusing("R-GEN-09", "session/list", lambda p: p == {}, -32602)
refusing("R-LIST-14", "session/delete", lambda p: p["sessionId"] == UNKNOWN_SESSION, -32002)
refusing(
    "R-INIT-24",
    "session/prompt",
    lambda p: any(isinstance(b, dict) and b.get("type") == "resource_link" for b in p["prompt"]),
    -32602,
)
recoding(
    "R-EXT-12",
    "session/prompt",
    lambda p: p["prompt"][0] == {"type": "text"},
    -32603,
    versions=(2,),
)
recoding("R-EXT-06", "_accord/unknown", lambda p: True, -32603)


@double("R-INIT-13", versions=(1,))
class KnowsVersion1Alone(MessageFilter):
    """Cannot decode messages of a v2 client."""

    only_version_1 = True

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "initialize" and "info" in message["params"]:
            self.answer(message, {"protocolVersion": 0})
            return None
        return message


def silent(rule: str, when: Any, **more: Any) -> None:
    """Register a double that does not respond to some versions."""

    class SaysNothing(MessageFilter):
        only_version_1 = True

        def up(self, message: Json) -> Json | None:
            if message.get("method") == "initialize" and when(message["params"]):
                return None
            return message

    double(rule, versions=(1,), seconds=1.0, **more)(SaysNothing)


silent("R-INIT-06", lambda p: p["protocolVersion"] in (0, 99))
silent("R-INIT-10", lambda p: p["protocolVersion"] == "latest")
silent("R-INIT-13", lambda p: p["protocolVersion"] == 2)


@double("R-INIT-10", versions=(2,), seconds=1.0)
class SaysNothingToWhatIsNoVersion(MessageFilter):
    """Does not respond to an invalid version."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") != "initialize":
            return message
        return None if message["params"].get("protocolVersion") == "latest" else message


@double("R-INIT-30")
class GivesUpAfterARefusedHandshake(MessageFilter):
    """Closes the connection after an `initialize` that it could not decode."""

    def down(self, message: Json) -> Json | None:
        call = self.calls.get(repr(message.get("id")), {})
        if call.get("method") == "initialize" and "error" in message:
            self.leave()
        return message


@double("R-INIT-16", "R-FS-01", versions=(1,))
class ReadsThroughAnyClient(MessageFilter):
    """Uses files that the client does not advertise."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt":
            params = {"sessionId": message["params"]["sessionId"], "path": "/note.txt"}
            if not capabilities(self.sent[0]["params"]):
                self.tell({"id": "x", "method": "fs/read_text_file", "params": params})
        return None if message.get("id") == "x" else message


@double("R-INIT-16", "R-ELIC-02", versions=(2,))
class AsksAnyClient(MessageFilter):
    """Sends forms that the client does not support."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt":
            schema = {"type": "object", "properties": {}}
            params = {"sessionId": message["params"]["sessionId"], "mode": "form"}
            params |= {"message": "Well?", "requestedSchema": schema}
            if not capabilities(self.sent[0]["params"]):
                self.tell({"id": "x", "method": "elicitation/create", "params": params})
        return None if message.get("id") == "x" else message


@double("R-REQCAN-14")
class CancelsTheHandshake(MessageFilter):
    """Does not start after an earlier cancel."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "initialize" and len(self.sent) == 2:
            self.refuse(message, -32603)
            return None
        return message


@double("R-AUTH-11")
class SaysNothingOfLogins(MessageFilter):
    """Reports an error that does not mention the login."""

    def down(self, message: Json) -> Json | None:
        if (message.get("error") or {}).get("code") == -32000:
            return {**message, "error": {"code": -32603, "message": "No"}}
        return message


@double("R-ERR-05")
class NeverRecovers(MessageFilter):
    """Serves nothing after an invalid request."""

    bad = False

    def up(self, message: Json) -> Json | None:
        params = message.get("params")
        if isinstance(params, dict) and params.get("cwd") == 5:
            self.bad = True
        elif self.bad and isinstance(params, dict) and isinstance(params.get("cwd"), str):
            self.refuse(message, -32603)
            return None
        return message


def prompt_of(message: Json) -> Json:
    return (message.get("params") or {}).get("systemPrompt") or {}


# Accepts system prompts, but does not append them, or no text.
refusing("R-SYSP-02", NEW, lambda p: (p.get("systemPrompt") or {}).get("mode") == "append", -32602)
refusing("R-SYSP-04", NEW, lambda p: p.get("systemPrompt"), -32602)


@double("R-SYSP-03")
class SwapsModes(MessageFilter):
    """Appends system prompts with an unknown mode."""

    def up(self, message: Json) -> Json | None:
        if prompt_of(message).get("mode") == "_accord":
            prompt = {**prompt_of(message), "mode": "append"}
            return {**message, "params": {**message["params"], "systemPrompt": prompt}}
        return message


@double("R-MCP-12")
class SkipsServers(MessageFilter):
    """Skips servers that it cannot decode."""

    def up(self, message: Json) -> Json | None:
        params = message.get("params") or {}
        if isinstance(params, dict) and params.get("mcpServers"):
            servers = [one for one in params["mcpServers"] if isinstance(one.get("name"), str)]
            servers = [one for one in servers if "command" in one]
            if len(servers) != len(params["mcpServers"]):
                return {**message, "params": {**params, "mcpServers": []}}
        return message


@double("R-MCP-15", versions=(2,))
class DoesNotNameTheServer(MessageFilter):
    """Rejects servers without naming them."""

    def down(self, message: Json) -> Json | None:
        if (message.get("error") or {}).get("code") == -32602:
            return {**message, "error": {"code": -32602, "message": "No"}}
        return message


@double("R-LIST-06")
class IgnoresCursors(MessageFilter):
    """Starts again for an invalid cursor."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/list" and message.get("params", {}).get("cursor"):
            return {**message, "params": {}}
        return message


@double("R-LIST-16")
class ForgetsTitles(MessageFilter):
    """Reports a title and does not list it."""

    def down(self, message: Json) -> Json | None:
        result = message.get("result")
        if isinstance(result, dict) and "sessions" in result:
            entries = [{**one, "title": "Untitled"} for one in result["sessions"]]
            return {**message, "result": {**result, "sessions": entries}}
        return message


# Archives a session and continues its turn.
answering("ArchivesWhatRuns", "session/archive", {}, "R-ARCH-04")


@double("R-ARCH-05")
class ArchivesOnce(MessageFilter):
    """Rejects archiving an archived session."""

    seen = False

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/archive":
            if self.seen and message["params"]["sessionId"] != UNKNOWN_SESSION:
                self.refuse(message, -32602)
                return None
            self.seen = True
        return message


class AfterUnarchive(MessageFilter):
    """Remembers that a session was unarchived."""

    seen = False

    def up(self, message: Json) -> Json | None:
        self.seen |= message.get("method") == "session/unarchive"
        return message


@double("R-ARCH-06")
class OpensWhatIsTakenBack(AfterUnarchive):
    """Opens a session when it is unarchived."""

    def down(self, message: Json) -> Json | None:
        result = message.get("result")
        if self.seen and isinstance(result, dict) and result.get("status") == "saved":
            return {**message, "result": {"status": "open"}}
        return message


@double("R-ARCH-08", "R-ARCH-03")
class ListsAllOfTheArchive(MessageFilter):
    """Lists all archived sessions, whatever the filter."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/list":
            params = message.get("params") or {}
            return {**message, "params": {**params, "archived": "include"}}
        return message


@double("R-TITLE-02")
class RenamesOpenOnes(MessageFilter):
    """Does not rename closed sessions."""

    closed = False

    def up(self, message: Json) -> Json | None:
        self.closed |= message.get("method") == "session/close"
        if message.get("method") == "session/set_title" and self.closed:
            self.refuse(message, -32002)
            return None
        return message


# Accepts an empty title.
EMPTY = {"title": ""}
answering(
    "TakesNoTitle", "session/set_title", EMPTY, "R-TITLE-03", when=lambda p: p.get("title") == ""
)


@double("R-STATUS-02")
class OpensWhatIsAskedFor(MessageFilter):
    """Opens a session when its status is requested."""

    saved = 0

    def down(self, message: Json) -> Json | None:
        result = message.get("result")
        if isinstance(result, dict) and result.get("status") == "saved":
            self.saved += 1
            if self.saved >= 2:
                state = {"state": {"state": "idle"}} if self.way_version == 2 else {}
                return {**message, "result": {"status": "open", **state}}
        return message

    @property
    def way_version(self) -> int:
        return int(self.sent[0]["params"]["protocolVersion"])


@double("R-STATUS-06", versions=(2,))
class KeepsItsState(MessageFilter):
    """Reports that a session is open, but not its state."""

    def down(self, message: Json) -> Json | None:
        result = message.get("result")
        if isinstance(result, dict) and result.get("status") == "open":
            return {**message, "result": {"status": "open"}}
        return message


class Replaying(MessageFilter):
    """Tracks the replay."""

    opening: Any = None

    def up(self, message: Json) -> Json | None:
        if message.get("method") in ("session/load", "session/resume"):
            self.opening = message["id"]
        return message

    def down(self, message: Json) -> Json | None:
        if self.opening is not None and message.get("id") == self.opening:
            self.opening = None
        elif self.opening is not None and message.get("method") == "session/update":
            update = message["params"]["update"]
            changed = self.again(dict(update))
            if changed is None:
                return None
            return {**message, "params": {**message["params"], "update": changed}}
        return message

    def again(self, update: Json) -> Json | None:
        """Change a replayed update."""
        return update


@double("R-SESS-08", versions=(1,))
class ForgetsTheUser(Replaying):
    """Replays its own messages, but not the user's."""

    def again(self, update: Json) -> Json | None:
        return None if update["sessionUpdate"].startswith("user_message") else update


@double("R-SESS-14", versions=(2,))
class ForgetsTheUserToo(ForgetsTheUser):
    """The same in version 2."""


@double("R-SESS-10", versions=(1,))
class OneIdForAll(Replaying):
    """Replays all messages with one id."""

    def again(self, update: Json) -> Json | None:
        return {**update, "messageId": "m"} if "message" in update["sessionUpdate"] else update


@double("R-SESS-15", versions=(2,))
class NewIds(Replaying):
    """Replays the user's messages with new ids."""

    def again(self, update: Json) -> Json | None:
        return {**update, "messageId": "new"} if "user" in update["sessionUpdate"] else update


@double("R-EXT-05", versions=(1, 2), seconds=0.2)
class SilentOnExtensions(MessageFilter):
    """Does not respond to extension requests."""

    def up(self, message: Json) -> Json | None:
        return None if message.get("id") == "accord-custom" else message


class Grumbling(MessageFilter):
    """Responds to notifications of one method."""

    method = ""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == self.method and self.wrong(message):
            self.grumble()
            return None
        return message

    def wrong(self, message: Json) -> bool:
        """Return whether to respond to this notification."""
        return "id" not in message


@double("R-EXT-07", "R-GEN-05")
class GrumblesAtExtensions(Grumbling):
    """Responds to an unknown notification."""

    method = "_accord/unknown"


@double("R-REQCAN-10", "R-GEN-05")
class GrumblesAtTheProtocol(Grumbling):
    """Responds to a notification of the protocol."""

    method = "$/accordUnknown"


@double("R-REQCAN-06", "R-GEN-05")
class GrumblesAtCancels(Grumbling):
    """Responds to a cancel of an unknown request."""

    method = "$/cancel_request"


@double("R-CANCEL-12", "R-GEN-05")
class GrumblesAtIdleCancels(Grumbling):
    """Responds to a cancel of an unknown session."""

    method = "session/cancel"

    def wrong(self, message: Json) -> bool:
        return message["params"]["sessionId"] == UNKNOWN_SESSION


@double("R-ERR-03", seconds=0.2)
class SilentOnNonsense(MessageFilter):
    """Does not respond to invalid JSON."""

    def raw(self, frame: bytes) -> bool:
        return not frame.startswith(b'{"jsonrpc"') or b"\xff" in frame


@double("R-BATCH-10", seconds=0.2)
class SilentOnBatches(MessageFilter):
    """Does not respond to batches."""

    def raw(self, frame: bytes) -> bool:
        return not frame.startswith(b"[")


@double("R-ERR-04", "R-GEN-06")
class AnswersAnswers(MessageFilter):
    """Responds to a message that looks like a response."""

    def up(self, message: Json) -> Json | None:
        if message.get("id") == 4711:
            self.tell({"id": 4711, "error": {"code": -32600, "message": "No"}})
        return message


@double("R-STDIO-11")
class GrumblesAtBlankLines(MessageFilter):
    """Treats a blank line as a message."""

    def raw(self, frame: bytes) -> bool:
        if not frame.strip():
            self.tell({"id": None, "error": {"code": -32700, "message": "No"}})
        return True


refusing("R-PROV-01", "providers/list", lambda p: True, -32601)
recoding("R-PROV-07", "providers/set", lambda p: True, -32603)


class Failing(MessageFilter):
    """Fails in some turns of clients without capabilities."""

    words = ""

    def up(self, message: Json) -> Json | None:
        params: Any = message.get("params")
        if message.get("method") != "session/prompt" or capabilities(self.sent[0]["params"]):
            return message
        if params["prompt"][0]["text"].startswith(self.words):
            self.refuse(message, -32603)
            return None
        return message


@double("R-INIT-17")
class NeedsFiles(Failing):
    """Fails without the client's files."""

    words = "fs"


@double("R-ELIC-04")
class NeedsForms(Failing):
    """Fails without the client's forms."""

    words = "elicit"


@double("R-SESS-25")
class WritesInTheSource(Replaying):
    """Adds updates of a fork to its source session."""

    forked = False

    def up(self, message: Json) -> Json | None:
        self.forked |= message.get("method") == "session/fork"
        return super().up(message)

    def again(self, update: Json) -> Json | None:
        if self.forked and "user" in update["sessionUpdate"]:
            content = update["content"]
            block = content[0] if isinstance(content, list) else content
            twice = {**block, "text": 2 * block["text"]}
            return {**update, "content": [twice] if isinstance(content, list) else twice}
        return update


@double("R-LIST-11")
class OpensWhatItLists(MessageFilter):
    """Opens sessions when they are listed."""

    listed = False

    def up(self, message: Json) -> Json | None:
        self.listed |= message.get("method") == "session/list"
        return message

    def down(self, message: Json) -> Json | None:
        result = message.get("result")
        if self.listed and isinstance(result, dict) and result.get("status") == "saved":
            state = {"state": {"state": "idle"}}
            version = self.sent[0]["params"]["protocolVersion"]
            return {**message, "result": {"status": "open", **(state if version == 2 else {})}}
        return message
