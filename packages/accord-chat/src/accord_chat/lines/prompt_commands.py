"""Commands about the prompt, the queue and the settings of the session."""

from __future__ import annotations

import asyncio

from accord.types.session import SelectOption, SessionOption
from accord_chat.lines import words
from accord_chat.lines.command_group import CommandGroup
from accord_chat.lines.command_table import COMMANDS
from accord_chat.live_session import LiveSession
from accord_chat.model.fuzzy import best_matches
from accord_chat.model.mentions import mention_text
from accord_terminal.toolkit.session_setup import option_of
from accord_terminal.toolkit.text import one_line

MAX_FOUND = 20


class PromptCommands(CommandGroup):
    """What is typed, and how the agent takes it."""

    def help(self, _: str) -> None:
        """List the commands."""
        self.list_rows("Commands:", (f"{one.usage}: {one.summary}" for one in COMMANDS))
        self.say(
            "Everything else that you type is a prompt. A backslash at the end of a line continues "
            "the prompt on the next line. Two colons begin a prompt that begins with a colon. "
            "The beginning of a command is enough, if no other begins so: :rev is :review."
        )

    def cancel(self, _: str) -> None:
        """Cancel the turn."""
        self.host.cancel()

    def again(self, _: str) -> None:
        """Read the question again."""
        if not self.host.show_question():
            self.say("Note: no question is open.")

    def queue(self, _: str) -> None:
        """List the queued prompts."""
        prompts = list(self.session.queue)
        if not prompts:
            self.say("Note: no prompt is queued.")
            return
        rows = (f"{n}: {one_line(prompt.text, 200)}" for n, prompt in enumerate(prompts, 1))
        self.list_rows(f"Queue: {words.count(len(prompts), 'prompt')}", rows)

    def withdraw(self, argument: str) -> None:
        """Take a queued prompt back."""
        session = self.session
        prompts = list(session.queue)
        at = self.chosen(argument or str(len(prompts)), len(prompts))
        prompt = None if at is None else session.queue.withdraw(prompts[at].number)
        if prompt is not None:
            session.draft = "\n".join(filter(None, [prompt.text, session.draft]))
            session.attachments = [*prompt.images, *session.attachments]
            self.chat.save()
            self.draft("")

    def draft(self, _: str) -> None:
        """Read the draft."""
        rows = draft_rows(self.session)
        if not rows:
            self.say("Note: the draft is empty.")
            return
        self.list_rows("Draft:", rows)
        self.say("Note: your next line is added to it. :send sends it, :drop forgets it.")

    def send(self, _: str) -> None:
        """Send the draft."""
        text, self.session.draft = self.session.draft.strip(), ""
        if text or self.session.attachments:
            self.host.send(text)
        else:
            self.say("Note: the draft is empty.")

    def drop(self, _: str) -> None:
        """Forget the draft."""
        self.session.draft, self.session.attachments = "", []
        self.chat.save()
        self.say("Note: the draft is empty.")

    async def edit(self, _: str) -> None:
        """Write the prompt in an editor."""
        text = await self.host.write_prompt(self.session.draft)
        if text is not None:
            self.session.draft = text
            self.send("")

    def commands(self, _: str) -> None:
        """List the slash commands of the agent."""
        known = self.session.transcript.commands
        rows = (
            f"/{one_line(one.name, 60)}: {one_line(one.description, 200)}"
            + (f" ({one_line(one.hint, 100)})" if one.hint else "")
            for one in known
        )
        self.list_rows(f"The agent has {words.count(len(known), 'slash command')}.", rows)

    async def files(self, argument: str) -> None:
        """Search the files of the folder."""
        files = self.session.files
        await asyncio.to_thread(files.refresh)
        found = best_matches(argument.replace(" ", ""), files.paths, MAX_FOUND)
        self.list_rows(
            f"Files: {len(found)} found. Put one of these into your prompt, to attach the file:"
            if found
            else "Files: none found.",
            map(mention_text, found),
        )

    # Settings.

    async def mode(self, argument: str) -> None:
        """Choose the mode."""
        await self._choose("mode", argument)

    async def model(self, argument: str) -> None:
        """Choose the model."""
        await self._choose("model", argument)

    async def _choose(self, category: str, argument: str) -> None:
        options = self.session.transcript.options
        option = option_of([one for one in options if isinstance(one, SelectOption)], category)
        if option is None:
            self.say(f"Note: the agent has no {category}s to choose from.")
        elif argument:
            await self._set_option(option, argument)
        else:
            self.list_rows(f"{one_line(option.name, 60)}:", _values(option))

    async def set(self, argument: str) -> None:
        """List the options, or set one."""
        options = self.session.transcript.options
        option_id, _, value = argument.partition(" ")
        if not argument:
            for option in options:
                self.list_rows(
                    f"Option {one_line(option.id, 60)}, {one_line(option.name, 60)}:",
                    _values(option),
                )
            if not options:
                self.say("Note: the agent has no modes, models or options.")
            return
        option = next((one for one in options if one.id == option_id), None)
        if option is None or not value.strip():
            self.say("Error: type `:set`, the id of an option, and its value. :set lists them.")
            return
        await self._set_option(option, value.strip())

    async def _set_option(self, option: SessionOption, given: str) -> None:
        value: str | bool | None
        if isinstance(option, SelectOption):
            given = given.casefold()
            value = next(
                (
                    choice.value
                    for choice in option.choices
                    if given in (choice.value.casefold(), one_line(choice.name).casefold())
                ),
                None,
            )
        else:
            value = {"on": True, "off": False}.get(given.lower())
        if value is None:
            self.list_rows("Error: it has only these values:", _values(option))
        else:
            await self.session.set_option(option.id, value)


def draft_rows(session: LiveSession) -> list[str]:
    """Return the draft of a session, line by line, and what is attached to it."""
    rows = session.draft.split("\n") if session.draft else []
    return [*rows, *(f"Attached: {one_line(one.name, 100)}" for one in session.attachments)]


def _values(option: SessionOption) -> list[str]:
    if not isinstance(option, SelectOption):
        return ["on, chosen" if option.value else "on", "off" if option.value else "off, chosen"]
    rows: list[str] = []
    for choice in option.choices:
        chosen = ", chosen" if choice.value == option.value else ""
        name, value = one_line(choice.name, 80), one_line(choice.value, 80)
        known_as = f" ({value})" if value.casefold() != name.casefold() else ""
        more = f": {one_line(choice.description, 200)}" if choice.description else ""
        rows.append(f"{name}{known_as}{chosen}{more}")
    return rows
