"""The first screen of a new session: who answers, where, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size

from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession
from accord_chat.model.conversation import Remark
from accord_terminal.toolkit.terminal_output import fold_words
from accord_terminal.toolkit.text import one_line

MIN_WIDTH, MAX_WIDTH = 20, 76
CODER = "accord-coder"  # the name of Accord's own agent in the protocol
DEMO = (
    "The demonstration model is not a language model: it runs a few fixed commands, "
    "without an account. With an API key, accord uses a language model."
)
TRIES_OF_DEMO = (
    ("help", "lists its commands"),
    ("list", "lists the files here"),
    ("create hello.txt 'Hello'", "asks for your permission"),
)
TRIES = (
    ("What is in this folder?", ""),
    ("Explain @", "then a part of a file's name"),
    ("Find a bug, and write a test for it", ""),
)
COMMANDS = ("/", "lists the agent's commands")
KEYS = (  # in two columns, and in one line
    ("Enter", "sends", "sends"),
    ("Esc", "cancels the turn", "cancels"),
    ("F1", "shows all keys", "all keys"),
    ("Ctrl+Q", "quits", "quits"),
)
OTHER = "Another agent: Alt+N, or accord chat --agent NAME"


def welcome_lines(session: LiveSession, size: Size) -> list[Text]:
    """Return the lines for a new session; none if it has a conversation, or there is no room.

    Small screens have no empty lines, and then fewer things to try.
    """
    width = min(size.width - 4, MAX_WIDTH)
    if width < MIN_WIDTH or not _is_new(session):
        return []
    model = _model(session)
    is_demo = _is_demonstration(session)
    about = fold_words(DEMO, width) if is_demo else []
    tries = list(TRIES_OF_DEMO if is_demo else TRIES)
    if not is_demo and session.transcript.commands:
        tries[-1] = COMMANDS
    head = [_head(session, model), Text(_shortened(_folder(session.cwd), width), "dim")]
    blocks = [
        head,
        [Text(line) for line in about],
        # Until the agent has started, it is not known what it understands.
        [Text("Try", "bold"), *_tries(tries, width)] if session.session is not None else [],
        _keys(width, is_wide=size.height >= 14),
        [Text(OTHER, "dim")],
    ]
    while (lines := _joined(blocks, apart=True)) and len(lines) > size.height:
        lines = _joined(blocks, apart=False)
        if len(lines) <= size.height or not blocks[2]:
            break
        blocks[2] = blocks[2][:-1] if len(blocks[2]) > 2 else []
    lines = lines[: size.height]
    above = max((size.height - len(lines)) // 3, 0)
    return [*(Text() for _ in range(above)), *(_fitted(line, width) for line in lines)]


def _is_new(session: LiveSession) -> bool:
    """Return whether nothing was said or has failed; the program may have remarked something."""
    if session.has_prompts or session.queue or session.state == "failed":
        return False
    return all(isinstance(entry.content, Remark) for entry in session.timeline.entries)


def _is_demonstration(session: LiveSession) -> bool:
    """Return whether Accord's own agent answers with its demonstration model."""
    options = {option.id: option.value for option in session.transcript.options}
    agent = session.agent
    return agent is not None and agent.info.name == CODER and options.get("model") == "demo"


def _joined(blocks: Sequence[Sequence[Text]], *, apart: bool) -> list[Text]:
    lines: list[Text] = []
    for block in blocks:
        if block:
            lines += [Text(), *block] if lines and apart else block
    return lines


def _fitted(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return Text.assemble("  ", line, no_wrap=True, end="")


def _head(session: LiveSession, model: str) -> Text:
    head = Text.assemble((one_line(session.agent_name, 60), "bold cyan"))
    if model:
        head.append(f" · {model}", "cyan")
    return head


def _model(session: LiveSession) -> str:
    for option in session.transcript.options:
        if isinstance(option, SelectOption) and option.category == "model":
            names = {choice.value: choice.name for choice in option.choices}
            return one_line(names.get(option.value, option.value), 60)
    return ""


def _folder(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}".removesuffix("/.")
    except (ValueError, RuntimeError):  # elsewhere, or the home is not known
        return str(path)


def _shortened(path: str, width: int) -> str:
    path = one_line(path, 500)
    return path if len(path) <= width else f"…{path[1 - width :]}"


def _tries(tries: Sequence[tuple[str, str]], width: int) -> list[Text]:
    column = max(cell_len(text) for text, _ in tries) + 4
    lines: list[Text] = []
    for text, about in tries:
        line = Text.assemble("  ", (text, "green"))
        if about and column + cell_len(about) <= width:
            line.append(" " * (column - cell_len(text)))
            line.append(about, "dim")
        lines.append(line)
    return lines


def _keys(width: int, *, is_wide: bool) -> list[Text]:
    """Return the four keys in two lines and columns, or in one line."""
    if is_wide and width >= 56:
        rows = (KEYS[:2], KEYS[2:])
        return [
            Text.assemble(
                *(part for key, does, _ in row for part in _cell(key, does)),
            )
            for row in rows
        ]
    line = Text()
    for number, (key, _, short) in enumerate(KEYS):
        if number:
            line.append(" · ", "dim")
        line.append(key, "bold").append(f" {short}", "dim")
    return [line]


def _cell(key: str, does: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (f"{key:<8}", "bold"), (f"{does:<22}", "dim")
