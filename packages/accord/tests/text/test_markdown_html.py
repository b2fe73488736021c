"""Markdown of agents: nothing in it runs, loads or hides."""

from __future__ import annotations

import base64
import hashlib
import random
import re

import pytest

from accord.text.markdown_html import SCHEMES, MarkdownParts, closed_markdown, html_of, page_of

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a <b onclick=alert(1)>b</b>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](//evil.example/)",
    "[x](/api/agent/restart)",
    "<javascript:alert(1)>",
    '[x](https://a.example "onmouseover=alert(1)")',
    "![x](https://evil.example/pixel.png)",
    "[![x](https://evil.example/pixel.png)](https://a.example)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "```<script>\nalert(1)\n```",
    '`" onclick="alert(1)`',
    '| a |\n|:-:|\n| <img src=x style="color:red"> |',
]


@pytest.mark.parametrize("text", HOSTILE)
def test_html_of_an_agent_has_only_tags_and_attributes_of_the_renderer(text: str) -> None:
    parser = pytest.importorskip("html.parser")
    seen: list[tuple[str, dict[str, str | None]]] = []

    class Collector(parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, dict(attrs)))

    collector = Collector()
    collector.feed(html_of(text))
    collector.close()
    for tag, attributes in seen:
        assert tag in {"p", "a", "code", "pre", "span", "table", "thead", "tbody", "tr", "th", "td"}
        assert set(attributes) <= {"href", "rel", "target", "class"}
        if "href" in attributes:
            assert str(attributes["href"]).startswith(("https://", "http://", "mailto:"))


def test_link_shows_its_address_if_its_text_differs() -> None:
    assert "‹https://bad.example›" in html_of("[https://good.example](https://bad.example)")
    assert "‹" not in html_of("<https://good.example>")


def test_hidden_characters_are_visible_also_those_written_as_entities() -> None:
    html = html_of("a\u202eb \x1b[31m &#x202e;c `&#x202e;` [l&#x200b;](https://a.example)")
    assert "\u202e" not in html
    assert "\u200b" not in html
    assert "\x1b" not in html
    assert "a\\u202eb \\x1b[31m \\u202ec" in html


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("a", "a"),
        ("", ""),
        ("```py\nx", "```py\nx\n```"),
        ("```py\nx\n\n", "```py\nx\n```"),
        ("```py\nx\n```", "```py\nx\n```"),
        ("```py\nx\n  ````  ", "```py\nx\n  ````  "),
        ("~~~~\nx\n~~~", "~~~~\nx\n~~~\n~~~~"),
        ("- ```\n  x", "- ```\n  x"),  # the block ends with the list
        ("```", "```\n```"),
    ],
)
def test_open_code_block_is_closed(text: str, closed: str) -> None:
    assert closed_markdown(text) == closed
    assert "<p>after</p>" in html_of(f"{closed}\n\nafter")


@pytest.mark.parametrize("text", HOSTILE)
def test_page_runs_and_loads_nothing(text: str) -> None:
    page = page_of(
        text, [text, f"```diff\n+{text}\n-{text}\n```", f"| {text} |\n|---|\n| {text} |"]
    )
    body = page.partition("<body>")[2]
    assert re.findall(r"(?i)<(script|img|iframe|style|meta|link|svg|object|b)\b", body) == []
    assert "</style>" not in page.partition("<style>")[2].partition("</style>")[2]
    assert all(link.startswith(SCHEMES) for link in re.findall(r'href="([^"]*)"', body))
    assert "default-src 'none'" in page


def test_policy_of_the_page_allows_only_its_own_style() -> None:
    page = page_of("x", [])
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page
    assert "unsafe" not in page


def test_streamed_text_has_the_same_html_as_the_whole_text() -> None:
    blocks = [
        "# Title",
        "A *paragraph* with `code`\nand two lines.",
        "- one\n- two\n\n  more of two",
        "```py\nfor x in y:\n\n    print(x)\n```",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "> quoted\nlazily",
        "Heading\n=======",
        "1. one\n\n2. two",
    ]
    chance = random.Random(1)
    text = "\n\n".join(chance.choice(blocks) for _ in range(300))
    parts = MarkdownParts()
    at = 0
    while at < len(text):
        at += chance.randrange(1, 700)
        kept = parts.update(text[:at])
        assert kept >= len(parts.parts) - 10
    assert "".join(parts.parts) == html_of(text)
    assert len(parts.parts) > 2, "finished blocks are not rendered again"


def test_long_code_block_stays_a_code_block_in_each_part() -> None:
    lines = "\n".join(f"<line {n}>" for n in range(9000))
    parts = MarkdownParts()
    parts.update(f"```py\n{lines}\n```\n\nafter")
    assert len(parts.parts) > 3
    assert all(part.startswith("<pre><code") for part in parts.parts[:-1])
    assert parts.parts[-1].endswith("<p>after</p>\n")
    shown = "".join(parts.parts)
    assert all(f"&lt;line {n}&gt;" in shown for n in range(9000))
