"""The bugs to sow still fit the source, and some are sown to see the kit find them.

All of them take a while: `python -m tests.seeded_bugs.run`.
"""

from __future__ import annotations

import ast

import pytest
from tests.seeded_bugs import run
from tests.seeded_bugs.sowing import PACKAGE, SOURCE, Bug, read_bugs

BUGS = read_bugs()
MISSED = read_bugs("missed.txt")


def test_there_are_enough_and_each_has_its_name() -> None:
    assert len(BUGS) >= 25
    assert len({bug.name for bug in BUGS + MISSED}) == len(BUGS + MISSED)


def test_they_are_everywhere() -> None:
    paths = {bug.path for bug in BUGS + MISSED}
    plugins = ("gang", "drf", "priority", "predicates", "conformance")
    actions = ("allocate", "preempt", "reclaim", "reserve")
    assert {f"plugins/{name}.py" for name in plugins} <= paths
    assert {"plugins/nodeorder.py", "plugins/proportion.py"} <= paths
    assert {f"actions/{name}.py" for name in actions} <= paths
    assert {"state/ledger.py", "session/statements.py", "session/orders.py"} <= paths
    assert {"transition/rules.py", "transition/decisions.py"} <= paths
    assert any(path.startswith("placement/") for path in paths)


@pytest.mark.parametrize("bug", BUGS + MISSED, ids=lambda bug: bug.name)
def test_it_changes_one_line_of_the_source_as_it_is(bug: Bug) -> None:
    text = (SOURCE / PACKAGE / bug.path).read_text(encoding="utf-8")
    changed = bug.applied_to(text)  # or it says how often its line is there
    ast.parse(changed)
    before, after = text.splitlines(), changed.splitlines()
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["gang-ready-too-early", "tiers-last-uid-first"],
)
def test_it_is_caught(name: str) -> None:
    (bug,) = (bug for bug in BUGS if bug.name == name)
    found = run.try_out(bug)
    assert found["caught"], found
    assert found["check"] not in ("import", "it does not end")


@pytest.mark.slow
def test_nothing_is_found_in_the_source_as_it_is() -> None:
    """For as long as a first look takes; `run.py` takes its time before it sows anything."""
    found = run.try_out(None, seconds=4)
    assert not found["caught"], found


def test_a_bug_that_does_not_fit_is_not_caught() -> None:
    bug = Bug("none", "nothing", "plugins/gang.py", "    no such line", "    no line")
    assert run.try_out(bug) == {
        "caught": False,
        "seconds": 0,
        "message": "none: its line is 0 times in plugins/gang.py",
    }


def test_they_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(BUGS)
    with pytest.raises(SystemExit):
        run.main(["no-such-bug"])
    assert "no such bug: no-such-bug" in capsys.readouterr().err
