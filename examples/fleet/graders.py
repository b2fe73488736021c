"""Graders of the example."""

from __future__ import annotations

from accord_fleet import GradedAttempt, Verdict


def wrote_note(attempt: GradedAttempt) -> Verdict:
    """Pass if the agent has written the file that the task names."""
    word = str(attempt.task.metadata["word"])
    note = attempt.workspace / f"{attempt.task.id}.txt"
    if not note.is_file():
        return Verdict(passed=False, reason="the file was not written")
    passed = word in note.read_text("utf-8")
    return Verdict(passed=passed, reason="" if passed else "the file does not have the word")


def named_word(attempt: GradedAttempt) -> Verdict:
    """Pass if the answer has the word of the task."""
    word = str(attempt.task.metadata["word"])
    passed = word in attempt.result.answer
    return Verdict(passed=passed, reason="" if passed else "the answer does not have the word")
