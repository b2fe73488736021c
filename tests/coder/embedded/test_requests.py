"""What the embedded model does for people, through a client over a pipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import EmbeddedResource, ResourceLink
from accord_coder.models.embedded.model import Embedded
from accord_coder.settings import Settings
from coder.talk import BOTH, CoderHarness, coder_session

APP = '''\
"""An app."""

import os

LIMIT = 3


class App:
    """The app."""

    def fetch(self, key, *, again=False):
        return fetch_all(key)


def fetch_all(key):
    # FIXME: slow
    return prefetch_all(key)


def prefetch_all(key):
    return os.environ[key]
'''
README = "# Demo\n\nText. TODO: more of it\n\n## Use\n\n```\n# no heading\n```\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(APP)
    (tmp_path / "src" / "use.py").write_text("from app import fetch_all\n\nfetch_all(1)\n")
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "data.json").write_text('{"name": "demo", "list": [1, 2], "inner": {"a": true}}')
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "demo"\ndescription = "A demo."\n\n'
        '[tool.pytest.ini_options]\naddopts = "-p no:cacheprovider"\n'
    )
    (tmp_path / "test_app.py").write_text("def test_one():\n    assert True\n")
    return tmp_path


def talk_to(version: int, project: Path, **more: Any) -> Any:
    return coder_session(version, cwd=project, model=Embedded(), **more)


def titles(talk: CoderHarness) -> list[str]:
    return [call.title for call in talk.calls]


@BOTH
async def test_file_is_shown_with_its_length(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("Could you show me README.md, please?")
    assert said.startswith("`README.md`, 9 lines:\n\n````markdown\n# Demo\n")
    assert talk.asked == []


@BOTH
async def test_lines_of_a_file_are_shown(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        assert "lines 3–5 of 21" in await talk.prompt("show lines 3-5 of src/app.py")
        assert "```python\nimport os\n\nLIMIT = 3\n```" in await talk.prompt("lines 3-5 of it")
        assert "The last 1 line" in await talk.prompt("show the last 1 lines of src/app.py")


@BOTH
async def test_long_file_is_cut_and_the_rest_is_offered(version: int, project: Path) -> None:
    (project / "long.txt").write_text("".join(f"line {n}\n" for n in range(5000)))
    async with talk_to(version, project) as talk:
        said = await talk.prompt("read long.txt")
        assert "`read long.txt lines 61-460`" in said
        assert "line 61" not in said.partition("…")[0]
        assert "line 60\n" in await talk.prompt("read long.txt lines 61-460")


@BOTH
async def test_folder_is_listed_and_files_are_found_and_counted(
    version: int, project: Path
) -> None:
    async with talk_to(version, project) as talk:
        assert "4 files and 1 folder" in await talk.prompt("what files are here?")
        found = await talk.prompt("find all python files in src")
        assert "2 files match" in found
        assert "`src/use.py`" in found
        assert "2 files match" in await talk.prompt("how many python files are in src?")
        assert "21 lines" in await talk.prompt("count the lines of src/app.py")
        assert "24 lines" in await talk.prompt("count the lines of all python files in src")
        assert "6 times in `src`" in await talk.prompt("how often does fetch_all occur in src?")


@BOTH
@pytest.mark.parametrize("asked", ["find zebra", "search for zebra"])
async def test_search_says_which_files_it_left_out(version: int, asked: str, project: Path) -> None:
    (project / ".env").write_text("A=zebra\n")
    async with talk_to(version, project) as talk:
        said = await talk.prompt(asked)
        assert "`zebra` is in no file that I may show" in said
        assert "Left out, as they may hold secrets: `.env`." in said
        assert "nowhere" not in said
        (project / "a.txt").write_text("zebra\n")
        said = await talk.prompt(asked)
        assert "1 line of 1 file" in said
        assert said.endswith("Left out, as they may hold secrets: `.env`.")


@BOTH
async def test_search_shows_places_by_file(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt('search for "fetch_all(" in src')
    assert "`fetch_all(` is in 5 lines of 2 files in `src`:" in said
    assert "- `src/use.py`\n  - 3: `fetch_all(1)`" in said


@BOTH
async def test_todos_are_grouped_by_their_mark(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("find the TODOs")
    assert "**FIXME** (1)\n\n- `src/app.py:16` slow" in said
    assert "**TODO** (1)\n\n- `README.md:3` more of it" in said


@BOTH
async def test_python_is_outlined_and_files_are_explained(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        outline = await talk.prompt(
            "outline this file", ResourceLink(f"file://{project}/src/app.py", "a")
        )
        assert "- `class App` 8–12: The app.\n  - `def fetch(self, key, *, again)` 11–12" in outline
        assert "It says of itself: “An app.”" in await talk.prompt("explain src/app.py")
        headings = await talk.prompt("explain README.md")
        assert "- Demo (1)\n  - Use (5)" in headings
        assert "no heading" not in headings
        assert "- `inner`: 1 key\n  - `a`: true" in await talk.prompt("what is in data.json?")
        assert "- `project`: 2 keys" in await talk.prompt("explain pyproject.toml")
        assert "the Python project `demo`. “A demo.”" in await talk.prompt("explain this project")


@BOTH
async def test_text_that_comes_with_the_prompt_needs_no_tool(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        note = EmbeddedResource("note://1", "one two\nthree\n")
        assert "2 lines, 3 words" in await talk.prompt("count the words of this", note)
        assert talk.calls == []


@BOTH
async def test_text_is_replaced_with_permission(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt('replace "Text" with "Words" in README.md')
    assert said == "Replaced 1 occurrence of `Text` with `Words` in `README.md`."
    assert len(talk.asked) == 1
    assert (project / "README.md").read_text() == README.replace("Text", "Words")


@BOTH
async def test_text_that_is_not_there_changes_nothing(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt('replace "text." with "x" in README.md')
    assert said == (
        "`text.` is not in `README.md`, so nothing was changed. There is `Text.`: case matters."
    )


@BOTH
async def test_symbol_is_renamed_as_a_word_in_every_file(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("rename the function fetch_all to load_all in src")
    assert "- `src/app.py`: 2 occurrences\n- `src/use.py`: 2 occurrences" in said
    assert "Renamed 4 occurrences of `fetch_all` to `load_all` in 2 files." in said
    text = (project / "src" / "app.py").read_text()
    assert "def load_all(key)" in text
    assert "def prefetch_all(key)" in text
    assert len(talk.asked) == 2


@BOTH
async def test_refused_edit_of_a_rename_is_said_and_the_others_are_made(
    version: int, project: Path
) -> None:
    def allow(request: Any) -> str:
        return "reject" if "app.py" in request.title else "allow"

    async with talk_to(version, project, allow=allow) as talk:
        said = await talk.prompt("rename fetch_all to load_all everywhere")
    assert "1 file was not changed:\n\n- `src/app.py`: " in said
    assert (project / "src" / "app.py").read_text() == APP
    assert "load_all(1)" in (project / "src" / "use.py").read_text()


@BOTH
async def test_file_is_created_filled_and_deleted(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        assert await talk.prompt("create docs/a.md:\n# A\n\n- one") == (
            "Created `docs/a.md`, 3 lines."
        )
        await talk.prompt('append "- two" to docs/a.md')
        await talk.prompt('insert "Top" at the top of docs/a.md')
        await talk.prompt('add "between" after line 3 of docs/a.md')
        await talk.prompt('put "before" before "- two" in docs/a.md')
        await talk.prompt("delete line 1 of docs/a.md")
        path = project / "docs" / "a.md"
        assert path.read_text() == "# A\n\nbetween\n- one\nbefore\n- two\n"
        assert "exists already" in await talk.prompt('create docs/a.md with "x"')
        await talk.prompt('overwrite docs/a.md with "x"')
        assert path.read_text() == "x\n"
        assert await talk.prompt("delete docs/a.md") == "Deleted `docs/a.md`."
        assert not path.exists()


@BOTH
async def test_file_is_moved_renamed_and_copied(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        assert await talk.prompt("rename src/use.py to used.py") == (
            "Renamed `src/use.py` to `src/used.py`."
        )
        assert await talk.prompt("move data.json to src") == "Moved `data.json` to `src/data.json`."
        assert await talk.prompt("copy src/data.json to data.json") == (
            "Copied `src/data.json` to `data.json`."
        )
    assert (project / "src" / "used.py").exists()
    assert (project / "data.json").read_text() == (project / "src" / "data.json").read_text()


@BOTH
async def test_files_are_deleted_by_a_pattern_once_seen_and_confirmed(
    version: int, project: Path
) -> None:
    asked: list[str] = []

    async def agree(form: Any) -> Any:
        asked.append(form.message)
        return {"answer": "Delete them"}

    async with talk_to(version, project, on_elicit_form=agree) as talk:
        said = await talk.prompt("delete all *.py files in src")
    assert said.startswith("2 files match `**/*.py`:\n\n- `src/app.py`\n- `src/use.py`")
    assert asked == ["Delete 2 files matching *.py?"]
    assert len(talk.asked) == 2
    assert list((project / "src").iterdir()) == []


@BOTH
async def test_without_an_answer_a_pattern_deletes_nothing(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("delete all *.py files in src")
    assert 'say `delete "src/app.py" "src/use.py"`' in said
    assert (project / "src" / "app.py").exists()


@BOTH
async def test_command_is_run_and_its_end_is_told(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("run `echo hello`")
        assert said == "`echo hello` ended well. It printed:\n\n```\nhello\n```"
        said = await talk.prompt("run `sh -c 'exit 3'`")
        assert said.endswith("ended with exit status 3 and printed nothing.")


@BOTH
async def test_tests_are_run_as_the_project_has_it(version: int, project: Path) -> None:
    (project / "pyproject.toml").unlink()
    (project / "test_app.py").unlink()
    (project / "Makefile").write_text("test:\n\t@echo 3 passed in 0.1s\n")
    async with talk_to(version, project) as talk:
        said = await talk.prompt("do the tests pass?")
    assert said == (
        "**The tests pass** (`3 passed in 0.1s`). I ran them with `make test`, since `Makefile` has"
        " a target `test`."
    )


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pyproject.toml": "[tool.pytest]"}, "python3 -m pytest -q"),
        ({"tox.ini": "commands = pytest", "Makefile": "test:\n"}, "python3 -m pytest -q"),
        ({"package.json": '{"scripts": {"test": "x"}}'}, "npm test"),
        ({"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""}, "yarn test"),
        ({"Cargo.toml": "[package]"}, "cargo test"),
        ({"go.mod": "module x"}, "go test ./..."),
    ],
)
async def test_way_to_run_the_tests_is_found(
    tmp_path: Path, files: dict[str, str], command: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    async with talk_to(1, tmp_path, allow="reject") as talk:
        said = await talk.prompt("run the tests")
        assert [request.title for request in talk.asked] == [command]
    assert said.startswith(f"I could not run the tests with `{command}`: ")


@BOTH
async def test_requests_are_shown_as_a_plan_that_progresses(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        await talk.prompt("1. read README.md\n2. count its lines\n3. find TODOs")
        plans = [event for event in talk.events if type(event).__name__ == "Plan"]
        statuses = [[entry.status for entry in plan.entries] for plan in plans]
    assert statuses == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]
    assert [entry.content for entry in plans[0].entries] == [
        "Read README.md",
        "Count its lines",
        "Find TODOs",
    ]


@BOTH
async def test_nothing_is_begun_after_a_change_was_refused(version: int, project: Path) -> None:
    async with talk_to(version, project, allow="reject") as talk:
        said = await talk.prompt("delete README.md, then run `touch made`")
    assert "I could not delete `README.md`" in said
    assert "I stopped at step 1 of 2; 1 was not begun: Run `touch made`." in said
    assert len(talk.asked) == 1


@BOTH
async def test_in_plan_mode_the_plan_is_approved_first(version: int, project: Path) -> None:
    def allow(request: Any) -> str:
        return "allow_always"

    settings = Settings(mode="plan")
    async with talk_to(version, project, settings=settings, allow=allow) as talk:
        said = await talk.prompt('read README.md, then replace "Text" with "Words" in it')
        assert "Replaced 1 occurrence" in said
        assert len(talk.asked) == 1


@BOTH
async def test_plan_that_is_not_approved_changes_nothing(version: int, project: Path) -> None:
    settings = Settings(mode="plan")
    async with talk_to(version, project, settings=settings, allow="reject") as talk:
        said = await talk.prompt("delete README.md")
        assert "2 files" in await talk.prompt("find all python files in src")
    assert said.startswith("I could not begin: The user does not approve the plan")


@BOTH
async def test_it_says_what_it_is_when_it_does_not_understand(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("refactor the whole thing into microservices")
        assert "no language model" in said
        assert "`--model PROVIDER:NAME`" in said
        assert "Nearest to it: `count the lines of README.md`" in await talk.prompt(
            "could you cuont up every single line out there in README.md"
        )
        assert talk.calls == []


@BOTH
async def test_what_was_understood_is_done_if_it_only_reads(version: int, project: Path) -> None:
    async with talk_to(version, project) as talk:
        said = await talk.prompt("Something smells here. Count the lines of README.md.")
    assert "`README.md` has 9 lines" in said
    assert "I did not understand “Something smells here”. " in said


@BOTH
async def test_file_outside_the_roots_needs_permission(version: int, project: Path) -> None:
    outside = project.parent / "outside.txt"
    outside.write_text("secret\n")
    async with talk_to(version, project, allow="reject") as talk:
        said = await talk.prompt(f"read {outside}")
    assert said.startswith(f"I could not read `{outside}`: ")
    assert "secret" not in said


async def test_answers_are_the_same_in_both_versions(project: Path) -> None:
    prompts = ("help", "what is this project?", "find TODOs", "outline src/app.py and src/use.py")
    said: list[Sequence[str]] = []
    for version in (1, 2):
        async with talk_to(version, project) as talk:
            said.append([await talk.prompt(prompt) for prompt in prompts])
    assert said[0] == said[1]


def test_structure_of_what_is_broken_is_said_to_be_broken(project: Path) -> None:
    from accord_coder.models.embedded.structure import structure_of
    from accord_coder.models.embedded.syntax import NotPython, outline

    assert "not valid JSON" in (structure_of("a.json", "{") or "")
    assert "not valid TOML" in (structure_of("a.toml", "= 1") or "")
    for text in ("def (", "(" * 100_000, "\0", "x = '\\d'\n" * 3 + ")"):
        with pytest.raises(NotPython):
            outline("a.py", text)
    assert "2 columns" in (structure_of("a.csv", "a,b\n1,2\n") or "")
    assert json.dumps(structure_of("a.bin", "")) != ""


@pytest.mark.parametrize(
    ("output", "passes"),
    [
        ("3 passed in 0.1s", True),
        ("1 passed, 2 skipped in 0.1s", True),
        ("Ran 12 tests in 0.1s\n\nOK", True),
        ("running 2 tests\ntest result: ok. 2 passed; 0 failed", True),
        ("ok  \texample.org/x\t0.1s", True),
        ("Tests:       3 passed, 3 total", True),
        ("  4 passing (10ms)", True),
        ("# tests 3\n# pass 3", True),
        ("no tests ran in 0.01s", False),
        ("2 skipped in 0.01s", False),
        ("Ran 0 tests in 0.000s\n\nOK", False),
        ("running 0 tests\ntest result: ok. 0 passed; 0 failed", False),
        ("?   \texample.org/x\t[no test files]", False),
        ("ok  \texample.org/x\t0.1s [no tests to run]", False),
        ("No tests found", False),
        ("make: Nothing to be done for 'test'.", False),
        ("", False),
    ],
)
async def test_tests_pass_only_if_some_ran(output: str, passes: bool, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(output)
    (tmp_path / "Makefile").write_text("test:\n\t@cat out.txt\n")
    async with coder_session(1, cwd=tmp_path) as talk:
        said = await talk.prompt("do the tests pass?")
        assert said.startswith("**The tests pass**") is passes, said
