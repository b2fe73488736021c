"""The commands that need no prompt for the model: mode, model, compact, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accord import ContentBlock, SelectOption
from accord_coder.export_markdown import markdown_parts
from accord_coder.loop.turn import compact as shorten
from accord_coder.permissions.gate import require_permission
from accord_coder.tool_results import Access, ToolFailed

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.commands.base import CommandCall
    from accord_coder.loop.coder_session import CoderSession


async def mode(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Show or set the mode."""
    await _show_or_set("mode", asked, turn, state)
    return None


async def model(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Show or set the model."""
    await _show_or_set("model", asked, turn, state)
    return None


async def _show_or_set(option_id: str, asked: CommandCall, turn: Turn, state: CoderSession) -> None:
    session = state.session
    option = next((o for o in session.options if o.id == option_id), None)
    if not isinstance(option, SelectOption):
        await turn.say(f"This session has no option `{option_id}`.")
        return
    wanted = asked.arguments.strip("`")
    if wanted:
        match = [c for c in option.choices if wanted.lower() in (c.value.lower(), c.name.lower())]
        if match:
            await state.hooks.set_option(session, option_id, match[0].value)
            await session.set_option(option_id, match[0].value)
            await turn.say(f"The {option_id} is now `{match[0].value}`.")
            return
        await turn.say(f"Unknown {option_id} `{wanted}`.\n\n")
    lines = [f"The {option_id} is `{option.value}`. Available:", ""]
    lines += [
        f"- `{choice.value}` — {choice.description or choice.name}" for choice in option.choices
    ]
    await turn.say("\n".join([*lines, "", f"Switch with `/{option_id} NAME`."]))


async def compact(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Compact the conversation."""
    model = await state.hooks.session_model(state)
    if not model.is_language_model:
        await turn.say("Nothing to compact: the demonstration model reads only your last prompt.")
        return None
    before = len(state.messages)
    if await shorten(turn, state, model, hint=asked.arguments):
        await turn.say(f"Replaced {before} messages by a summary; {len(state.messages)} are left.")
    else:
        await turn.say("Nothing to compact.")
    return None


async def export(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Write the conversation to a file."""
    session = state.session
    if not await session.history():
        await turn.say("Nothing to export: this session is not stored.")
        return None
    name = asked.arguments.strip("`\"'") or f"{session.id[:16]}.md"
    path = str(Path(session.cwd, name))
    title = session.title or "A session with Accord"
    parts = markdown_parts(await turn.history(), title)
    if name.lower().endswith((".html", ".htm")):
        from accord.text.markdown_html import page_of

        text = page_of(title, parts)
    else:
        text = "\n\n".join(parts) + "\n"
    async with turn.tool(f"Export to {name}", kind="edit", locations=[path]) as call:
        try:
            if not await state.files.is_reachable(path):
                raise ToolFailed(f"{name} is outside the session's directories.")
            old = await state.files.load_for_change(path, previews=False)
            if old is None:
                await call.add_diff(path, None, text)
            else:
                await call.add_diff(path, old.raw, old.raw_of(text))
            await require_permission(Access("edit", (path,)), call, state)
            await state.files.store(path, old, text)
        except ToolFailed as error:
            await call.fail(str(error))
            return None
        except OSError as error:
            await call.fail(f"Cannot write the file: {error.strerror or error}")
            return None
    await turn.say(f"The conversation is in `{name}`.")
    return None
