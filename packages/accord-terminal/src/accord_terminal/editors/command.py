"""`accord install`: adds an agent to an editor."""

from __future__ import annotations

import json
from pathlib import Path

import click

from accord.errors import AccordError
from accord_terminal.editors.agent_command import editor_command
from accord_terminal.editors.editors import JSON_EDITORS, JsonEditor
from accord_terminal.editors.errors import EditorError
from accord_terminal.editors.jsonc_edit import formatted, value_at, with_member, without_member
from accord_terminal.editors.settings_file import (
    backup_of,
    read_settings,
    replace_settings,
    set_back,
)
from accord_terminal.editors.snippets import SNIPPETS
from accord_terminal.toolkit import settings
from accord_terminal.toolkit.agent_names import DEFAULT, complete_name, find_agent


@click.command("install")
@click.argument("editor", type=click.Choice([*JSON_EDITORS, *SNIPPETS]), metavar="EDITOR")
@click.argument("name", required=False, shell_complete=complete_name)
@click.option("--print", "prints", is_flag=True, help="Print the settings, and write nothing.")
@click.option("--remove", is_flag=True, help="Remove the agent from the settings.")
@click.option(
    "--file",
    "chosen",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another settings file, such as that of a folder, or of a relative of the editor.",
)
def command(editor: str, name: str | None, prints: bool, remove: bool, chosen: Path | None) -> int:
    """Add an agent to the settings of an editor.

    EDITOR is zed, jetbrains or vscode, whose settings are changed, or codecompanion, avante,
    agent-shell or jupyter, for which the text to paste is printed.

    \b
    accord install zed                 Accord's own agent
    accord install zed gemini          an agent of `accord agents`
    accord install jetbrains --print   show what would be written
    accord install zed gemini --remove

    Only the entry of the agent changes: comments and everything else stay. Copies of the file get
    the endings .accord-backup, before the last change, and .accord-original, before the first one.
    """
    try:
        known = settings.load()
        if remove and editor in JSON_EDITORS:
            # The agent need not exist any more.
            _remove(JSON_EDITORS[editor], name or known.ask.agent or DEFAULT, chosen, prints)
            return 0
        agent = find_agent(name, known)
        if agent.source == "command line":
            raise EditorError(
                f"No agent is named {name!r}: expected a name of `accord agents`. Your own agents "
                f"get a name in {settings.path()}"
            )
        if editor in JSON_EDITORS:
            place = JSON_EDITORS[editor]
            entry = place.entry(editor_command(agent))
            _add(place, agent.name, entry, chosen, prints)
            return 0
        if remove or chosen is not None:
            raise click.UsageError(
                f"{SNIPPETS[editor].title} is configured by code, which is yours to edit"
            )
        snippet = SNIPPETS[editor]
        click.echo(f"Paste this into {snippet.place}:\n", err=True)
        click.echo(snippet.text(agent.name, editor_command(agent)), nl=False)
    except (AccordError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return 0


def _add(
    editor: JsonEditor, name: str, entry: dict[str, object], chosen: Path | None, prints: bool
) -> None:
    if chosen is not None and not chosen.parent.is_dir():
        raise EditorError(f"Expected a file in a folder that exists, got {chosen}")
    file = read_settings(chosen or editor.path())
    path = (editor.key, name)
    new = file.edited(lambda text: with_member(text, path, entry))
    if prints:
        click.echo(f"For {file.path}:\n", err=True)
        click.echo(formatted({editor.key: {name: entry}}))
    elif new == file.data:
        click.echo(f"Nothing to do: {name} is in {file.path}")
    else:
        was_there = value_at(file.text, path) is not None
        replace_settings(file, new)
        click.echo(f"{'Changed' if was_there else 'Added'} {name} in {file.path}")
        if file.data is not None:
            click.echo(f"The file as it was: {backup_of(file.path)}")
        click.echo(editor.next_step.format(name=name))


def _remove(editor: JsonEditor, name: str, chosen: Path | None, prints: bool) -> None:
    file = read_settings(chosen or editor.path())
    path = (editor.key, name)
    new = file.edited(lambda text: without_member(text, path)) if file.data else file.data
    if new == file.data or new is None:
        click.echo(f"Nothing to do: {name} is not in {file.path}")
        return
    value = value_at(file.text, path)
    if prints:
        click.echo(f"Would be removed from {file.path}:\n", err=True)
        click.echo(json.dumps({editor.key: {name: value}}, ensure_ascii=False, indent=2))
        return
    # If nothing else has changed since the agent was added, the file becomes what it was.
    before = set_back(file, lambda text: with_member(text, path, value))
    replace_settings(file, new if before is None else before)
    click.echo(f"Removed {name} from {file.path}")
    click.echo(f"The file as it was: {backup_of(file.path)}")
