"""Runs the commands of `batchsched` that a page shows, and compares what they print.

A block of the language `console` has commands, each after `$ `, and what they print. The commands
of a page run in one folder, with copies of files in `examples`; `$ echo $?` tells the exit
status; a line `...` stands for any lines. `python -m tests.support.consoles` writes what is printed
now into the pages.
"""

import re
import shlex
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from unittest.mock import patch

from batchsched_cli.program import main as program

ROOT = Path(__file__).parents[2]
DUMPS = ROOT / "examples" / "dumps"
LOG, CONFIG = ROOT / "examples" / "log.swf", ROOT / "examples" / "scheduler.json"
MANIFEST = ROOT / "examples" / "train.json"
RECORD = DUMPS / "evictions.jsonl"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
CUT = "...\n"
OURS = re.compile(r"^\$ batchsched ", re.MULTILINE)


def printed_by(words):
    """Run the program in this process; return what a terminal shows, and the exit status."""
    screen = StringIO()
    shown = redirect_stdout(screen), redirect_stderr(screen)
    with shown[0], shown[1], patch.object(sys, "stdin", StringIO()):
        status = program(words)
    return screen.getvalue(), status


def parts_of(block):
    """Yield each command of a block with what the block shows below it."""
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE)[1:]:
        # A line that ends with a backslash goes on with the next.
        command = re.match(r"\$ ((?:.*\\\n)*.*)\n", part)
        yield command[1], command[0], part[command.end() :]


def as_printed(block):
    """Return a block with what its commands print now; lines that `...` leaves out stay out."""
    done, status = [], None
    for command, line, shown in parts_of(block):
        words = shlex.split(command)
        if words == ["echo", "$?"]:
            printed = f"{status}\n"
        elif words[0] == "batchsched":
            printed, status = printed_by(words[1:])
            pattern = re.escape(shown).replace(re.escape(CUT), r"(?:.*\n)*?")
            if CUT in shown:
                printed = shown if re.fullmatch(pattern, printed) else shortened(printed, shown)
        else:
            printed = shown
        done.append(line + printed)
    return "".join(done)


def shortened(printed, shown):
    """Leave out what a page did not show before: parts that begin with other words."""
    words = {tuple(line.split(" ")[:2]) for line in shown.splitlines()}
    done = []
    for part in re.split(r"^(?=\S)", printed, flags=re.MULTILINE)[1:]:
        if not done or tuple(part.splitlines()[0].split(" ")[:2]) in words:
            done.append(part)
        elif done[-1] != CUT:
            done.append(CUT)
    return "".join(done)


def updated(text):
    """Return a page with what its commands print now."""
    with TemporaryDirectory() as folder, chdir(folder):
        for file in (*DUMPS.glob("*.json"), LOG, CONFIG, MANIFEST, RECORD):
            copy(file, folder)
        return BLOCK.sub(
            lambda block: as_printed(block[0]) if OURS.search(block[0]) else block[0], text
        )


def main():
    """Write what is printed now into the pages, and name those that change."""
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"):
        text = page.read_text(encoding="utf-8")
        if (new := updated(text)) != text:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
