"""A turn of Claude Code: its messages as those of the session, and its questions to the user."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from typing import Any

from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny
from claude_agent_sdk.types import (
    AssistantMessage,
    PermissionUpdate,
    ResultMessage,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from accord import ContextUsage, Cost, NotOffered, PlanEntry
from accord.types.session import StopReason
from accord_bridges.bridge import stopping
from accord_bridges.frameworks.claude_process import (
    STATE,
    APIConnectionError,
    ClaudeCodeError,
    ClaudeProcess,
    Conversation,
)
from accord_bridges.run import Question, Run

_SUBAGENTS = frozenset(("Task", "Agent"))
_TASKS = frozenset(("TaskCreate", "TaskUpdate"))
_SHOWN_S = 5.0  # that a call has to be shown before the user is asked about it
_OTHER = "Something else…"
_UNREACHABLE = re.compile(r"unable to connect|connection (?:error|refused)|ECONNREFUSED", re.I)
_IDLE_S = 10.0  # after a result, for Claude Code to say that it is idle
_STOPS: dict[str, StopReason] = {"refusal": "refusal", "max_tokens": "max_tokens"}
_STATUSES = {"in_progress": "in_progress", "completed": "completed"}


class _Shown:
    """What is shown of the main agent, or of one subagent."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.message_id = ""
        self.streamed: set[str] = set()
        self.blocks: dict[int, str] = {}  # the calls of the message that streams, by index


