"""The reply of Accord's client to the state probe: its state of a session."""

from __future__ import annotations

from typing import Any, TypeAlias

from accord.client.events import Compaction, Plan, SessionMessage, StateChanged, Subagent, ToolCall
from accord.client.session import SessionView
from accord.client.transcript import Message, TerminalTranscript
from accord.types.content import ContentBlock, Other
from accord.types.convert_v2 import content_to_wire, tool_content_to_wire
from accord.types.session import ContextUsage, SessionOption
from accord.types.tool_calls import ToolContent
from accord.wire.codec import to_builtins

Json: TypeAlias = dict[str, Any]


def session_state(session: SessionView) -> Json:
    """Return the result of `_accord/session_state` for a session."""
    transcript = session.transcript
    shown: Json = {
        "messages": list(map(_message, transcript.messages)),
        "toolCalls": list(map(_tool_call, transcript.tool_calls)),
        "terminals": list(map(_terminal, transcript.terminals.values())),
        "plans": list(map(_plan, transcript.plans.values())),
        "configOptions": list(map(_option, transcript.options)),
        "compactions": [_compaction(one) for one in transcript.items if type(one) is Compaction],
        "subagents": [_subagent(session, one) for one in transcript.subagents.values()],
        "sessionMessages": [
            _session_message(one) for one in transcript.items if type(one) is SessionMessage
        ],
        "title": transcript.title,
        "updatedAt": transcript.updated_at,
        "usage": _usage(transcript.usage),
    }
    if (state := transcript.state) is not None:
        shown["state"] = _state(state)
        shown["background"] = None if state.background is None else list(state.background)
    return shown


def _content(contents: tuple[ContentBlock, ...]) -> list[Json]:
    return list(map(_block, contents))


def _block(content: ContentBlock) -> Json:
    return content.raw if isinstance(content, Other) else to_builtins(content_to_wire(content))


def _part(content: ToolContent) -> Json:
    if isinstance(content, Other):
        return {"type": "content", "content": content.raw}
    return to_builtins(tool_content_to_wire(content))


def _message(message: Message) -> Json:
    content = _content(message.content)
    return {"messageId": message.id, "role": message.role, "content": content}


def _tool_call(call: ToolCall) -> Json:
    return {
        "toolCallId": call.id,
        "title": call.title,
        "kind": call.kind,
        "status": call.status,
        "name": call.name,
        "content": list(map(_part, call.content)),
        "locations": [{"path": place.path, "line": place.line} for place in call.locations],
        "rawInput": call.raw_input,
        "rawOutput": call.raw_output,
        "capabilities": _capabilities(call.cancellable),
    }


def _capabilities(cancellable: bool) -> Json:
    return {"cancel": {}} if cancellable else {}


def _terminal(shell: TerminalTranscript) -> Json:
    terminal = shell.terminal
    ended = {"exitCode": terminal.exit_code, "signal": terminal.signal}
    return {
        "terminalId": terminal.id,
        "command": terminal.command,
        "cwd": terminal.cwd,
        "output": shell.text,
        "exitStatus": ended if terminal.exited else None,
        "size": terminal.size and {"cols": terminal.size[0], "rows": terminal.size[1]},
        "capabilities": _capabilities(terminal.cancellable),
    }


def _plan(plan: Plan) -> Json:
    return {
        "planId": plan.id,
        "entries": [
            {"content": entry.content, "priority": entry.priority, "status": entry.status}
            for entry in plan.entries
        ],
        "content": plan.markdown,
        "uri": plan.uri,
    }


def _option(option: SessionOption) -> Json:
    return {"configId": option.id, "name": option.name, "currentValue": option.value}


def _compaction(compaction: Compaction) -> Json:
    return {
        "compactionId": compaction.id,
        "status": compaction.status,
        "summary": _content(compaction.summary),
        "error": compaction.error,
    }


def _subagent(session: SessionView, child: Subagent) -> Json:
    view = session.subagent(child.id)  # which has the directories of its parent
    return {
        "sessionId": child.id,
        "title": child.title,
        "description": child.description,
        "state": None if child.state is None else _state(child.state),
        "capabilities": _capabilities(child.cancellable),
        "cwd": view.cwd,
        "additionalDirectories": [root for root in view.directories if root != view.cwd],
    }


def _session_message(message: SessionMessage) -> Json:
    return {
        "messageId": message.id,
        "senderSessionId": message.sender,
        "recipientSessionId": message.recipient,
        "senderMessageId": message.sender_message_id,
        "recipientMessageId": message.recipient_message_id,
        "content": _content(message.content),
    }


def _usage(usage: ContextUsage | None) -> Json | None:
    if usage is None:
        return None
    cost = usage.cost and {"amount": usage.cost.amount, "currency": usage.cost.currency}
    return {"used": usage.used, "size": usage.size, "cost": cost}


def _state(state: StateChanged) -> str:
    return state.state
