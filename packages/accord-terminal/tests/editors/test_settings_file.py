"""Settings files are replaced in one step, with a backup, through links, with their bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord_terminal.editor_settings import (
    EditorError,
    backup_of,
    original_of,
    read_settings,
    replace_settings,
    set_back,
    with_member,
    without_member,
)
from requirement import requirement

pytestmark = requirement("R-EDIT-01")
PATH = ("agent_servers", "accord")


def added(text: str) -> str:
    return with_member(text, PATH, {"command": "/bin/accord"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def test_byte_order_mark_and_ends_of_lines_stay(path: Path) -> None:
    path.write_bytes('\ufeff{\r\n  "a": "\u00fc"\r\n}\r\n'.encode())
    file = read_settings(path)
    replace_settings(file, file.edited(added))
    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf{\r\n")
    assert data.count(b"\n") == data.count(b"\r\n") == 8


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{\n  "agent_servers": {}\n}\n',
        b'\xef\xbb\xbf{\r\n  "agent_servers": {\r\n  }\r\n}',
        b"",
        b"// only a comment",
        b'{"a": 1 /* c */ }  ',
    ],
)
def test_removing_what_was_added_last_gives_the_same_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    file = read_settings(path)
    replace_settings(file, file.edited(added))
    file = read_settings(path)
    assert file.data != data
    before = set_back(file, added)
    assert before == data


def test_backup_is_not_used_if_something_else_has_changed(path: Path) -> None:
    path.write_bytes(b"{}")
    file = read_settings(path)
    replace_settings(file, file.edited(added))
    path.write_bytes(path.read_bytes().replace(b"{", b'{"mine": 1, ', 1))
    file = read_settings(path)
    assert set_back(file, added) is None
    assert b'"mine": 1' in file.edited(lambda text: without_member(text, PATH))


def test_backup_has_the_old_bytes_and_the_mode(path: Path) -> None:
    path.write_bytes(b"{} // old")
    path.chmod(0o600)
    file = read_settings(path)
    replace_settings(file, file.edited(added))
    assert backup_of(path).read_bytes() == b"{} // old"
    assert {path.stat().st_mode & 0o777, backup_of(path).stat().st_mode & 0o777} == {0o600}
    assert sorted(item.name for item in path.parent.iterdir()) == [
        "settings.json",
        "settings.json.accord-backup",
        "settings.json.accord-original",
    ]


def test_link_to_a_dotfile_stays_a_link(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "zed.json"
    target.parent.mkdir()
    target.write_bytes(b"{}")
    path.symlink_to(target)
    file = read_settings(path)
    replace_settings(file, file.edited(added))
    assert path.is_symlink()
    assert b"/bin/accord" in target.read_bytes()
    assert backup_of(path).read_bytes() == b"{}"
    assert [item.name for item in target.parent.iterdir()] == ["zed.json"]


def test_link_whose_target_is_missing_makes_the_target(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "zed.json"
    path.symlink_to(target)
    file = read_settings(path)
    replace_settings(file, file.edited(added))
    assert path.is_symlink()
    assert b"/bin/accord" in target.read_bytes()


def test_file_that_has_changed_since_it_was_read_is_not_replaced(path: Path) -> None:
    path.write_bytes(b"{}")
    file = read_settings(path)
    path.write_bytes(b'{"new": 1}')
    with pytest.raises(EditorError, match="has changed in the meantime"):
        replace_settings(file, file.edited(added))
    assert path.read_bytes() == b'{"new": 1}'


def test_bytes_that_are_not_utf_8_are_refused_with_their_place(path: Path) -> None:
    path.write_bytes(b'{\n  "a": "\xff"\n}')
    with pytest.raises(EditorError, match=r"line 2, column 9: the file is not UTF-8"):
        read_settings(path).edited(added)


def test_error_names_the_file_and_the_place(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf{\n  oops\n}")
    with pytest.raises(EditorError, match=r"settings.json: line 2, column 3: expected a key"):
        read_settings(path).edited(added)


def test_folder_instead_of_a_file_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(EditorError, match="Cannot read"):
        read_settings(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_folder_without_permission_is_an_error(path: Path) -> None:
    path.write_bytes(b"{}")
    path.parent.chmod(0o500)
    try:
        with pytest.raises(EditorError, match="Cannot write"):
            replace_settings(read_settings(path), b"x")
    finally:
        path.parent.chmod(0o700)
    assert path.read_bytes() == b"{}"


def test_full_disk_leaves_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"{}")
    file = read_settings(path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EditorError, match="No space left"):
        replace_settings(file, file.edited(added))
    assert path.read_bytes() == b"{}"
    assert [item.name for item in path.parent.iterdir()] == ["settings.json"]


def test_contents_before_the_first_change_are_kept_until_they_are_back(path: Path) -> None:
    path.write_bytes(b"{} // mine")
    for data in (b'{"a": 1}', b'{"a": 1, "b": 2}', b'{"b": 2}'):
        replace_settings(read_settings(path), data)
        assert original_of(path).read_bytes() == b"{} // mine"
    assert backup_of(path).read_bytes() == b'{"a": 1, "b": 2}'
    replace_settings(read_settings(path), b"{} // mine")
    assert not original_of(path).exists()
    path.write_bytes(b"{} // later")
    replace_settings(read_settings(path), b"{}")
    assert original_of(path).read_bytes() == b"{} // later"