class ClaudeTurn:
    """One turn, from the prompt to the result that answers it."""

    def __init__(
        self, run: Run, claude: ClaudeProcess, conversation: Conversation, modes: Collection[str]
    ) -> None:
        self.run = run
        self.claude = claude
        self.conversation = conversation
        self._modes = modes
        self._main = _Shown(run)
        self._subagents: dict[str, tuple[_Shown, AsyncExitStack]] = {}
        self._runs: dict[str, Run] = {}  # by the call, also those that have ended
        self._inputs: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._ended: set[str] = set()
        self._known = asyncio.Condition()
        self._unanswered: set[str] = set()
        self._has_spoken = False
        self._has_result = False  # and nothing has been said since
        self._tells_state = False
        self._stop_reason: StopReason | None = None
        self._retries = 0
        self._context: int = 0

    async def work(self, prompt: str | list[dict[str, Any]]) -> StopReason | None:
        """Give Claude Code the prompt and show messages until all that was said is answered."""
        claude = self.claude
        claude.turn = self
        try:
            async with claude.listening():
                for message in claude.missed():
                    await self._show(message)
                await self._send(prompt)
                self.conversation.begin()
                steering = asyncio.create_task(self._steer(), name="accord bridge: steering")
                try:
                    async with stopping(steering):
                        await self._read()
                except asyncio.CancelledError:
                    await self._interrupt()
                    raise
                return self._stop_reason
        finally:
            for _, stack in reversed(list(self._subagents.values())):
                await stack.aclose()

    async def _interrupt(self) -> None:
        """Stop Claude Code, also if the turn is cancelled once more."""
        stopping_it = asyncio.create_task(self.claude.interrupt(), name="accord bridge: interrupt")
        try:
            await asyncio.shield(stopping_it)
        except asyncio.CancelledError:
            self.claude.ended = True
            stopping_it.cancel()
            raise

    async def _read(self) -> None:
        """Show messages until Claude Code is idle, which it is when nothing is owed any more."""
        claude = self.claude
        stream = self._stream
        while True:
            try:
                message = await claude.next(_IDLE_S if self._has_result else None)
            except TimeoutError:
                return
            if type(message) is StreamEvent:
                self._has_result = False
                await stream(message)
            elif isinstance(message, ResultMessage):
                await self._result(message)
                self._has_result = not (self._unanswered or self._subagents)
                if self._has_result and not self._tells_state:
                    return
            elif isinstance(message, SystemMessage) and message.subtype == STATE:
                self._tells_state = True
                if self._has_result and message.data.get("state") == "idle":
                    return
            else:
                await self._show(message)

    async def _send(self, prompt: str | list[dict[str, Any]]) -> None:
        message_id = str(uuid.uuid4())
        self._unanswered.add(message_id)

        await self.claude.send(
            {
                "type": "user",
                "message": {"role": "user", "content": prompt},
                "parent_tool_use_id": None,
                "uuid": message_id,
            }
        )

    async def _steer(self) -> None:
        async for message in self.run.turn.steering():
            await self._send(message.text)

    # What it says and does.

    async def _stream(self, message: StreamEvent) -> None:
        shown = self._of(message.parent_tool_use_id)
        if shown is None:
            return
        event = message.event
        kind = event["type"]
        if kind == "content_block_delta":
            delta = event["delta"]
            match delta["type"]:
                case "text_delta":
                    await shown.run.say(delta["text"])
                case "thinking_delta":
                    if delta["thinking"]:
                        await shown.run.think(delta["thinking"])
                case "input_json_delta":
                    if call_id := shown.blocks.get(event["index"]):
                        await shown.run.add_arguments(call_id, delta["partial_json"])
        elif kind == "message_start":
            shown.message_id = event["message"]["id"]
            shown.streamed.add(shown.message_id)
            shown.blocks.clear()
        elif kind == "content_block_start":
            block = event["content_block"]
            if block["type"] == "text":
                self._has_spoken = True
                shown.run.message(f"{shown.message_id}.{event['index']}")
                if block.get("text"):
                    await shown.run.say(block["text"])
            elif block["type"] in ("tool_use", "server_tool_use"):
                shown.blocks[event["index"]] = block["id"]
                if block["name"] not in _SUBAGENTS:
                    await self._begin(shown.run, block["id"], block["name"])

    def _of(self, parent: str | None) -> _Shown | None:
        if parent is None:
            return self._main
        found = self._subagents.get(parent)
        return None if found is None else found[0]

    async def _show(self, message: Any) -> None:
        match message:
            case AssistantMessage():
                await self._assistant(message)
            case UserMessage():
                if message.parent_tool_use_id is None and message.uuid:
                    self.conversation.last = message.uuid
                if isinstance(message.content, list):
                    for block in message.content:
                        if isinstance(block, ToolResultBlock):
                            await self._end(block, message.tool_use_result)
            case SystemMessage():
                await self._system(message)

    async def _assistant(self, message: AssistantMessage) -> None:
        shown = self._of(message.parent_tool_use_id)
        if shown is None:
            return
        if message.parent_tool_use_id is None:
            self.conversation.last = message.uuid or self.conversation.last
            if message.usage and message.error is None:
                self._context = _input(message.usage) + message.usage.get("output_tokens", 0)
        if message.error is not None:
            return  # the result has the same text
        run = shown.run
        is_new = message.message_id not in shown.streamed
        for block in message.content:
            match block:
                case TextBlock(text=text) if is_new and text:
                    self._has_spoken = True
                    run.message(message.message_id or message.uuid)
                    await run.say(text)
                case ThinkingBlock(thinking=thought) if is_new and thought:
                    await run.think(thought)
                case ToolUseBlock() if block.name in _SUBAGENTS:
                    await self._begin_subagent(run, block)
                case ToolUseBlock() | ServerToolUseBlock():
                    await self._begin(run, block.id, block.name, block.input)
                case ServerToolResultBlock():
                    await run.end_call(block.tool_use_id, block.content)
                case _:
                    pass

    async def _begin(self, run: Run, call_id: str, name: str, arguments: Any = None) -> None:
        """Show a call, or the arguments of one that is shown."""
        if call_id not in self._ended:
            await run.begin_call(call_id, name, arguments)
        if arguments is not None:
            self._inputs[call_id] = (name, arguments)
            async with self._known:
                self._runs[call_id] = run
                self._known.notify_all()

    async def _begin_subagent(self, run: Run, block: ToolUseBlock) -> None:
        if block.id in self._subagents:
            return
        title = str(block.input.get("description") or block.input.get("subagent_type") or "Agent")
        stack = AsyncExitStack()
        kind = block.input.get("subagent_type")
        subagent = await stack.enter_async_context(run.subagent(title, kind))
        self._subagents[block.id] = (_Shown(subagent), stack)
        async with self._known:
            self._runs[block.id] = run
            self._known.notify_all()

    async def _end(self, block: ToolResultBlock, result: Any) -> None:
        """Show what a tool has returned; a subagent that works on in the background stays."""
        call_id = block.tool_use_id
        found = self._subagents.get(call_id)
        if found is not None:
            if isinstance(result, Mapping) and result.get("status") == "async_launched":
                return
            del self._subagents[call_id]
            if block.is_error:
                await found[0].run.show(block.content)
            await found[1].aclose()
            return
        self._ended.add(call_id)
        run = self._runs.get(call_id, self.run)
        outcome = "failed" if block.is_error else "completed"
        content = block.content
        if block.is_error and isinstance(content, str):
            content = content.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
        await run.end_call(call_id, content, outcome=outcome)
        name, arguments = self._inputs.pop(call_id, ("", {}))
        if name in _TASKS and not block.is_error:
            await self._plan(name, arguments, result)

    async def _plan(self, name: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Keep the plan that the tools for tasks change, one task at a time."""
        tasks = self.conversation.tasks
        if name == "TaskCreate":
            created: Any = result.get("task") if isinstance(result, Mapping) else None
            task_id = str(created["id"] if created else len(tasks) + 1)
            tasks[task_id] = PlanEntry(str(arguments.get("subject", "")))
        else:
            task_id = str(arguments.get("taskId"))
            old = tasks.get(task_id)
            if old is None:
                return
            status = arguments.get("status")
            if status == "deleted":
                del tasks[task_id]
            else:
                tasks[task_id] = PlanEntry(
                    str(arguments.get("subject") or old.content),
                    _STATUSES.get(str(status), "pending") if status else old.status,  # type: ignore[arg-type]
                )
        await self.run.plan(tasks.values())

    async def _system(self, message: SystemMessage) -> None:
        data = message.data
        mode = data.get("permissionMode")
        if isinstance(mode, str) and mode in self._modes and mode != self.claude.mode:
            self.claude.mode = mode
            await self.run.session.set_option("mode", mode)
        match message.subtype:
            case "api_retry":
                self._retries += 1
                if self._retries == 1:
                    why = data.get("error") or data.get("error_status") or "no answer"
                    await self.run.turn.show_notice(
                        "Claude Code asks the model again", description=str(why)
                    )
            case "compact_boundary":
                await self.run.turn.show_notice("The conversation so far is summarized now")
            case "informational":
                await self.run.turn.show_notice(str(data.get("content")))
            case "task_notification" | "task_updated":
                call_id = data.get("tool_use_id")
                status = data.get("status") or data.get("patch", {}).get("status")
                if call_id in self._subagents and status not in ("running", "pending", "paused"):
                    await self._subagents.pop(call_id)[1].aclose()
            case _:
                pass

    # Its end.

    async def _result(self, message: ResultMessage) -> None:
        """Report the use, and note how the turn ends. Raises what has made Claude Code fail."""
        run, usage = self.run, message.usage or {}
        if usage:
            details = usage.get("output_tokens_details") or {}
            await run.used(
                input=_input(usage),
                output=usage.get("output_tokens", 0),
                thought=details.get("thinking_tokens") or None,
                cached_read=usage.get("cache_read_input_tokens"),
                cached_write=usage.get("cache_creation_input_tokens"),
            )
        if message.total_cost_usd is not None:
            self.claude.cost = message.total_cost_usd
        cost = Cost(self.conversation.cost + self.claude.cost, "USD")
        sizes = [each.get("contextWindow", 0) for each in (message.model_usage or {}).values()]
        size = max(sizes, default=0)
        if size:
            await run.context(ContextUsage(min(self._context, size), size, cost))
        taken = {message.user_message_uuid, *(message.user_message_uuids or ())} - {None}
        if taken or self._unanswered:
            self._unanswered -= taken or self._unanswered
        if message.is_error:
            self._stop_reason = await self._failed(message)
            return
        if message.result and not self._has_spoken:
            await run.say(message.result)  # of a command, which no model has answered
        self._stop_reason = _STOPS.get(message.stop_reason or "")

    async def _failed(self, message: ResultMessage) -> StopReason:
        if message.subtype == "error_max_turns":
            return "max_turn_requests"
        text = "\n".join(message.errors or ()) or message.result or message.subtype
        if message.stop_reason == "refusal":
            await self.run.say(text.removeprefix("API Error: "))
            return "refusal"
        status = message.api_error_status
        if status is None and _UNREACHABLE.search(text):
            raise APIConnectionError(text)
        if status in (401, 403) or "/login" in text:
            raise ClaudeCodeError(f"{text} (ANTHROPIC_API_KEY)", status or 401)
        raise ClaudeCodeError(text, status)

    # What it asks.

    async def permit(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        """Answer a request for permission, or a question of Claude Code."""
        call_id: str = context.tool_use_id
        run = await self._run_of(call_id)
        if name in run.shown_elsewhere:
            return PermissionResultAllow()  # these ask themselves
        if name == "AskUserQuestion":
            return await self._ask(run, arguments)
        rules = _session_rules(context.suggestions)
        about = [context.decision_reason, context.description]
        if name == "ExitPlanMode" and arguments.get("plan"):
            about = [arguments["plan"]]
        if rules:
            about.append("Always: " + ", ".join(map(_rule_text, rules)))
        approval = await run.approve(
            call_id,
            name,
            arguments,
            description="\n\n".join(str(each) for each in about if each) or None,
            editable=True,
        )
        if not approval.allowed:
            self._ended.add(call_id)
            return PermissionResultDeny(message="The user does not allow this.")
        always: Mapping[tuple[str, ...], bool] = run.session.data.get("always", {})
        is_always = any(key[0] == name and allowed for key, allowed in always.items())
        return PermissionResultAllow(
            updated_input=approval.input if approval.changed else arguments,
            updated_permissions=rules if rules and is_always else None,
        )

    async def _run_of(self, call_id: str) -> Run:
        """Return where a call is shown, once it is."""
        try:
            async with asyncio.timeout(_SHOWN_S), self._known:
                await self._known.wait_for(lambda: call_id in self._runs)
        except TimeoutError:
            return self.run
        return self._runs[call_id]

    async def _ask(self, run: Run, arguments: dict[str, Any]) -> Any:
        answers: dict[str, str] = {}
        for each in arguments.get("questions", ()):
            options = each.get("options") or ()
            text = str(each.get("question", ""))
            about = [f"- {o['label']}: {o['description']}" for o in options if o.get("description")]
            several = bool(each.get("multiSelect"))
            labels = tuple(str(option["label"]) for option in options)
            message = "\n".join((text, *about))
            try:
                answer = await run.ask(
                    Question(message, (*labels, _OTHER) if labels else (), several)
                )
                if answer == _OTHER or (isinstance(answer, list) and _OTHER in answer):
                    said = await run.ask(Question(text))
                    chosen = [a for a in answer if a != _OTHER] if several else []
                    answer = [*chosen, str(said)] if said is not None else None
            except NotOffered:
                answer = None
            if answer is None:
                return PermissionResultDeny(
                    message="The user did not answer. Ask again in your reply if you need it."
                )
            answers[text] = answer if isinstance(answer, str) else ", ".join(answer)
        return PermissionResultAllow(updated_input={**arguments, "answers": answers})


def _input(usage: Mapping[str, Any]) -> int:
    """Return all tokens of the input, those of the cache included."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


def _session_rules(suggestions: list[PermissionUpdate]) -> list[PermissionUpdate]:
    """Return the rules that Claude Code suggests for "always", for this session only."""
    return [
        PermissionUpdate(type="addRules", rules=each.rules, behavior="allow", destination="session")
        for each in suggestions
        if each.type == "addRules" and each.behavior == "allow" and each.rules
    ]


def _rule_text(update: PermissionUpdate) -> str:
    return ", ".join(
        f"{rule.tool_name}({rule.rule_content})" if rule.rule_content else rule.tool_name
        for rule in update.rules or ()
    )
