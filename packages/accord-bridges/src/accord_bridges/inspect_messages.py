"""Messages of inspect-ai as prompts, and steps of an agent as messages of inspect-ai."""

from __future__ import annotations

import base64

from inspect_ai import model as im
from inspect_ai.tool import ToolCall

from accord import ContentBlock, ImageContent
from accord_bridges.steps import Call, Step

_STOP_REASONS: dict[str | None, im.StopReason] = {
    None: "tool_calls",
    "end_turn": "stop",
    "max_tokens": "max_tokens",
    "max_turn_requests": "max_tokens",
    "refusal": "content_filter",
}


def output_of(step: Step, model: str) -> im.ModelOutput:
    """Return a complete step as the output of a model."""
    usage = im.ModelUsage() if step.cost else None
    if (used := step.usage) is not None:
        usage = im.ModelUsage(
            input_tokens=used.input,
            output_tokens=used.output,
            total_tokens=used.total,
            input_tokens_cache_read=used.cached_read,
            input_tokens_cache_write=used.cached_write,
            reasoning_tokens=used.thought,
        )
    reason = _STOP_REASONS.get(step.stop_reason, "unknown")
    choice = im.ChatCompletionChoice(message=message_of(step, model), stop_reason=reason)
    return im.ModelOutput(model=model, choices=[choice], usage=usage)


def message_of(step: Step, model: str, *only: Call) -> im.ChatMessageAssistant:
    """Return a step as a message, with all calls or only some."""
    content: list[im.Content] = []
    if step.thought:
        content.append(im.ContentReasoning(reasoning=step.thought))
    if step.text:
        content.append(im.ContentText(text=step.text))
    calls = [
        ToolCall(id=call.state.id, function=call.name, arguments=call.arguments)
        for call in only or step.calls
    ]
    return im.ChatMessageAssistant(
        content=content, tool_calls=calls or None, model=model, source="generate"
    )


def contents_of(messages: list[im.ChatMessage]) -> list[ContentBlock]:
    """Return the messages of a sample as the prompt of one turn."""
    blocks: list[ContentBlock] = []
    for message in messages:
        parts = message.content
        for part in [im.ContentText(text=parts)] if isinstance(parts, str) else parts:
            match part:
                case im.ContentText(text=text):
                    said = message.role in {"system", "user"}
                    blocks.append(text if said else f"[{message.role}]\n{text}")
                case im.ContentImage(image=image) if image.startswith("data:"):
                    kind, _, data = image.removeprefix("data:").partition(";base64,")
                    blocks.append(ImageContent(base64.b64decode(data), kind))
                case im.ContentReasoning():
                    pass
                case _:
                    raise ValueError(f"An ACP agent cannot be given {part.type} of a sample")
    return blocks
