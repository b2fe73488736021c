"""The advice to install more names what was installed, never a package of an index that is not."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from accord import installed
from accord.installed import install_command, required

ROOT = Path(__file__).parent.parent
TEXTS = (
    *(path for folder in ("packages", "docs", "examples") for path in (ROOT / folder).rglob("*")),
    ROOT / "README.md",
    ROOT / ".ci" / "run",
)
# `pip install accord`, `uv add 'accord[cli]'`, `uvx accord`, `pipx run accord`, …
BARE_NAME = re.compile(
    r"(?:pip3?|uv|uvx|pipx|poetry|pdm)\s(?:(?:tool|pip|install|add|run|inject|-\S+)\s+)*"
    r"[\"']?accord(?![\w-]*[./])(?:\[[\w,]*\])?[\"']?(?=\s|$|[`).,;])"
    r"|(?<![\w.\]])accord\[[a-z,]+\]"
)


def installation(
    monkeypatch: pytest.MonkeyPatch, origin: Any, *, installer: str = "pip", prefix: str = "/"
) -> None:
    files = {"INSTALLER": f"{installer}\n", "METADATA": "Name: accord"}
    if origin is not None:
        files["direct_url.json"] = json.dumps(origin)
    monkeypatch.setattr(installed, "_metadata_text", files.get)
    monkeypatch.setattr(installed, "_source_tree", lambda: None)
    monkeypatch.setattr("sys.prefix", prefix)


WHEEL = {"url": "file:///dist/my%20dist/accord-0.1.0-py3-none-any.whl", "archive_info": {}}


@pytest.mark.skipif(os.name == "nt", reason="POSIX paths")
@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"url": "file:///src/a", "dir_info": {"editable": True}}, ["-e", "/src/a[cli,otlp]"]),
        ({"url": "file:///src/a", "dir_info": {}}, ["/src/a[cli,otlp]"]),
        (WHEEL, ["/dist/my dist/accord-0.1.0-py3-none-any.whl[cli,otlp]"]),
        (
            {"url": "https://x.test/accord-0.1.0-py3-none-any.whl", "archive_info": {}},
            ["accord[cli,otlp] @ https://x.test/accord-0.1.0-py3-none-any.whl"],
        ),
        (
            {
                "url": "https://x.test/a.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "1f"},
                "subdirectory": "py",
            },
            ["accord[cli,otlp] @ git+https://x.test/a.git@main#subdirectory=py"],
        ),
        (None, ["accord[cli,otlp]"]),
    ],
)
def test_advice_names_what_was_installed(
    monkeypatch: pytest.MonkeyPatch, origin: Any, words: list[str]
) -> None:
    installation(monkeypatch, origin)
    assert shlex.split(install_command("cli,otlp")) == ["pip", "install", *words]
    assert shlex.split(required("cli,otlp")) == words[-1:]


@pytest.mark.parametrize(
    ("file", "installer", "program"),
    [
        ("", "pip", "pip install"),
        ("", "uv", "uv pip install"),
        ("uv-receipt.toml", "uv", "uv tool install"),
        ("pipx_metadata.json", "pip", "pipx install --force"),
        ("pipx_metadata.json", "uv", "pipx install --force"),
    ],
)
def test_advice_uses_the_installer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, installer: str, program: str
) -> None:
    if file:
        (tmp_path / file).touch()
    installation(monkeypatch, WHEEL, installer=installer, prefix=str(tmp_path))
    assert install_command("cli") == f"{program} {required('cli')}"


def test_advice_for_a_source_tree_is_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_metadata_text", lambda _file: None)
    assert str(ROOT) in required("cli")
    monkeypatch.setattr(installed, "_source_tree", lambda: None)
    assert required("cli") == shlex.quote(".[cli]")


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", '{"url": 1}', '{"url": "file:///a", "dir_info": 1}']
)
def test_damaged_records_are_survived(monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    monkeypatch.setattr(installed, "_metadata_text", lambda _file: damaged)
    assert install_command("cli").endswith(("[cli]'", '[cli]"'))


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
        if path.suffix in ("", ".py", ".md", ".yml", ".yaml", ".toml", ".js", ".html")
        and path.is_file()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if BARE_NAME.search(line)
    ]
    assert not found
