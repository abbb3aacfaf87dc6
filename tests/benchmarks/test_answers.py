"""What the benchmark of answers asks is answered, each time as the first time."""

from __future__ import annotations

import pytest
from benchmarks.answers import asked, main


def test_a_question_is_answered_again_as_it_was() -> None:
    digests = [digest for _, digest in asked(6, 60, "allocate, preempt, consolidate")]
    assert digests[0] == digests[2] == digests[4]
    assert digests[1] == digests[3]


def test_a_settled_cluster_is_asked_what_it_was_asked_before() -> None:
    answers = [digest for _, digest in asked(6, 60, "allocate, preempt", is_settled=True)]
    assert answers[0] == answers[2] != asked(6, 60, "allocate, preempt")[0][1]


def test_questions_are_told_with_what_was_decided(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "--nodes", "6", "--tasks", "60"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
