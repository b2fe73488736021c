"""The handlers of a client: files, terminals, forms and URLs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import (
    AgentTerminal,
    ClientSession,
    InternalError,
    InvalidParams,
    NotOffered,
    ResourceNotFound,
    TerminalOutputChunk,
    connect,
    v1,
)
from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    UrlElicitationRequest,
    form_error,
    form_from_schema,
)
from accord.roles import serve
from accord.transports.memory import pair
from accord.types.session import OptionChoice
from client.wire_agents import BOTH, Script, Speaker, scripted
from quirk import quirk
from raw_peer import QUICK
from requirement import requirement
from versions import only

SHOUT = "import sys; sys.stdout.write('Grüße '); sys.stdout.flush(); sys.stderr.write('✓'*9)"


@asynccontextmanager
async def working(
    script: Script, cwd: Path | str, version: int = 1, **options: Any
) -> AsyncGenerator[ClientSession, None]:
    """Open a session in a directory and run one turn."""
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, scripted(version, script), limits=QUICK))
        async with connect(here, limits=QUICK, versions=only(version), **options) as agent:
            session = await agent.new_session(cwd)
            async with session.prompt("work"):
                pass
            yield session


# Files.


def reading(path: Any, **more: Any) -> v1.ReadTextFileRequest:
    return v1.ReadTextFileRequest(session_id="s1", path=str(path), **more)


def writing(path: Any, content: str) -> v1.WriteTextFileRequest:
    return v1.WriteTextFileRequest(session_id="s1", path=str(path), content=content)


@requirement("R-FS-03", "R-FS-04", "R-DIR-12")
async def test_files_are_read_and_written_inside_the_roots(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes("eins\r\nzwei ✓\r\ndrei".encode())

    async def script(speaker: Speaker) -> None:
        client, file = speaker.client, tmp_path / "notes.txt"
        assert (await client.read_text_file(reading(file))).content == "eins\r\nzwei ✓\r\ndrei"
        part = await client.read_text_file(reading(file, line=2, limit=1))
        assert part.content == "zwei ✓\r\n"
        await client.write_text_file(writing(tmp_path / "new" / "deep.txt", "hello"))

    async with working(script, tmp_path, files="rw"):
        assert (tmp_path / "new" / "deep.txt").read_text("utf-8") == "hello"


@requirement("R-FS-05", "R-FS-06", "R-FS-07", "R-DIR-12")
async def test_path_outside_missing_or_binary_is_an_error(tmp_path: Path) -> None:
    roots = tmp_path / "inside"
    roots.mkdir()
    (tmp_path / "secret").write_text("secret")
    (roots / "link").symlink_to(tmp_path / "secret")
    (roots / "binary").write_bytes(b"\xff\xfe")

    async def script(speaker: Speaker) -> None:
        read = speaker.client.read_text_file
        odd = (f"{roots}/a\0b", f"{roots}/\ud800")
        for path in (
            tmp_path / "secret",
            roots / ".." / "secret",
            roots / "link",
            "relative",
            *odd,
        ):
            with pytest.raises(InvalidParams):
                await read(reading(path))
        with pytest.raises(InvalidParams):
            await speaker.client.write_text_file(writing(roots / "link", "overwritten"))
        with pytest.raises(ResourceNotFound, match="Resource not found"):
            await read(reading(roots / "missing"))
        with pytest.raises(InternalError):
            await read(reading(roots / "binary"))
        with pytest.raises(ResourceNotFound):
            await read(v1.ReadTextFileRequest(session_id="another", path=str(roots / "binary")))

    async with working(script, roots, files="rw"):
        assert (tmp_path / "secret").read_text() == "secret"


@requirement("R-FS-01")
async def test_files_are_advertised_only_if_enabled(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        with pytest.raises(NotOffered):
            await speaker.client.write_text_file(writing(tmp_path / "x", ""))

    async with working(script, tmp_path, files="ro"), working(script, tmp_path):
        assert os.listdir(tmp_path) == []  # noqa: PTH208  # a few names


@requirement("R-FS-02")
async def test_unsaved_text_takes_precedence_over_the_file(tmp_path: Path) -> None:
    class Editor:
        """Has one unsaved file."""

        texts = {str(tmp_path.resolve() / "a"): "unsaved"}

        async def read(self, path: str) -> str:
            if path not in self.texts:
                raise FileNotFoundError
            return self.texts[path]

        def write(self, path: str, text: str) -> None:
            self.texts[path] = text

    editor = Editor()

    async def script(speaker: Speaker) -> None:
        read = speaker.client.read_text_file
        assert (await read(reading(tmp_path / "a"))).content == "unsaved"
        await speaker.client.write_text_file(writing(tmp_path / "b", "new"))
        with pytest.raises(ResourceNotFound):
            await read(reading(tmp_path / "c"))

    async with working(script, tmp_path, files=editor):
        assert sorted(editor.texts.values()) == ["new", "unsaved"]


# Terminals.


class Shell:
    """The requests of one terminal."""

    def __init__(self, speaker: Speaker, terminal_id: str) -> None:
        self.client = speaker.client
        self.ids: Any = {"session_id": speaker.session_id, "terminal_id": terminal_id}

    @classmethod
    async def start(cls, speaker: Speaker, *argv: str, **more: Any) -> Shell:
        request = v1.CreateTerminalRequest(
            session_id=speaker.session_id, command=argv[0], args=list(argv[1:]), **more
        )
        return cls(speaker, (await speaker.client.create_terminal(request)).terminal_id)

    async def output(self) -> v1.TerminalOutputResponse:
        return await self.client.terminal_output(v1.TerminalOutputRequest(**self.ids))

    async def wait(self) -> v1.WaitForTerminalExitResponse:
        return await self.client.wait_for_terminal_exit(v1.WaitForTerminalExitRequest(**self.ids))

    async def kill(self) -> None:
        await self.client.kill_terminal(v1.KillTerminalRequest(**self.ids))

    async def release(self) -> None:
        await self.client.release_terminal(v1.ReleaseTerminalRequest(**self.ids))


PRINTS = "import os, sys; print(os.getcwd(), os.environ['N'], sys.argv[1:]); sys.exit(3)"


async def start_printing(speaker: Speaker) -> Shell:
    env = [v1.EnvVariable(name="N", value="$HOME")]
    return await Shell.start(speaker, sys.executable, "-c", PRINTS, "a b", ";", env=env)


@requirement("R-TERM-03", "R-TERM-06")
async def test_terminal_runs_a_real_command(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        shell = await start_printing(speaker)
        await shell.wait()
        said = await shell.output()
        assert said.output.strip() == f"{tmp_path} $HOME ['a b', ';']"
        assert said.exit_status == v1.TerminalExitStatus(exit_code=3)
        assert not said.truncated

    async with working(script, tmp_path, terminals=True):
        pass


@requirement("R-TERM-07")
async def test_wait_is_answered_with_the_exit_code(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        shell = await start_printing(speaker)
        assert await shell.wait() == v1.WaitForTerminalExitResponse(exit_code=3)

    async with working(script, tmp_path, terminals=True):
        pass


@requirement("R-TERM-02", "R-TERM-10")
async def test_terminal_runs_in_the_background_until_it_is_released(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        shell = await Shell.start(speaker, sys.executable, "-c", "import signal; signal.pause()")
        assert (await shell.output()).exit_status is None
        await shell.release()
        for call in (shell.output, shell.wait, shell.kill, shell.release):
            with pytest.raises(ResourceNotFound):
                await call()

    async with working(script, tmp_path, terminals=True):
        pass


@requirement("R-TERM-11")
async def test_output_stays_in_the_transcript_after_release(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        shell = await start_printing(speaker)
        await shell.wait()
        await shell.release()

    async with working(script, tmp_path, terminals=True) as session:
        (shell,) = session.transcript.terminals.values()
        assert "$HOME" in shell.text
        assert shell.terminal.exit_code == 3


@quirk("shell-line")
@pytest.mark.skipif(sys.platform == "win32", reason="lines for a shell of POSIX")
async def test_line_with_shell_syntax_is_run_by_the_users_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    program = tmp_path / "my program"
    program.write_text("#!/bin/sh\necho itself $#\n")
    program.chmod(0o755)
    (tmp_path / "no program").write_text("text")

    async def script(speaker: Speaker) -> None:
        for line, output in (
            ("echo a; echo 'b  c' | cat && printf %s \"$PWD\"", f"a\nb  c\n{tmp_path}"),
            (str(program), "itself 0\n"),
            ("./my program", "itself 0\n"),
        ):
            shell = await Shell.start(speaker, line)
            await shell.wait()
            assert (await shell.output()).output == output
        for line in ("no-such-program", "./no program"):
            with pytest.raises(InternalError, match="cannot be started"):
                await Shell.start(speaker, line)
        # With arguments it is a program with arguments, as the protocol defines it.
        with pytest.raises(InternalError, match="cannot be started"):
            await Shell.start(speaker, "echo a", "b")

    async with working(script, tmp_path, terminals=True) as session:
        first = next(iter(session.transcript.terminals.values()))
        assert (first.terminal.command or "").startswith("echo a; echo")


@requirement("R-TERM-04", "R-TERM-05")
async def test_output_is_truncated_at_its_beginning_between_characters(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        env = [v1.EnvVariable(name="PYTHONIOENCODING", value="utf-8")]
        shell = await Shell.start(
            speaker, sys.executable, "-c", SHOUT, env=env, output_byte_limit=7
        )
        await shell.wait()
        said = await shell.output()
        assert said.output == "✓✓"
        assert said.truncated

    async with working(script, tmp_path, terminals=True):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has signals")
@requirement("R-TERM-08")
async def test_killed_terminal_exists_until_it_is_released(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        shell = await Shell.start(speaker, sys.executable, "-c", "input() or print(1); 1/0")
        sleeper = await Shell.start(speaker, "sleep", "60")
        assert (await shell.wait()).exit_code == 1  # it has no input
        waiting = asyncio.create_task(sleeper.wait())
        await sleeper.kill()
        assert (await waiting).signal in ("SIGTERM", "SIGKILL")
        await sleeper.kill()
        assert (await sleeper.output()).exit_status is not None
        await sleeper.release()

    async with working(script, tmp_path, terminals=True):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has signals")
async def test_waiting_request_is_answered_before_the_release(tmp_path: Path) -> None:
    order: list[str] = []

    async def script(speaker: Speaker) -> None:
        shell = await Shell.start(speaker, "sleep", "60")

        async def note(name: str, call: Any) -> None:
            await call
            order.append(name)

        await asyncio.gather(note("waited", shell.wait()), note("released", shell.release()))

    async with working(script, tmp_path, terminals=True):
        pass
    assert order == ["waited", "released"]


@pytest.mark.skipif(sys.platform == "win32", reason="there it would kill")
async def test_no_command_runs_after_the_connection(tmp_path: Path) -> None:
    pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def script(speaker: Speaker) -> None:
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
        await Shell.start(speaker, sys.executable, "-c", code)
        await pid

    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, scripted(1, script), limits=QUICK))
        async with connect(here, limits=QUICK, versions=(1,), terminals=True) as agent:
            session = await agent.new_session(tmp_path)
            printed = b""
            async with session.prompt("work") as turn:
                async for event in turn:
                    if isinstance(event, TerminalOutputChunk):
                        printed += event.data
                        if printed.endswith(b"\n"):
                            pid.set_result(int(printed))
            os.kill(pid.result(), 0)
        with pytest.raises(ProcessLookupError):
            os.kill(pid.result(), 0)


async def test_terminal_output_becomes_the_same_events_as_in_v2(tmp_path: Path) -> None:
    events: list[Any] = []

    async def script(speaker: Speaker) -> None:
        shell = await Shell.start(speaker, sys.executable, "-c", "print('hello')")
        await shell.wait()

    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, scripted(1, script), limits=QUICK))
        async with connect(here, limits=QUICK, versions=(1,), terminals=True) as agent:
            session = await agent.new_session(tmp_path)
            async with session.prompt("work") as turn:
                events = [
                    e async for e in turn if isinstance(e, AgentTerminal | TerminalOutputChunk)
                ]
    assert isinstance(events[0], AgentTerminal)
    printed = b"".join(e.data for e in events if isinstance(e, TerminalOutputChunk))
    assert printed.split() == [b"hello"]


async def test_command_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    async def script(speaker: Speaker) -> None:
        with pytest.raises(InternalError):
            await Shell.start(speaker, "no-such-command")
        with pytest.raises(InvalidParams):
            await Shell.start(speaker, "true", cwd="relative")

    async with working(script, tmp_path, terminals=True):
        pass


# Elicitation.


def ask_for(speaker: Speaker, **more: Any) -> Any:
    types = speaker.types
    schema = types.ElicitationSchema(
        type="object",
        properties={
            "name": types.StringPropertySchema(title="Your name"),
            "size": types.IntegerPropertySchema(minimum=1),
            "colour": types.StringPropertySchema(enum=["red", "blue"]),
        },
        required=["name"],
    )
    request = types.ElicitationFormMode(
        message="Who?", session_id="s1", requested_schema=schema, **more
    )
    return speaker.client.create_elicitation(request)


@requirement("R-ELIC-01", "R-ELIC-17", "R-ELIC-24")
@pytest.mark.parametrize(
    ("values", "action"),
    [
        ({"name": "Ada", "size": 3}, "ElicitationAcceptAction"),
        (None, "ElicitationDeclineAction"),
        ({"size": 3}, "ElicitationCancelAction"),
        ({"name": "Ada", "size": 0}, "ElicitationCancelAction"),
        (ZeroDivisionError(), "ElicitationCancelAction"),
    ],
    ids=["filled in", "declined", "missing", "wrong", "failed"],
)
@BOTH
async def test_form_is_answered(version: int, values: Any, action: str, tmp_path: Path) -> None:
    answers: list[Any] = []
    forms: list[ElicitationForm] = []

    async def fill_in(form: ElicitationForm) -> Any:
        forms.append(form)
        if isinstance(values, Exception):
            raise values
        return values

    async def script(speaker: Speaker) -> None:
        answers.append(await ask_for(speaker))

    async with working(script, tmp_path, version, on_elicit_form=fill_in):
        (answer,), (form,) = answers, forms
    assert type(answer).__name__ == action
    assert getattr(answer, "content", None) == (
        values if action.startswith("ElicitationA") else None
    )
    assert form.message == "Who?"
    assert form.fields[0] == FormField(name="name", kind="text", title="Your name", required=True)
    assert form.fields[2].choices == (OptionChoice("red", "red"), OptionChoice("blue", "blue"))


@requirement("R-ELIC-30", "R-ELIC-13")
@BOTH
async def test_url_is_visited_with_consent_and_completed(version: int, tmp_path: Path) -> None:
    pages: list[UrlElicitationRequest] = []

    async def visit(page: UrlElicitationRequest) -> bool:
        pages.append(page)
        return page.url.startswith("https:")

    answers: list[str] = []

    async def script(speaker: Speaker) -> None:
        types = speaker.types
        for number, url in enumerate(["https://example.com", "http://example.com"]):
            request = types.ElicitationUrlMode(
                message="Log in", session_id="s1", elicitation_id=f"e{number}", url=url
            )
            answers.append(type(await speaker.client.create_elicitation(request)).__name__)
        for done in ("e0", "unknown"):
            complete = types.CompleteElicitationNotification(elicitation_id=done)
            await speaker.client.complete_elicitation(complete)

    async with working(script, tmp_path, version, on_elicit_url=visit):
        assert answers == ["ElicitationAcceptAction", "ElicitationDeclineAction"]
        await pages[0].done.wait()


@requirement("R-ELIC-09", "R-ELIC-33")
def test_form_has_every_kind_of_field_and_keeps_unknown_ones() -> None:
    schema = {
        "properties": {
            "t": {"type": "string", "minLength": 2, "maxLength": 3, "format": "email"},
            "n": {"type": "number", "maximum": 1.5},
            "b": {"type": "boolean", "default": True},
            "c": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
            "m": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b"]}},
            "a": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
            "o": {"type": "_tree"},
        }
    }
    form = form_from_schema("Hi", schema, None, None)
    kinds = [field.kind for field in form.fields]
    assert kinds == ["text", "number", "boolean", "choice", "choices", "choices", "_tree"]
    good = {"t": "ab", "n": 1, "b": False, "c": "x", "m": ["a"], "a": [], "o": "anything"}
    assert form_error(form, good) is None
    bad: dict[str, Any] = {
        "t": "a",
        "n": 2,
        "b": 1,
        "c": "y",
        "m": [],
        "a": ["z"],
        "zzz": 1,
    }
    for name, value in bad.items():
        assert form_error(form, good | {name: value}) is not None, name


@pytest.mark.parametrize(
    "items",
    [{"type": "x", "enum": [["a"]]}, {"anyOf": [1]}, {"enum": 1}, {"anyOf": [{"const": 1}]}],
)
def test_items_of_an_unknown_kind_have_no_choices(items: Any) -> None:
    schema = {"properties": {"a": {"type": "array", "items": items}}}
    (field,) = form_from_schema("?", schema, None, None).fields
    assert (field.kind, field.choices) == ("array", ())
