"""The tools for plans, questions, and the end of plan mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accord import PermissionRequest, PlanEntry
from accord_coder.settings import Settings
from coder.harness import BOTH, scripted


async def test_complete_plan_is_shown(tmp_path: Path) -> None:
    entries = [
        {"content": "Look", "status": "completed", "priority": "high"},
        {"content": "Change", "status": "in_progress"},
        {"content": "Test"},
    ]
    async with scripted(tmp_path) as harness:
        result = await harness.use("plan", entries=entries)
        assert not result.failed
        plan = harness.session.transcript.plan
        assert plan is not None
        assert plan.entries == (
            PlanEntry("Look", "completed", "high"),
            PlanEntry("Change", "in_progress", "medium"),
            PlanEntry("Test", "pending", "medium"),
        )
        assert harness.call.title == "Plan: 1 of 3 steps done"
        assert harness.asked == []


# Questions.


def answering(*answers: Any) -> Any:
    """Return a callback that fills in forms and records them."""
    waiting = list(answers)

    class Fills:
        forms: list[Any] = []

        async def __call__(self, form: Any) -> Any:
            self.forms.append(form)
            return waiting.pop(0)

    return Fills()


@BOTH
async def test_question_is_asked_in_a_form(version: int, tmp_path: Path) -> None:
    on_elicit_form = answering({"answer": "blue"}, {"answer": "a"}, {"answer": ["a", "b"]})
    async with scripted(tmp_path, version, on_elicit_form=on_elicit_form) as harness:
        assert (await harness.use("ask", question="Which colour?")).text == "blue"
        one = await harness.use("ask", question="Which?", choices=["a", "b", "a"])
        assert one.text == "a"
        several = await harness.use("ask", question="Which?", choices=["a", "b"], multiple=True)
        assert several.text == "a\nb"
        assert [form.message for form in on_elicit_form.forms] == [
            "Which colour?",
            "Which?",
            "Which?",
        ]
        assert harness.call.status == "completed"


async def test_client_without_forms_makes_the_model_ask_in_text(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        result = await harness.use("ask", question="Which?")
        assert result.failed
        assert "ask in the text of your answer" in result.text


async def test_unanswered_question_is_reported(tmp_path: Path) -> None:
    async with scripted(tmp_path, on_elicit_form=answering(None)) as harness:
        assert "did not answer" in (await harness.use("ask", question="Which?")).text


# The end of plan mode.


def choosing(option_id: str) -> Any:
    def decide(request: PermissionRequest) -> Any:
        return next(option for option in request.options if option.id == option_id)

    return decide


@BOTH
@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
async def test_approved_plan_ends_plan_mode(version: int, mode: str, tmp_path: Path) -> None:
    settings = Settings(mode="plan")
    async with scripted(tmp_path, version, settings=settings, allow=choosing(mode)) as harness:
        result = await harness.use("exit_plan", plan="# Plan\n\n1. Do it")
        assert not result.failed
        assert harness.session.transcript.mode == mode
        assert harness.state.mode == mode
        assert harness.call.kind == "switch_mode"
        assert harness.call.content == ("# Plan\n\n1. Do it",)


@BOTH
async def test_rejected_plan_keeps_plan_mode(version: int, tmp_path: Path) -> None:
    settings = Settings(mode="plan")
    async with scripted(tmp_path, version, settings=settings, allow="reject") as harness:
        result = await harness.use("exit_plan", plan="1. Do it")
        assert result.failed
        assert "did not approve" in result.text
        assert harness.state.mode == "plan"
        assert harness.call.status == ("failed" if version == 1 else "cancelled")


async def test_plan_mode_cannot_be_left_twice(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        assert "not plan: continue" in (await harness.use("exit_plan", plan="x")).text
        assert harness.asked == []
