"""Secrets are replaced wherever their place says what they are; everything else stays."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.text.redact import MASK, is_secret_name, secret_variables
from accord.text.secrets import (
    LinesRedactor,
    plain_url,
    redacted_argv,
    redacted_json,
    redacted_text,
)

SECRET = "s3cr3t-V4lue.42"
NAMES = (
    *("apiKey", "API-KEY", "api_key", "x-api-key", "accessToken", "client_secret", "password"),
    *("passwd", "db_pwd", "credential", "bearer", "private_key", "privateKey", "authToken"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "Authorization"),
    *("Proxy-Authorization", "Cookie", "Set-Cookie", "token", "secret", "OPENAI_KEY_1"),
)
# Options of command lines only: as keys of JSON, `tokens` are numbers.
OPTIONS = (
    *("pat", "pin", "jwt", "github-pat", "tokens", "api-tokens", "oauth-code", "auth-code"),
    *("authorization-code", "oauth_code"),
)
STAYS = (
    *("tokens", "maxTokens", "tokenCount", "keyboard", "monkey", "MONKEY", "inputTokens"),
    *("progressToken", "nextPageToken", "publicKey", "cacheKey", "key", "tokenType", "PWD"),
    *("SSL_KEY_FILE", "MAX_TOKENS", "session_token_limit", "authMethods", "HOME", "OLDPWD"),
)
name = st.sampled_from(NAMES).flatmap(
    lambda known: st.sampled_from((known, known.upper(), known.lower()))
)
option = name.map(lambda known: known.replace("_", "-"))
words = st.one_of(
    option.map(lambda each: [f"--{each}", SECRET]),
    option.map(lambda each: [f"--{each}={SECRET}"]),
    name.map(lambda each: [f"{each}={SECRET}"]),
    st.sampled_from(("Authorization: Bearer ", "X-Api-Key: ", "X-Mine: ")).flatmap(
        lambda head: st.sampled_from(
            (["-H", head + SECRET], [f"--header={head}{SECRET}"], [f"-H{head}{SECRET}"])
        )
    ),
    st.just([f"https://user:{SECRET}@x.test/a"]),
    st.just([f"--url=https://{SECRET}@x.test/a"]),
    name.map(lambda each: [f"wss://x.test/a?q=1&{each}={SECRET}&z=2"]),
    name.map(lambda each: [f"https://x.test/#{each}={SECRET}"]),
    name.map(lambda each: ["--config", json.dumps({"a": [{each: SECRET}]})]),
    st.just(["sh", "-c", f"curl -H 'Authorization: Bearer {SECRET}' https://x.test"]),
    option.map(lambda each: ["-c", f"run --{each} {SECRET} now"]),
    st.just(["-u", f"me:{SECRET}"]),
    st.sampled_from("akpt").map(lambda each: [f"-{each}", SECRET]),
    st.sampled_from("akpt").map(lambda each: [f"-{each}{SECRET}"]),
    st.sampled_from(("curl -u me:{}", "mysql -p{} db", "run -k {}", "run -t '{}'")).map(
        lambda each: ["-c", each.format(SECRET)]
    ),
    st.sampled_from(("key", "auth", "pass", "pat", "pin", "jwt", "GITHUB_PAT")).map(
        lambda each: [f"{each}={SECRET}"]
    ),
    st.sampled_from(OPTIONS).map(lambda each: [f"--{each}", SECRET]),
    st.sampled_from(OPTIONS).map(lambda each: [f"--{each}={SECRET}"]),
    st.sampled_from(OPTIONS).map(lambda each: ["-c", f"run --{each} {SECRET} now"]),
    st.sampled_from(OPTIONS).map(lambda each: ["-c", f"run --{each}={SECRET} now"]),
    st.sampled_from(
        (
            "https://hooks.slack.com/services/T0/B0/{}",
            "https://discord.com/api/webhooks/123456789/{}",
            "https://api.telegram.org/bot1234567:{}-ABCDEFGHIJ/sendMessage",
            "https://x.test/webhook/1/{}",
            "https://x.test/s/AbCdEfGhIjKlMnOp-{}/mcp",
        )
    ).map(lambda each: [each.format(SECRET.replace(".", "-"))]),
)
KEYS = (
    *("ghp_", "gho_", "hf_", "gsk_", "npm_", "github_pat_", "dckr_pat_", "glpat-", "sk-", "xai-"),
    *("sk_live_", "rk_test_", "whsec_", "ya29.", "AIza", "xoxb-", "pypi-", "r8_", "lin_api_"),
)
TOKEN = "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P"
tokens = st.one_of(
    st.sampled_from(KEYS).map(lambda each: each + TOKEN),
    st.just("AKIA0A1B2C3D4E5F6G7H"),
    st.just(f"eyJ{TOKEN}.eyJ{TOKEN}.{TOKEN}"),
)
plain = st.text(string.ascii_letters + string.digits + "/. -", max_size=12)
place = st.one_of(
    name.map(lambda each: {each: SECRET}),
    name.map(lambda each: {each: {"deep": [SECRET]}}),
    name.map(lambda each: {"items": [{"name": each, "value": SECRET}]}),
    st.just({"env": [{"name": "ANY", "value": SECRET}]}),
    st.just({"env": {"ANY": SECRET}}),
    st.just({"environment": [f"ANY={SECRET}"]}),
    st.just({"headers": [{"name": "X-Any", "value": SECRET}]}),
    st.just({"httpHeaders": {"X-Any": SECRET}}),
    words.map(lambda each: {"args": each}),
    option.map(lambda each: {"command": f"run --{each} {SECRET} now"}),
    name.map(lambda each: {"title": f"export {each}={SECRET}; run"}),
    st.just({"url": f"https://me:{SECRET}@x.test"}),
    st.just({f"https://me:{SECRET}@x.test": 1}),
    st.sampled_from(("key", "auth", "pat", "jwt", "pin", "userPin", "Key")).map(
        lambda each: {"settings": {each: SECRET}}
    ),
    st.just({"command": "sshpass", "args": ["-p", SECRET]}),
)


@given(words, st.lists(plain, max_size=3), st.lists(plain, max_size=3))
def test_command_lines_have_no_secret(
    found: list[str], before: list[str], after: list[str]
) -> None:
    argv = [*before, *found, *after]
    new = redacted_argv(argv)
    assert SECRET not in " ".join(new)
    assert len(new) == len(argv)
    assert redacted_argv(new) == new


@given(
    st.recursive(
        st.integers() | plain | st.booleans() | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([each for each in STAYS if each not in ("PWD", "key")]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_values_without_secrets_are_the_same_object(value: Any) -> None:
    assert redacted_json(value) is value


def test_names_of_secrets() -> None:
    for each in NAMES:
        assert is_secret_name(each), each
        assert redacted_json({each: SECRET}) == {each: MASK}
        kept: tuple[Any, ...] = ("", None, True)
        assert all(redacted_json({each: value}) == {each: value} for value in kept), each


def test_names_of_other_things() -> None:
    for each in STAYS:
        assert not is_secret_name(each), each
        value = {each: 1200, "_meta": {each: "/a/b"}}
        assert redacted_json(value) == value


@pytest.mark.parametrize(
    "text",
    [
        *("The key is a token", "unexpected token: }", "/home/me/tokens/key.txt", "a=b&c=d"),
        *("https://x.test/a?page=2", "ssh://git@x.test/a", "git@x.test:a/b", "1 token, 2 keys"),
        *("MAX_TOKENS=4096", "--max-tokens 5", "use --api-key KEY or --token <TOKEN>", ""),
        *("Authorization: Bearer $TOKEN", "docker run --user 1000:1000 -p 80:80", "key = value"),
        *("--key ./tls/key.pem", "keyboard=us", "Bearer authentication is required"),
        *("password=optional", "token=required, name=x", "Authorization: …", "Cookie: accepted"),
        *("Authorization: required", "Authorization: see the docs", "docker run -p 8080:80 -t app"),
        *(
            "pytest -k test_one -p no:cacheprovider",
            "date -u +%H:%M:%S",
            "ssh -p 22 x",
            "tool -k 5",
        ),
        *("run --tokens 4096", "run --max-tokens=auto", "run --exit-code 137 --status-code=404"),
        "run --session-id 01a217c8-5f7c-7cc0-8000-1b7e6f0e9a55",
        *("https://x.test/blob/0123456789abcdef0123456789abcdef01234567/a.py", "tar -tf x.tar"),
        *("https://x.test/webhooks/about", "mapping: 12345678", "the pin: see above"),
    ],
)
def test_texts_without_secrets_stay(text: str) -> None:
    assert redacted_text(text) == text
    assert redacted_argv(text.split(" ")) == text.split(" ") or "$" in text or "KEY" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:pw@x.test/a", "https://%5Bredacted%5D@x.test/a"),
        ("GET /a?api_key=abc&b=1", "GET /a?api_key=[redacted]&b=1"),
        (
            "https://x.test/?sig=abc#access_token=abc",
            "https://x.test/?sig=[redacted]#access_token=[redacted]",
        ),
        ("export API_KEY='a b' && run", "export API_KEY='[redacted]' && run"),
        ("Authorization: Basic YTpi", "Authorization: [redacted]"),
        ('{"apiKey": "abc", "a": 1', '{"apiKey": "[redacted]", "a": 1'),
        ("the key sk-ant-0123456789abcdefghij is wrong", "the key [redacted] is wrong"),
        ("password: hunter2", "password: [redacted]"),
    ],
)
def test_texts_with_secrets(text: str, expected: str) -> None:
    assert redacted_text(text) == expected
    assert redacted_text(expected) == expected


PAIRS_AND_PARAMETERS = [
    *({key: {"A": SECRET}} for key in ("env", "envVars", "mcpEnv", "extra_env", "ENV")),
    *({"env": each} for each in ([["A", SECRET]], f"A={SECRET}", f"A=b\nC={SECRET}")),
    {"headers": [["X-Mine", SECRET]]},
    {"requestHeaders": f"X-Mine: {SECRET}"},
    {"name": "API_KEY", "value": {"value": [SECRET]}},
    *({"url": f"https://x.test/a?b=1&{each}={SECRET}"} for each in ("X-Amz-Signature", "jwt")),
    {"title": f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----"},
]


@pytest.mark.parametrize("value", PAIRS_AND_PARAMETERS)
def test_values_of_pairs_and_parameters_are_secrets(value: Any) -> None:
    assert SECRET not in json.dumps(redacted_json(value))


@pytest.mark.parametrize(
    "value",
    [
        *({"environment": each} for each in ("production", "Python: 3.11", "https://x.test")),
        *({"testEnv": "a"}, {"title": "sk-learn-pipeline-for-classification"}, {"env": []}),
        {"title": "docker run -u 1000:1000 x", "headers": ["Name", "Value"]},
        {"name": "Model", "value": ["a"]},
        *({"key": each} for each in ("PROJ-1234", "src/a.py", "a key", 5, "session/update")),
        *({"auth": each} for each in ("none", "oauth2", {"status": {}})),
        {"key": "KEY1a2b3c", "value": "x"},
    ],
)
def test_values_of_other_things_stay(value: Any) -> None:
    assert redacted_json(value) is value


def test_schema_of_a_field_for_a_secret_stays_a_schema() -> None:
    form = {"properties": {"apiKey": {"type": "string", "title": "API key", "default": SECRET}}}
    assert redacted_json(form) == {
        "properties": {"apiKey": {"type": "string", "title": "API key", "default": MASK}}
    }


def test_deep_values_have_no_secret() -> None:
    value: Any = {"apiKey": SECRET}
    for _ in range(300):
        value = [value]
    assert SECRET not in str(redacted_json(value))


def test_plain_url_has_no_user_and_no_query() -> None:
    assert plain_url(f"wss://a:{SECRET}@x.test:1/p?token={SECRET}#f") == "wss://x.test:1/p"


def test_secret_variables_are_long_enough() -> None:
    given_values = {"A_TOKEN": "12345678", "B_TOKEN": "1234567", "PATH": "/usr/bin:/bin"}
    assert secret_variables(given_values) == {"A_TOKEN": "12345678"}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", ["cc -pthread -c a.c\n", "cc -pthread a.c ", "-p -a -k ", "-u"])
def test_long_text_with_many_options_takes_linear_time(line: str) -> None:
    # Half a minute and more if each option looks at everything before it.
    text = line * (600_000 // len(line))
    assert redacted_text(text) == text
    words = text.split()
    assert redacted_argv(words) == words


@pytest.mark.parametrize(
    "command",
    [
        *("mysql -p{}", "/usr/bin/mysqldump -h db -p{} a", "sudo -u mysql mysql -p{}"),
        *("docker exec -it db mysql -p{} a", "kubectl exec pod -- mysql -p{}", "A=b mysql -p{}"),
        *("cd /a && mysql -h db -p{}", "docker login -u me -p {} x.test", "redis-cli -a {}"),
        *("sshpass -p {} ssh x", "7z a -p{} x.7z", "docker compose run --rm db mysql -p{}"),
    ],
)
def test_password_of_a_short_option_is_replaced(command: str) -> None:
    # It does not look random: it is the program that says so.
    assert redacted_text(command.format("hunter")) == command.format(MASK)
    assert redacted_argv(command.format("hunter").split()) == command.format(MASK).split()
    text = f"sh -c '{command.format('hunter')}'"
    assert "hunter" not in redacted_text(text)
    assert "hunter" not in redacted_text(f"ls -p a; cd -p b\n{command.format('hunter')}")


@pytest.mark.parametrize(
    "command",
    [
        *("docker run --name mysql -p3306:3306 x", "docker run --name mysql -p 3306:3306 mysql"),
        *("docker run -h mysql -pabcdef x", "git log -p mysql", "ssh mysql; cp -pr a b"),
        *("grep mysql -pr a", "docker run -p 127.0.0.1:8080:80/tcp x", "az login -p 8080:80"),
        *("mkdir mysql\nmkdir -pv b", "docker run \\\n--name mysql \\\n-pabcdef x"),
    ],
)
def test_short_option_of_another_program_stays(command: str) -> None:
    assert redacted_text(command) == command
    assert redacted_argv(command.split(" ")) == command.split(" ")


PARTS_OF_KEYS = ["-eyJ", "hook.", "-eyJ0123456789", "-eyJ0123456789.ey"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", PARTS_OF_KEYS)
def test_parts_of_keys_take_linear_time(part: str) -> None:
    # A search for the end of a key from each beginning takes a minute.
    text = part * (400_000 // len(part))
    assert redacted_text(text) == text


@pytest.mark.parametrize(
    "value",
    [
        {"options": [{"value": "jwt", "name": "JWT"}, {"value": "api-key", "name": "API_KEY"}]},
        *({"pin": 13}, {"GPIO_PIN": "13"}, {"args": ["--pin", "13"]}, {"title": "PIN=13"}),
        *({"pat": "*.py"}, {"title": "git log -p 3f2a1b9c8d"}, {"args": ["--pat", "^a$"]}),
        *({"title": "docker logs -t 3f2a1b9c8d7e"}, {"title": "docker run -p 8080:80 x"}),
        {"title": f"git show -p {'3f2a1b9c8d' * 4}"},
        {"args": ["git", "log", "-p", "3f2a1b9c8d"]},
        *({"title": text} for text in ("docker run -u1000:1000 x", "token = next_token2()")),
        *({"title": text} for text in ("secret_key = value", "find / -user me:a", "date -u+%H:%M")),
    ],
)
def test_values_in_the_place_of_a_secret_that_are_not_one_stay(value: Any) -> None:
    assert redacted_json(value) is value


OTHER_PLACES = [
    *({"title": "curl -uadmin:secretpw1 x"}, {"args": ["curl", "-uadmin:secretpw1"]}),
    {"options": [{"value": "secretpw1", "name": "JWT"}]},
    *({"a": f"[default]\naws_secret_access_key = wJalrXU{SECRET}{end}"} for end in ("", "\nb = c")),
    *({"pin": "1234secretpw1"}, {"pat": "secretpw1"}, {"args": ["--pin", "secretpw1"]}),
]


@pytest.mark.parametrize("value", OTHER_PLACES)
def test_secrets_in_other_places_are_replaced(value: Any) -> None:
    new = json.dumps(redacted_json(value))
    assert MASK in new
    assert "secretpw1" not in new
    assert SECRET not in new


@pytest.mark.parametrize("pin", [1234, 123456, "1234"])
def test_pin_of_four_digits_is_a_secret(pin: Any) -> None:
    assert redacted_json({"pin": pin}) == {"pin": MASK}


def test_lines_of_a_private_key_are_replaced_and_nothing_after_them() -> None:
    key = ["Proc-Type: 4,ENCRYPTED", "", "MIIEvQIBADAN", "BgkqhkiG9w0="]
    lines = ["a: -----BEGIN RSA PRIVATE KEY-----", *key, "-----END RSA PRIVATE KEY-----", "after"]
    redactor = LinesRedactor()
    shown = [redactor.redacted(line) for line in lines]
    assert shown == [f"a: {MASK}", MASK, "", MASK, MASK, MASK, "after"]
    cut = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADAN", "failed to read: the key", "after"]
    shown = [redactor.redacted(line) for line in cut]
    assert shown == [MASK, MASK, "failed to read: the key", "after"]
