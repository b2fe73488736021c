"""What is said to the model rather than asked of it: help, who it is, a greeting."""

from __future__ import annotations

from accord_coder.models.embedded.page import REAL_MODEL, WHAT_IT_IS, help_text
from accord_coder.models.embedded.recipe import Recipe, Say
from accord_coder.models.embedded.request import Asked, Request

__all__ = ("TALKING",)


def _help(asked: Asked) -> Recipe:
    yield Say(help_text(asked.table, asked.text("topic")))
    return True


def _who(asked: Asked) -> Recipe:
    yield Say(f"{WHAT_IT_IS} Say `help` for the list of them.\n\n{REAL_MODEL}")
    return True


def _hello(asked: Asked) -> Recipe:
    yield Say(f"Hello. {WHAT_IT_IS} Say `help` for the list of them.")
    return True


def _thanks(asked: Asked) -> Recipe:
    yield Say("You are welcome.")
    return True


TALKING = (
    Request(
        "help",
        "Lists what can be asked for.",
        ("help", "help with delete", "what can you do?"),
        (
            "help [me] [(with|on|about|for) <topic:text>]",
            "(what|which) (can | could | do) (you|i) (do|ask|say|understand|know) [for|me|you|here]",
            "(what|which) (commands|requests) (are|do) [there|you] [know|understand|have]",
            "(how does this work | how do i use you | how do you work | commands | usage | ?)",
        ),
        "none",
        _help,
    ),
    Request(
        "who",
        "Says what it is, and how to set a language model.",
        ("who are you?", "which model is this?"),
        (
            "(who|what) are you",
            "(what|which) model (are you | is this | do you use | am i talking to)",
            "are you (an|a) [large|language|real] (ai | llm | language model | model | human | bot | chatgpt | claude | gpt | robot)",
            "(how do i | how can i) (set|use|choose|change|get|configure) [a|an|another|real] [language] model",
        ),
        "none",
        _who,
    ),
    Request(
        "how",
        "See `help`.",
        (),
        ("(how do i | how can i | how to | how does | how do you) <topic:name> [<rest:rest>]",),
        "none",
        _help,
    ),
    Request(
        "hello",
        "Greets back.",
        ("hello",),
        (
            "(hello|hi|hey|hallo|moin|greetings|servus | good morning|evening|afternoon|day) [there|everybody|all]",
            "(how are you) [today|doing]",
        ),
        "none",
        _hello,
    ),
    Request(
        "thanks",
        "Is thanked.",
        ("thanks",),
        (
            "(thanks|thank|thx|great|nice|cool|perfect|ok|okay|bye|goodbye) [you] [a|so|very] [lot|much] [job|work|bye]",
        ),
        "none",
        _thanks,
    ),
)
