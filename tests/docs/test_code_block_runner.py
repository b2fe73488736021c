"""The runner of the docs' code blocks."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from codeblocks import Block, Page, commands, extract, look_up, wanted
from forked import forked_programs


@pytest.fixture(autouse=True)
def forks() -> Generator[None]:
    """Start programs as the test of the pages does."""
    with forked_programs(names=True):
        yield


def run(page: str, folder: Path) -> dict[str, object]:
    runner = Page("page.md", folder)
    runner.run(extract(page))
    return runner.namespace


def test_blocks_are_found_with_language_and_line() -> None:
    assert extract("# T\n\n```python\nx = 1\n```\n\n```console\n$ ls\n```\n") == [
        Block("python", "x = 1\n", 4),
        Block("console", "$ ls\n", 8),
    ]


def test_indent_of_a_block_in_a_list_is_removed() -> None:
    (block,) = extract("1. Do:\n\n   ```python\n   if x:\n       y()\n   ```\n")
    assert block.code == "if x:\n    y()\n"


def test_longer_fence_contains_shorter_ones() -> None:
    (block,) = extract("````markdown\n```python\nx\n```\n````\n")
    assert block.language == "markdown"
    assert block.code == "```python\nx\n```\n"


def test_comment_applies_to_the_next_block_only() -> None:
    first, second = extract("<!-- skip: why -->\n\n```python\n```\n```python\n```\n")
    assert (first.note, first.value) == ("skip", "why")
    assert second.note == ""


@pytest.mark.parametrize(
    "page",
    [
        "<!-- skip: -->\n```python\n```\n",
        "<!-- file -->\n```python\n```\n",
        "<!-- run -->\ntext\n",
        "```python\nx\n",
    ],
    ids=["skip without reason", "file without name", "note without block", "block without end"],
)
def test_unknown_comment_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d+: "):
        extract(page)


def test_skipped_blocks_and_pictures_do_not_run() -> None:
    page = "<!-- skip: w -->\n```python\n1/0\n```\n```text\nx\n```\n"
    assert not [block for block in extract(page) if wanted(block)]


def test_blocks_of_a_page_share_their_names(tmp_path: Path) -> None:
    assert run("```python\nx = 1\n```\n```python\ny = x + 1\n```\n", tmp_path)["y"] == 2


def test_async_block_runs_on_the_loop_of_the_page(tmp_path: Path) -> None:
    page = (
        "```python\nimport asyncio\n```\n"
        "<!-- async -->\n```python\nfuture = asyncio.get_running_loop().create_future()\n"
        "await asyncio.sleep(0)\n```\n"
        "<!-- async -->\n```python\nfuture.set_result(3)\nx = await future\n```\n"
    )
    assert run(page, tmp_path)["x"] == 3


def test_await_without_the_comment_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run("```python\nawait x\n```\n", tmp_path)


def test_failure_names_the_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("# T\n\n```python\nx = 1\nx / 0\n```\n", tmp_path)
    assert caught.traceback[-1].lineno + 1 == 5


def test_file_is_written_and_run_and_its_output_compared(tmp_path: Path) -> None:
    page = (
        "<!-- file: a.py -->\n```python\nprint('hi')\n```\n"
        "<!-- run -->\n```console\n$ python a.py\n{}\n```\n"
    )
    run(page.format("hi"), tmp_path)
    with pytest.raises(AssertionError):
        run(page.format("ho"), tmp_path)


def test_failed_command_is_shown_with_its_errors(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No such file"):
        run("<!-- run -->\n```console\n$ python missing.py\n```\n", tmp_path)


def test_only_python_is_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"only `\$ python"):
        run("<!-- run -->\n```console\n$ rm -rf x\n```\n", tmp_path)


def test_commands_are_split_from_their_output() -> None:
    block = Block("console", "$ python a\none\ntwo\n$ python b\n", 1)
    assert commands(block) == [("python a", "one\ntwo\n"), ("python b", "")]


def test_existing_command_is_accepted() -> None:
    for command in (
        "make test  # all",
        "make PYTHON=/x/python setup",
        "accord ask 'hi' --yes",
        "python -m accord.schema v1",
        "pip install '.[cli]'",
        "bash .ci/run",
    ):
        look_up(command)


@pytest.mark.parametrize(
    "command",
    [
        "make coffee",
        "accord dance",
        "accord ask hi --loudly",
        "python -m accord.schema v9",
        "pip install '.[wings]'",
        "sh no/such/script",
        "rm -rf x",
    ],
)
def test_missing_command_is_an_error(command: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        look_up(command)


def test_json_is_parsed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expecting"):
        run("```json\n{x}\n```\n", tmp_path)


def test_unknown_language_needs_a_skip_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="can only be skipped"):
        run("```lua\nx()\n```\n", tmp_path)


def test_pytest_blocks_are_run_by_pytest(tmp_path: Path) -> None:
    run("<!-- pytest -->\n```python\nasync def test_it(): assert 1\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="1 failed"):
        run("<!-- pytest -->\n```python\nasync def test_it(): assert 0\n```\n", tmp_path)
