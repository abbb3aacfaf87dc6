"""What pages show of `batchsched`, it prints; what they show of kubectl, the dumps have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.support.consoles import BLOCK, DUMPS, LOG, OURS, parts_of, updated
from tests.support.shown_dumps import DUMPS as SHOWN
from tests.support.shown_dumps import log_text, text_of

from batchsched_cli.arguments import OPTIONS
from batchsched_cli.program import COMMANDS
from batchsched_cli.reading import PRESETS

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md")
    if OURS.search(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == updated(text), "python -m tests.support.consoles writes what is printed now"


def test_another_output_is_noticed() -> None:
    page = "```console\n$ batchsched jobs -f volcano.json\n5 jobs wait.\n$ echo $?\n1\n```\n"
    assert re.search(r"\n3 jobs wait.*\n\$ echo \$\?\n0\n```\n$", updated(page), re.DOTALL)


def test_the_files_are_what_makes_them() -> None:
    assert {file.stem for file in DUMPS.glob("*.json")} == set(SHOWN)
    for name in SHOWN:
        assert (DUMPS / f"{name}.json").read_text(encoding="utf-8") == text_of(name)
    assert LOG.read_text(encoding="utf-8") == log_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_kubectl_shows_is_in_a_dump(page: Path) -> None:
    dumps = [json.loads(text_of(name))["items"] for name in SHOWN]
    names = {each["metadata"]["name"] for items in dumps for each in items}
    text = json.dumps(dumps)
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for command, _, shown in parts_of(block):
            if command.startswith("kubectl get") and "json" not in command:
                assert {line.split()[0] for line in shown.splitlines()[1:]} <= names
            elif command.startswith("kubectl describe"):
                said = [line.split("  ")[-1] for line in shown.splitlines()]
                assert all(json.dumps(message)[1:-1] in text for message in said)


def test_the_page_of_the_command_line_has_every_command_and_option() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"\n## {name}\n" not in page] == []
    options = [*OPTIONS, *(option for each in COMMANDS.values() for option in each.options)]
    assert [option.name for option in options if f"`{option.name}" not in page] == []
    assert [name for name in PRESETS if f"| `{name}` |" not in page] == []
