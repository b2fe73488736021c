"""What a client does by itself, unasked: judged wherever the kit poses as its agent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from accord.conformance.finding import Finding
from accord.conformance.judge import Seen, frames_of
from accord.conformance.manifest import requirements
from accord.conformance.message import Call
from accord.conformance.play.line import Line, Silence
from accord.conformance.pose.dress import COMMAND
from accord.conformance.report import Report
from accord.jsontext import is_array, is_object

if TYPE_CHECKING:
    from accord.conformance.frame import Frame
    from accord.conformance.pose.agent import Posing

__all__ = ("WATCHED", "Watch")

Json: TypeAlias = dict[str, Any]

LEAVES_S = 5.0  # a client that hangs up sooner does so because of what it was told

WATCHED = (
    "R-INIT-07",
    "R-INIT-15",
    "R-INIT-18",
    "R-INIT-32",
    "R-INIT-36",
    "R-REQCAN-14",
    "R-SESS-27",
    "R-PROMPT-17",
    "R-PROMPT-18",
    "R-LIST-04",
    "R-SYSP-09",
    "R-MODE-04",
    "R-CMD-02",
    "R-PROV-11",
    "R-EXT-05",
    "R-STDIO-07",
)


class Watch:
    """Judges one connection's client; `report` is where all findings of the kit go."""

    def __init__(self, report: Report, version: Callable[[], int | None]) -> None:
        self.report = report
        self.where = ""
        self._version = version
        self._prompts: dict[str, tuple[Any, Call]] = {}
        self._first: Call | None = None  # the initialize that asked for version 2
        self._second_page: Call | None = None

    def judge(self, rule: str, kept: bool, *seen: Seen, expected: str = "", got: str = "") -> None:
        """Tell whether a rule was kept; nothing is told when it is not of the version spoken."""
        version = self._version()
        if version is not None and version not in requirements()[rule].versions:
            return
        if kept:
            self.report.add(Finding(rule=rule, passed=True, by="client"))
            return
        frames = {frame.number: frame for item in seen for frame in frames_of(item)}
        self.report.add(
            Finding(
                rule=rule,
                passed=False,
                by="client",
                expected=expected,
                got=got,
                frames=tuple(frames[number] for number in sorted(frames)),
                where=self.where,
            )
        )

    # The handshake.

    def held(self, early: Call, line: Line) -> None:
        """Judge what was asked before `initialize` is answered: it waits."""
        self.judge(
            "R-INIT-36",
            early.reply is None and not line.hung_up,
            early,
            expected="requests that come before `initialize` is answered are held",
            got="it hung up" if line.hung_up else "an answer before that",
        )

    async def goes_on(self, line: Line, call: Call) -> None:
        """Judge what comes next, once `initialize` has been answered."""
        before = len(line.calls)
        said = line.observer.talk.frames[-1]
        asked = call.params.get("protocolVersion") if is_object(call.params) else None
        if asked == 2 and self._version() == 1:
            self._first = call
            return  # it may not speak version 1
        try:
            await line.until(
                lambda: line.hung_up or len(line.calls) > before, "request", within_s=LEAVES_S
            )
        except Silence:
            return  # the user takes their time
        self.judge(
            "R-INIT-18",
            not line.hung_up or len(line.calls) > before,
            said,
            expected="a client that goes on after capabilities that it does not know",
            got="it hung up",
        )

    async def left(self, line: Line) -> None:
        """Judge that it leaves when it gets a version that nobody speaks."""
        before = len(line.calls)
        with suppress(Silence):
            await line.until(lambda: line.hung_up or len(line.calls) > before, "end")
        more = line.calls[before:]
        call = line.calls[0]
        asked = call.params.get("protocolVersion") if is_object(call.params) else None
        got = f"it calls {more[0].method}" if more else "it stays"
        expected = "a client that hangs up, as it cannot speak this version"
        seen = (call, *more)
        self.judge("R-INIT-07", not more and line.hung_up, *seen, expected=expected, got=got)
        if asked == 2 and (more or line.hung_up):
            self.judge("R-INIT-32", not more, *seen, expected=expected, got=got)

    # Requests.

    def called(self, call: Call, params: Json) -> None:
        """The client asks for something."""
        self._fell_back(call, params)
        ident = params.get("sessionId")
        match call.method:
            case "session/load" | "session/resume" | "session/fork":
                if isinstance(ident, str):
                    self._reopened(call, params, ident)
            case "session/list":
                self._listed(call, params)
            case "session/set_mode" | "session/set_config_option":
                self._switched(call, params)
            case "session/prompt":
                self._prompted(call, params)
            case _:
                pass

    def opened(self, ident: str, call: Call, params: Json) -> None:
        """A session gets its id."""
        self._prompts[ident] = params.get("systemPrompt"), call

    def _fell_back(self, call: Call, params: Json) -> None:
        first, self._first = self._first, None
        if first is None or not is_object(first.params):
            return
        offers = first.params.get("capabilities")
        if not is_object(offers) or not any(offers.values()):
            return  # it has nothing to say that version 1 would not know
        again = call.method == "initialize" and params.get("protocolVersion") == 1
        self.judge(
            "R-INIT-15",
            again,
            first,
            call,
            expected="`initialize` once more as version 1 has it, as that one was answered with 1",
            got=call.method,
        )

    def _reopened(self, call: Call, params: Json, ident: str) -> None:
        known = self._prompts.get(ident)
        if known is None or known[0] is None:
            return
        given, made = known
        self.judge(
            "R-SYSP-09",
            params.get("systemPrompt") == given,
            made,
            call,
            expected="the system prompt that the session was made with",
            got="another" if params.get("systemPrompt") else "none",
        )

    def _listed(self, call: Call, params: Json) -> None:
        cursor = params.get("cursor")
        if cursor is None:
            self._unfollowed()
        elif cursor == "2":
            self._second_page = call
        elif cursor == "":
            self._second_page = None
            self.judge("R-LIST-04", True)

    def _unfollowed(self) -> None:
        """Judge a listing that is over: its second cursor, an empty text, was none."""
        page, self._second_page = self._second_page, None
        if page is None or self._version() != 2 or not page.ok:
            return
        self.judge(
            "R-LIST-04",
            False,
            page,
            expected='a call with the cursor `""`, as with the one before',
            got="the listing ends",
        )

    def _switched(self, call: Call, params: Json) -> None:
        if params.get("configId", "mode") == "mode":
            self.judge(
                "R-MODE-04",
                call.method == "session/set_config_option",
                call,
                expected="`session/set_config_option`, as the session has `configOptions`",
                got=call.method,
            )

    def _prompted(self, call: Call, params: Json) -> None:
        blocks = params.get("prompt")
        for block in blocks if is_array(blocks) else []:
            words = block.get("text") if is_object(block) else None
            if isinstance(words, str) and words.strip().lstrip("/").startswith(COMMAND):
                self.judge(
                    "R-CMD-02",
                    words.strip().startswith("/"),
                    call,
                    expected=f"`/{COMMAND}` and what follows it",
                    got=words.strip(),
                )

    # Turns, and the end.

    def waits_for_idle(self, line: Line, call: Call) -> None:
        """The prompt was answered a moment ago, and no state was told yet."""
        self.judge(
            "R-PROMPT-17",
            not line.hung_up,
            call,
            expected="a client that follows the state of the session",
            got="it hung up when the prompt was answered",
        )

    async def stays(self, posing: Posing, rule: str, what: str, *sent: Frame) -> bool:
        """Judge that the client goes on after something, and return whether it does."""
        alive = await posing.alive()
        got = "it hung up" if posing.line.hung_up else "it answers nothing any more"
        self.judge(rule, alive, *sent, expected=f"a client that goes on after {what}", got=got)
        return alive

    def terminated(self, line: Line) -> None:
        """Tell that a signal came while stdin was open."""
        self.judge(
            "R-STDIO-07",
            False,
            line.observer.talk.frames[-1] if line.observer.talk.frames else None,
            expected="stdin closed, and only then a signal",
            got="SIGTERM while stdin was open",
        )

    def finished(self, line: Line) -> None:
        """Nothing more will come."""
        self._unfollowed()
        if line.hung_up and line.lost is None:
            self.judge("R-STDIO-07", True)
