"""Plain requests are understood as they are meant, or not at all."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import EmbeddedResource, ImageContent, ResourceLink
from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.plan import recipe_for
from accord_coder.models.embedded.recipe import Say, Use
from accord_coder.models.embedded.table import REQUESTS
from accord_coder.models.embedded.understanding import Understood, understand

TOOLS = frozenset({"ask", "fetch", "plan"})


def asked(text: str, *attached: Any) -> list[str]:
    """Return the names of the requests that a prompt makes; fail when a part is not understood."""
    understood = understand((text, *attached))
    assert not understood.problem
    assert not understood.unknown
    return [step.request.name for step in understood.steps]


def held(text: str, *attached: Any) -> dict[str, Any]:
    """Return what the slots of the one request hold, places as paths."""
    understood = understand((text, *attached))
    assert not understood.problem, understood.problem
    (step,) = understood.steps
    return {name: plain(value) for name, value in step.held.items()}


def plain(value: Any) -> Any:
    match value:
        case Place(path=path):
            return path
        case tuple():
            return tuple(map(plain, value))
        case _:
            return value


@pytest.mark.parametrize(
    ("request_", "example"),
    [(request, example) for request in REQUESTS for example in request.examples],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_example_is_understood_as_its_request(request_: Any, example: str) -> None:
    attached = [ResourceLink("file:///a.py", "a.py")] if "this file" in example else []
    (name,) = asked(example, *attached)
    assert name.partition(" by ")[0] == request_.name.partition(" by ")[0]


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Could you please show me README.md?", "read"),
        ("I'd like you to read the file README.md, thanks", "read"),
        ("what does setup.cfg contain", "read"),
        ("cat README.md", "read"),
        ("take a look at @src/app.py", "read"),
        ("print the first 10 lines of a.txt", "read"),
        ("show line 5 of a.txt", "read"),
        ("show me lines 3 to 9 from a.txt", "read"),
        ("what's in src?", "list"),
        ("what files are there?", "list"),
        ("show me the contents of the folder src", "list"),
        ("list everything in docs", "list"),
        ("look for files named *.toml", "find"),
        ("find every markdown file", "find"),
        ("find `*.txt`", "find"),
        ("list all python files", "find"),
        ("grep foo", "search"),
        ("search src for foo bar", "search"),
        ("where is fetch_all used?", "search"),
        ("find all uses of fetch_all in src", "search"),
        ('find "some text" in docs', "search"),
        ("which files use asyncio.sleep?", "search"),
        ("show all TODO comments", "todos"),
        ("are there any FIXMEs left?", "todos"),
        ("todos", "todos"),
        ("count words in a.txt", "count"),
        ("how many lines does a.txt have?", "count"),
        ("how long is a.txt?", "count"),
        ("how many files are in src?", "count files"),
        ("how many times is foo used in src/app.py?", "count occurrences"),
        ("show me the outline of a.py", "outline"),
        ("what classes are in a.py?", "outline"),
        ("list the functions in a.py", "outline"),
        ("describe a.md", "explain"),
        ("what is a.py for?", "explain"),
        ("what does this project do?", "project"),
        ('in a.txt, replace "x" with "y"', "replace"),
        ('substitute "x" by "y" in a.txt', "replace"),
        ('remove "x" from a.txt', "replace"),
        ("rename function foo to bar across src", "rename a symbol"),
        ("rename foo to bar everywhere", "rename a symbol"),
        ("make a new file a.txt containing the text hello", "create"),
        ("touch a.txt", "create"),
        ("make a folder named out", "create a folder"),
        ('add the line "x" to a.txt', "add"),
        ('put "x" at the end of a.txt', "add"),
        ('insert "x" after line 3 in a.txt', "add"),
        ("take out lines 3-4 of a.txt", "take out lines"),
        ("rm a.txt", "delete"),
        ("please remove the files a.txt, b.txt and c.txt", "delete"),
        ("get rid of a.txt", "delete"),
        ("mv a.txt b.txt", "move"),
        ("rename a.txt to b.txt", "move"),
        ("copy a.txt to b.txt", "copy"),
        ("run `ls -la | wc -l`", "run"),
        ("execute python3 -c 'print(1)'", "run"),
        ("pytest -q tests", "run"),
        ("run tests", "tests"),
        ("make sure that the tests pass", "tests"),
        ("run the test suite again", "tests"),
        ("show the changes", "git diff"),
        ("which branch are we on?", "git status"),
        ("show recent commits", "git log"),
        ("what can you do?", "help"),
        ("are you a language model?", "who"),
        ("Hi there!", "hello"),
        ("Thank you very much", "thanks"),
    ],
)
def test_it_is_understood_in_other_words(prompt: str, name: str) -> None:
    assert asked(prompt) == [name]


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("read a.txt and count its lines", ["read", "count"]),
        ("Read a.txt. Then run the tests.", ["read", "tests"]),
        ("list the files, find the TODOs, and run the tests", ["list", "todos", "tests"]),
        ("1. list files\n2. read a.txt\n3. delete it", ["list", "read", "delete"]),
        ("- read a.txt\n- outline b.py", ["read", "outline"]),
        ("Hello! Read a.txt, please. Thanks!", ["read"]),
        ("run make and read README.md", ["run", "read"]),
        ("search for foo and then read a.txt", ["search", "read"]),
        (
            "First list the files, then find TODOs, finally run the tests",
            ["list", "todos", "tests"],
        ),
        ("create a.py with\n```python\nx = 1\n```\nthen run `python3 a.py`", ["create", "run"]),
        ("Do the following:\n1. list files\n2. find TODOs", ["list", "todos"]),
    ],
)
def test_several_requests_are_taken_in_their_order(prompt: str, names: list[str]) -> None:
    understood = understand((prompt,))
    assert not understood.problem
    assert [step.request.name for step in understood.steps] == names


def test_it_means_the_file_of_the_request_before() -> None:
    understood = understand(('create notes/a.txt with "x", then read it and delete it',))
    assert [plain(list(s.held.values())[-1]) for s in understood.steps[1:]] == [
        ("notes/a.txt",),
        ("notes/a.txt",),
    ]


def test_it_means_where_a_file_was_moved_to() -> None:
    understood = understand(("move a.txt to docs/, then read it",))
    assert plain(understood.steps[1].places()) == ("docs/a.txt",)


def test_nothing_is_begun_when_a_later_request_is_not_clear() -> None:
    assert used(understand(("run ls; rm -rf /",))) == []
    assert used(understand(("run ls, then delete the junk",))) == []
    assert used(understand(("run ls, then add tests to a.py",))) == []
    assert used(understand(("delete a.txt, then run away",))) == []


def test_this_file_is_the_one_that_is_linked() -> None:
    link = ResourceLink("file:///home/me/my%20app.py#L3-L9", "my app.py")
    assert held("outline this file", link)["paths"] == ("/home/me/my app.py",)
    assert held("outline", link)["paths"] == ("/home/me/my app.py",)
    (step,) = understand(("read", link)).steps
    assert (step.places()[0].first, step.places()[0].last) == (3, 9)


def test_links_stand_in_the_sentence_where_they_were_put() -> None:
    one, two = ResourceLink("file:///a.py", "a.py"), ResourceLink("file:///b.py", "b.py")
    understood = understand(("outline", one, "and count the lines of", two))
    assert [plain(step.places()) for step in understood.steps] == [("/a.py",), ("/b.py",)]


def test_files_that_are_attached_without_a_word_are_explained() -> None:
    understood = understand((ResourceLink("file:///a.py", "a.py"),))
    assert [step.request.name for step in understood.steps] == ["explain"]


def test_text_of_a_resource_without_a_file_is_at_hand() -> None:
    (step,) = understand(("count the lines of this", EmbeddedResource("note://1", "a\nb\n"))).steps
    assert step.attached == {"note://1": "a\nb\n"}


def test_what_follows_a_colon_is_the_content() -> None:
    assert held("create a.md with this content:\n# Title\n\n- delete b.txt")["content"] == (
        "# Title\n\n- delete b.txt\n"
    )


def test_quoted_text_is_taken_to_the_letter() -> None:
    found = held('replace "then delete a.txt. And, please" with "" in b.txt')
    assert found == {"old": "then delete a.txt. And, please", "new": "", "path": "b.txt"}


def test_command_is_taken_as_it_stands() -> None:
    assert held("run python3 -c 'print(1, 2)' --flag \"a b\"")["command"] == (
        "python3 -c 'print(1, 2)' --flag \"a b\"",
        False,
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "don't delete a.txt",
        "do not delete a.txt",
        "please never delete a.txt",
        "I would not delete a.txt",
        "why would you delete a.txt",
        "delete a.txt unless it is needed",
        "delete a.txt except when the tests fail",
        "delete nothing",
        "delete everything",
        "delete all files",
        "delete the old tests",
        "delete it",
        "delete this file",
        "remove the unused imports from a.py",
        "move fast and break things",
        "replace the engine",
        "rename things so that they read well",
        "create a parser for TOML files",
        "write a poem about deleting a.txt",
        "add tests to app.py",
        "run away",
        "run the script that deletes all old files",
        "read a.txt and then do the needful with rm",
        "how do I delete a.txt?",
        "what happens if I delete a.txt",
        "rename foo to bar",
        "delete src",
    ],
)
def test_nothing_is_changed_or_run_by_what_is_not_clear(prompt: str) -> None:
    uses = used(understand((prompt,)))
    assert not {use.name for use in uses} & {"write", "edit", "move", "delete", "execute"}


def test_sentence_that_is_not_understood_holds_back_all_changes() -> None:
    understood = understand(("delete a.txt. Frobnicate the knob.",))
    assert understood.unknown == ("Frobnicate the knob",)
    assert used(understood) == []


def test_two_readings_are_asked_back_about() -> None:
    understood = understand(("create a.txt with content buy milk and delete b.txt",))
    assert "two ways" in understood.problem


def test_it_is_not_taken_from_the_prompt_before_by_what_changes() -> None:
    before = Place("a.txt", sure=True)
    assert understand(("count its lines",), before).steps
    assert "which file" in understand(("delete it",), before).problem


def test_images_alone_are_said_to_be_out_of_reach() -> None:
    assert "images" in understand((ImageContent(b"x", "image/png"),)).problem


@pytest.mark.parametrize(
    "prompt",
    [
        "a, " * 50_000,
        "run " * 10_000,
        "replace a with b with c in d " * 20,
        "in " * 500,
        "delete " * 400,
        "find " + "a in " * 150,
        "'a " * 5_000,
        '"' * 50_000,
        "`" * 50_000,
        "`" + " ``" * 5_000,
        "“" * 50_000,
        "((((" * 5_000,
        "read a.py, " * 100,
        "and and and , , , and " * 60,
        "1. " * 300,
        "how many " * 200,
        "x" * 199_000,
        "the " * 500 + "read",
        "create a.txt:\n" + "line, and then delete it\n" * 5_000,
        "\0\1\2\3" * 100,
        "\ufffc" * 1_000,
        "a" * 300_000,
    ],
    ids=range(22),
)
def test_hostile_prompt_is_answered_soon(prompt: str) -> None:
    started = time.process_time()
    used(understand((prompt,)))
    assert time.process_time() - started < 5


def used(understood: Understood) -> list[Use]:
    """Return what is used when every tool gives nothing, and nobody answers questions."""
    recipe = recipe_for(understood, TOOLS)
    uses: list[Use] = []
    told: tuple[ToolResult, ...] = ()
    try:
        while len(uses) < 500:
            step = recipe.send(told) if told else next(recipe)
            told = ()
            if isinstance(step, tuple):
                uses += step
                told = tuple(result(use) for use in step)
            elif isinstance(step, Say):
                assert step.text.strip()
    except StopIteration:
        pass
    return uses


def result(use: Use) -> ToolResult:
    return ToolResult("", use.name, ("",), failed=use.name == "ask")


WORDS = st.sampled_from(
    [
        *("read", "delete", "remove", "move", "rename", "replace", "run", "create", "make", "find"),
        *("with", "by", "to", "in", "from", "the", "all", "files", "file", "and", "then", "not"),
        *("a.txt", "b.py", "src/", "*.py", '"x"', "'y'", "`z`", "foo", "bar", ",", ".", ";", "\n"),
        *("don't", "except", "tests", "content", "line", "lines", "3", "1-2", "of", "it", "this"),
        *("everything", "TODO", "how many", "search for", "python", "1.", "-", "add", "append"),
        *("insert", "at the end", "after", "before", "overwrite", "copy", "git", "status", "diff"),
        *("help", "what", "is", "please", "everywhere", "folder", "symbol", "get rid of", "mv"),
    ]
)
CHANGES = {
    "delete": ("delete", "remove", "erase", "rm", "trash", "get rid", "move", "mv"),
    "move": ("move", "mv", "rename"),
    "edit": (
        *("replace", "substitute", "swap", "change", "turn", "edit", "update", "correct", "fix"),
        *("rename", "remove", "delete", "erase", "take out"),
        *("add", "insert", "put", "append", "prepend", "write"),
    ),
    "write": (
        *("create", "make", "write", "add", "touch", "save", "store", "put", "overwrite"),
        *("rewrite", "copy", "cp", "duplicate", "append", "insert", "prepend"),
    ),
}


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=400), st.lists(WORDS, max_size=25).map(" ".join)))
def test_text_never_breaks_it_and_changes_nothing_without_a_word_for_that(text: str) -> None:
    for use in used(understand((text,))):
        if use.name in CHANGES:
            assert any(word in text.lower() for word in CHANGES[use.name]), use
