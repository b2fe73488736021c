"""The reference is complete."""

from __future__ import annotations

import ast
import pydoc
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from accord import errors
from accord.script_agent.commands import OPTIONS
from accord.script_agent.registry import COMMANDS

DOCS = Path(__file__).parent.parent.parent / "docs"
PACKAGES = DOCS.parent / "packages"


def test_every_error_is_listed_with_its_code() -> None:
    page = (DOCS / "reference" / "errors.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    assert set(rows) == set(errors.__all__)
    for name, text in rows.items():
        cls = getattr(errors, name)
        if issubclass(cls, errors.RequestError) and cls is not errors.RequestError:
            assert text == str(cls.default_code)


def test_page_of_the_script_agent_has_its_commands_and_options() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    page = generate["SCRIPT_PAGE"].read_text("utf-8")
    assert page == generate["script_page"](), "make reference"
    rows = [row.replace("\\|", "|") for row in re.findall(r"^\| `(.+?)` \| ", page, re.MULTILINE)]
    for command in COMMANDS:
        for arguments in command.arguments.split(" | "):
            assert f"{command.name} {arguments}".rstrip() in rows
    assert {option.id for option in OPTIONS} <= set(rows)


def test_page_of_the_installation_has_every_extra() -> None:
    project = tomllib.loads(
        (DOCS.parent / "packages" / "accord" / "pyproject.toml").read_text("utf-8")
    )["project"]
    page = (DOCS / "install.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert rows == set(project["optional-dependencies"])


def pages_linked_from(index: Path) -> set[Path]:
    links = re.findall(r"\]\(([\w/.-]+\.md)\)", index.read_text("utf-8"))
    return {index.parent / link for link in links if not link.startswith("..")}


@pytest.mark.parametrize("folder", ["", "cookbook", "reference/api"])
def test_every_page_is_in_the_index(folder: str) -> None:
    index = DOCS / folder / "index.md"
    others = {file.parent for file in DOCS.glob("*/**/index.md")} - {index.parent}
    pages = {
        page
        for page in index.parent.rglob("*.md")
        if page != index and (page.name == "index.md" or page.parent not in others)
    }
    assert pages_linked_from(index) == pages


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    site = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    _, _, nav = site.partition("\nnav:\n")
    names = re.findall(r"[\w/-]+\.md$", nav, re.MULTILINE)
    assert len(names) == len(set(names))
    assert {DOCS / name for name in names} == {*DOCS.rglob("*.md"), DOCS / "changelog.md"}


def in_api_reference() -> set[str]:
    text = "".join(page.read_text("utf-8") for page in (DOCS / "reference" / "api").glob("*.md"))
    names = re.findall(r"^(?:::: |\| `)([\w.]+)", text, re.MULTILINE)
    assert len(names) == len(set(names))
    return set(names)


PUBLIC = (
    "accord", "accord.agent", "accord.errors", "accord.roles", "accord.testing",
    "accord.client.permissions", "accord.mcp", "accord.v1", "accord.v2",
)  # fmt: skip


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_api_reference(module: str) -> None:
    documented = in_api_reference()
    page = (DOCS / "reference" / "stability.md").read_text("utf-8")
    assert f"`{module}`" in page
    if module in documented:  # the complete package
        return
    # A name that several modules export is listed once.
    documented |= {f"{module}.{name}" for name in names_of("accord") if module != "accord"}
    missing = {f"{module}.{name}" for name in names_of(module)} - documented
    assert not missing, f"add `::: {min(missing)}` to a page of docs/reference/api"


def names_of(module: str) -> tuple[str, ...]:
    return import_module(module).__all__


# What the programs share, and users do not call.
OF_PROGRAMS = {
    "accord.installed.install_command",
    "accord.program.write_output",
    "accord.script_agent.agent.ScriptAgent",
    "accord.text.markdown_html.page_of",
}


def test_the_coding_agent_uses_only_names_of_the_api_reference() -> None:
    documented = in_api_reference() | OF_PROGRAMS
    documented |= {f"{module}.{name}" for module in PUBLIC for name in names_of(module)}
    used = {
        f"{node.module}.{alias.name}"
        for file in (PACKAGES / "accord-coder" / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "accord"
        for alias in node.names
    }
    assert not used - documented, f"{min(used - documented)} is not in the API reference"


def test_site_shows_inherited_members() -> None:
    config = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    assert "inherited_members: true" in config, "`Turn.say` is defined in a base class"


def test_every_name_in_the_api_reference_exists() -> None:
    for page in (DOCS / "reference" / "api").glob("*.md"):
        for name in re.findall(r"^::: ([\w.]+)", page.read_text("utf-8"), re.MULTILINE):
            assert pydoc.locate(name) is not None, f"{page.name}: {name}"


def test_page_of_methods_matches_the_tables() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["METHODS_PAGE"].read_text("utf-8") == generate["methods_page"](), (
        "make reference"
    )


def test_page_of_commands_matches_the_programs() -> None:
    # In a process of its own: commands keep the names of their option --help from their first use.
    made = subprocess.run(
        [sys.executable, "-c", "import runpy, sys; sys.stdout.reconfigure(encoding='utf-8');"
         f"print(runpy.run_path({str(DOCS / 'generate.py')!r})['commands_page'](), end='')"],
        capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["COMMANDS_PAGE"].read_text("utf-8") == made.stdout, "make reference"


def test_page_of_the_demonstration_model_is_up_to_date() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["DEMO_PAGE"].read_text("utf-8") == generate["demo_page"](), "make reference"


def test_page_of_quirks_is_up_to_date() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["QUIRKS_PAGE"].read_text("utf-8") == generate["quirks_page"](), "make reference"


def test_page_of_events_matches_the_events() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["EVENTS_PAGE"].read_text("utf-8") == generate["events_page"](), "make reference"


def test_figures_of_the_readme_match_the_last_benchmark() -> None:
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \| ([\d.,]+) \S+ \| (\S+×) \| (\S+×) \|$", readme, re.MULTILINE)
    assert len(rows) > 7
    measured = {**_measured("RESULTS.md", 4), **_measured("RESULTS_REMOTE.md", 3)}
    for name, *figures in rows:
        assert tuple(figures) == measured[name], name


def _measured(file: str, typescript: int) -> dict[str, tuple[str, str, str]]:
    """Return the figures of the wire level: ours, to Python, to TypeScript in that column."""
    results = (DOCS.parent / "benchmarks" / file).read_text("utf-8").partition("\n## Targets of")[0]
    lines = [line.strip("| ").split(" | ") for line in results.splitlines() if "×" in line]
    return {
        cells[0]: (cells[1], cells[2].split()[0], cells[typescript].split()[0])
        for cells in lines
        if len(cells) > typescript and cells[2] and cells[typescript]
    }
