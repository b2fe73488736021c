"""The advice to install more names what was installed, never a package of an index that is not."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import installed
from accord.installed import install_command
from project import ROOT, SOURCES

TEXTS = (
    *(path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*")),
    *(path for folder in SOURCES.values() for path in folder.rglob("*")),
    ROOT / "README.md",
    ROOT / ".ci" / "run",
)
# `pip install accord`, `uv add 'accord[cli]'`, `uvx accord`, `pipx run accord`, …
BARE_NAME = re.compile(
    r"(?:pip3?|uv|uvx|pipx|poetry|pdm)\s(?:(?:tool|pip|install|add|run|inject|-\S+)\s+)*"
    r"[\"']?accord(?![\w-]*[./])(?:\[[\w,]*\])?[\"']?(?=\s|$|[`).,;])"
    r"|(?<![\w.\]])accord\[[a-z,]+\]"
)

BOUND = re.compile(
    r"(-c |CONSTRAINT=)\"?\$?dist/constraints.txt"
)  # binds the names to wheels that were built here


def installation(
    monkeypatch: pytest.MonkeyPatch, origin: Any, *, installer: str = "pip", prefix: str = "/"
) -> None:
    files = {"INSTALLER": f"{installer}\n", "METADATA": "Name: accord"}
    if origin is not None:
        files["direct_url.json"] = json.dumps(origin)
    monkeypatch.setattr(installed, "_metadata_text", files.get)
    monkeypatch.setattr(installed, "__file__", "/site-packages/accord/installed.py")
    monkeypatch.setattr("sys.prefix", prefix)


WHEEL = {"url": "file:///dist/my%20dist/accord-0.1.0-py3-none-any.whl", "archive_info": {}}
WHEELS = [
    f"/dist/my dist/accord{name}-0.1.0-py3-none-any.whl"
    for name in ("", "_trace", "_terminal", "_coder", "_check")
]
WHEELS[0] += "[cli,otlp]"
SIBLINGS = ("trace", "terminal", "coder", "check")
GIT = "git+https://x.test/a.git@main"


@pytest.mark.skipif(os.name == "nt", reason="POSIX paths")
@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (
            {"url": "file:///src/accord", "dir_info": {"editable": True}},
            [
                *("-e", "/src/accord[cli,otlp]"),
                *(word for name in SIBLINGS for word in ("-e", f"/src/accord-{name}")),
            ],
        ),
        (
            {"url": "file:///src/accord", "dir_info": {}},
            ["/src/accord[cli,otlp]", *(f"/src/accord-{name}" for name in SIBLINGS)],
        ),
        (
            {"url": (ROOT / "packages" / "accord").as_uri(), "dir_info": {}},
            [f"{ROOT}[cli,otlp]"],
        ),
        (WHEEL, WHEELS),
        (
            {"url": "https://x.test/accord-0.1.0-py3-none-any.whl", "archive_info": {}},
            [
                "accord[cli,otlp] @ https://x.test/accord-0.1.0-py3-none-any.whl",
                *(
                    f"accord-{name} @ https://x.test/accord_{name}-0.1.0-py3-none-any.whl"
                    for name in SIBLINGS
                ),
            ],
        ),
        (
            {
                "url": "https://x.test/a.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "1f"},
                "subdirectory": "packages/accord",
            },
            [
                f"accord[cli,otlp] @ {GIT}#subdirectory=packages/accord",
                *(
                    f"accord-{name} @ {GIT}#subdirectory=packages/accord-{name}"
                    for name in SIBLINGS
                ),
            ],
        ),
        (None, ["accord[cli,otlp]"]),
    ],
)
def test_advice_names_what_was_installed(
    monkeypatch: pytest.MonkeyPatch, origin: Any, words: list[str]
) -> None:
    installation(monkeypatch, origin)
    assert shlex.split(install_command("cli,otlp")) == ["pip", "install", *words]


@pytest.mark.skipif(os.name == "nt", reason="POSIX paths")
@pytest.mark.parametrize(
    ("file", "installer", "words"),
    [
        ("", "pip", ["pip", "install", "-c", "{}", "accord[cli]"]),
        ("", "uv", ["uv", "pip", "install", "-c", "{}", "accord[cli]"]),
        ("uv-receipt.toml", "uv", ["uv", "tool", "install", "-c", "{}", "accord[cli]"]),
        (
            "pipx_metadata.json",
            "pip",
            [
                *(f"{tool}_CONSTRAINT={{}}" for tool in ("PIP", "UV")),
                *["pipx", "install", "--force", "accord[cli]"],
            ],
        ),
    ],
)
def test_advice_uses_the_constraints_beside_the_wheels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, installer: str, words: list[str]
) -> None:
    if file:
        (tmp_path / file).touch()
    constraints = tmp_path / "constraints.txt"
    constraints.touch()
    wheel = {"url": (tmp_path / "accord-0.1.0-py3-none-any.whl").as_uri(), "archive_info": {}}
    installation(monkeypatch, wheel, installer=installer, prefix=str(tmp_path))
    assert shlex.split(install_command("cli")) == [word.format(constraints) for word in words]


@pytest.mark.skipif(os.name == "nt", reason="POSIX paths")
@pytest.mark.parametrize(
    ("file", "installer", "before", "between"),
    [
        ("", "pip", "pip install ", " "),
        ("", "uv", "uv pip install ", " "),
        ("uv-receipt.toml", "uv", "uv tool install ", " --with "),
    ],
)
def test_advice_uses_the_installer(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    file: str,
    installer: str,
    before: str,
    between: str,
) -> None:
    if file:
        (tmp_path / file).touch()
    installation(monkeypatch, WHEEL, installer=installer, prefix=str(tmp_path))
    assert install_command("cli,otlp") == before + between.join(map(shlex.quote, WHEELS))


def test_advice_of_pipx_installs_the_others_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    installation(monkeypatch, WHEEL, prefix=str(tmp_path))
    words = shlex.split(install_command("coder"))
    assert words[:3] == ["pipx", "install", "--force"]
    assert words[3:] == [
        "--preinstall",
        "/dist/my dist/accord_coder-0.1.0-py3-none-any.whl",
        "/dist/my dist/accord-0.1.0-py3-none-any.whl[coder]",
    ]


@pytest.mark.skipif(
    not Path(accord.__file__).is_relative_to(SOURCES["accord"]), reason="a wheel is installed"
)
def test_advice_for_a_source_tree_is_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_metadata_text", lambda _file: None)
    assert install_command("cli") == f"pip install {shlex.quote(f'{ROOT}[cli]')}"
    monkeypatch.setattr(installed, "_clone_above", lambda _package: None)
    assert install_command("cli") == f"pip install {shlex.quote('.[cli]')}"


def projects() -> dict[str, Any]:
    """Return the project tables of the packages by name."""
    return {
        path.parent.name: tomllib.loads(path.read_text("utf-8"))["project"]
        for path in ROOT.glob("packages/*/pyproject.toml")
    }


def test_extras_bring_the_packages_that_they_require() -> None:
    known = projects()

    def required_by(needs: list[str]) -> set[str]:
        found: set[str] = set()
        for need in needs:
            name, _, extras = need.partition("~=")[0].rstrip("]").partition("[")
            if name in known:
                project = known[name]
                more = [
                    each
                    for extra in filter(None, extras.split(","))
                    for each in project["optional-dependencies"][extra]
                ]
                found |= {name} | required_by([*project["dependencies"], *more])
        return found

    extras = known["accord"]["optional-dependencies"]
    brought = {
        extra: {name.removeprefix("accord-") for name in required_by(needs) - {"accord"}}
        for extra, needs in extras.items()
    }
    assert {extra: names for extra, names in brought.items() if names} == {
        extra: set(names) for extra, names in installed.PACKAGES.items()
    }


def test_all_packages_have_one_version_and_require_it_of_each_other() -> None:
    known = projects()
    assert {project["version"] for project in known.values()} == {accord.__version__}
    needs = [
        need
        for project in known.values()
        for need in (
            *project["dependencies"],
            *(n for extra in project.get("optional-dependencies", {}).values() for n in extra),
        )
        if re.match(r"accord[\w-]*(\[|~)", need) and not need.startswith("accord[cli")
    ]
    assert needs
    assert all(need.endswith(f"~={accord.__version__}") for need in needs), needs


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", '{"url": 1}', '{"url": "file:///a", "dir_info": 1}']
)
def test_damaged_records_are_survived(monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    monkeypatch.setattr(installed, "_metadata_text", lambda _file: damaged)
    assert "[cli]" in install_command("cli")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((f"{text} ", True) for text in ("pip install accord", "pip install 'accord[cli]'")),
        *(
            (text, True)
            for text in ("uvx accord", "pipx run accord", "uv tool install accord[cli]")
        ),
        *((text, False) for text in ("pip install '.[cli]'", "uvx --from x.whl accord-0.1.whl")),
        ("pip install dist/accord-0.1.0-py3-none-any.whl", False),
    ],
)
def test_bare_names_are_recognized(text: str, found: bool) -> None:
    assert bool(BARE_NAME.search(text)) is found


def test_no_text_advises_a_name_on_an_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in TEXTS
        if path.suffix in ("", ".py", ".md", ".yml", ".yaml", ".js", ".html") and path.is_file()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if BARE_NAME.search(line) and not BOUND.search(line)
    ]
    assert not found
