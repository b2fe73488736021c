"""Pairing codes, tokens and roles of devices (issue: threats of codes and tokens)."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from accord_terminal.conversation import ApiError
from accord_web.devices import CODE_S, ROLES, Devices, Role


class Time:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def devices(tmp_path: Path, clock: Time) -> Devices:
    return Devices(tmp_path / "web.db", clock)


def test_code_pairs_one_device(devices: Devices) -> None:
    code = devices.new_code("answer")
    device, token = devices.pair(code, "  My   phone\n")
    assert (device.name, device.role) == ("My phone", "answer")
    found = devices.of_token(token)
    assert found is not None
    assert found.number == device.number
    with pytest.raises(ApiError, match="was used, has expired or is wrong") as refused:
        devices.pair(code, "Replayed")
    assert refused.value.status == 403
    assert [one.name for one in devices.all()] == ["My phone"]


def test_code_expires(devices: Devices, clock: Time) -> None:
    code = devices.new_code("full")
    clock.now += CODE_S + 1
    with pytest.raises(ApiError, match="has expired"):
        devices.pair(code, "Late")
    assert devices.all() == []


def test_codes_cannot_be_guessed(devices: Devices, clock: Time) -> None:
    code = devices.new_code("full")
    for number in range(10):
        with pytest.raises(ApiError) as refused:
            devices.pair(f"guess {number}", "Guess")
        assert refused.value.status == 403
    with pytest.raises(ApiError, match="wait a minute") as refused:
        devices.pair(code, "Guess")
    assert refused.value.status == 429
    clock.now += 61
    assert devices.pair(code, "Owner")[0].name == "Owner"


def test_file_has_no_secret_and_is_private(devices: Devices, tmp_path: Path) -> None:
    unused = devices.new_code("full")
    _, token = devices.pair(devices.new_code("full"), "Phone")
    file = tmp_path / "web.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    stored = file.read_bytes()
    assert unused.encode() not in stored
    assert token.encode() not in stored


def test_revoked_device_and_wrong_tokens(devices: Devices) -> None:
    device, token = devices.pair(devices.new_code("full"), "Phone")
    assert devices.of_token("") is None
    assert devices.of_token(token[:-1]) is None
    assert devices.of_token("\ud800") is None
    assert devices.revoke(device.number)
    assert not devices.revoke(device.number)
    assert devices.of_token(token) is None
    again, _ = devices.pair(devices.new_code("full"), "Phone")
    assert again.number != device.number


def test_names_are_unique_and_plain(devices: Devices) -> None:
    names = [
        devices.pair(devices.new_code("full"), name)[0].name for name in ("A", "A", "", "\u202ex")
    ]
    assert names[:3] == ["A", "A 2", "device"]
    assert "\u202e" not in names[3]


@pytest.mark.parametrize(
    ("role", "may"),
    [("watch", [True, False, False]), ("answer", [True, True, False]), ("full", [True] * 3)],
)
def test_roles(devices: Devices, role: Role, may: list[bool]) -> None:
    device, _ = devices.pair(devices.new_code(role), "Phone")
    assert [device.may(wanted) for wanted in ROLES] == may
