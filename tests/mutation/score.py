"""Say what a mutation run found: a table of scores, and who survived without a good reason.

    python tests/mutation/score.py [WORD]

Run it where `mutmut run` has run. With a word, only modules with this word in their names
count. A mutant that survived is either listed in `equivalents.md`, with the reason why no
test can tell it from the original, or it is printed here, as a diff; the exit status is 1 if
any is, or if something is listed that did not survive.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant

MUTANTS = Path("mutants/src/batchsched")
EQUIVALENTS = Path(__file__).with_name("equivalents.md")
KILLED = (1, 3)
TIMED_OUT = (-24, 24, 36, 152, 255)

Change = tuple[str, str, str]
"""A function, the code that was there, and the code that took its place."""


def changes_listed(text: str) -> Counter[Change]:
    """Return what the diffs of a text list: below a function's name, a - and each of its +."""
    listed: Counter[Change] = Counter()
    for block in re.findall(r"^```diff\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        function = before = ""
        for line in block.splitlines():
            sign, code = line[:1], " ".join(line[1:].split())
            if sign == "@":
                function = code
            elif sign == "-":
                before = code
            elif sign == "+":
                listed[function, before, code] += 1
    return listed


def change_of(mutant: str, path: Path) -> Change:
    """Return what a mutant changes."""
    lines = get_diff_for_mutant(mutant, path=path).splitlines()
    code = {
        sign: " ".join(
            " ".join(line[1:].split())
            for line in lines
            if line.startswith(sign) and not line.startswith(sign * 3)
        )
        for sign in "-+"
    }
    module, _, mangled = mutant.removeprefix("batchsched.").rpartition(".")
    name = mangled.rpartition("__mutmut_")[0]
    function = ".".join(part for part in re.sub("^x_?", "", name).split("ǁ") if part)
    return f"{module}.{function}", code["-"], code["+"]


def modules(word: str) -> Iterator[tuple[str, Path, dict[str, int | None]]]:
    """Yield each module's name, its path, and the exit status of each of its mutants."""
    for meta in sorted(MUTANTS.rglob("*.meta")):
        path = Path(*meta.parts[1:]).with_suffix("")
        name = str(meta.relative_to(MUTANTS)).removesuffix(".py.meta").replace("/", ".")
        statuses = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
        if word in name and statuses:
            yield name, path, statuses


def row(name: str, counts: Counter[str]) -> str:
    """Return a row of the table."""
    total = counts.total()
    raw = counts["killed"] / total
    without = counts["killed"] / (total - counts["equivalent"])
    numbers = (total, counts["killed"], total - counts["killed"], counts["equivalent"])
    return f"| {name} | {' | '.join(map(str, numbers))} | {raw:.1%} | {without:.1%} |"


def main(arguments: Sequence[str]) -> int:
    """Print the table and the diffs; return the exit status."""
    word = arguments[0] if arguments else ""
    listed = changes_listed(EQUIVALENTS.read_text(encoding="utf-8"))
    left = listed.copy()
    unexplained: list[str] = []
    everything: Counter[str] = Counter()
    print("| module | mutants | killed | survived | equivalent | score | without equivalents |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for name, path, statuses in modules(word):
        counts: Counter[str] = Counter()
        for mutant, status in statuses.items():
            if status in KILLED or status in TIMED_OUT:
                counts["killed"] += 1
                continue
            change = change_of(mutant, path)
            if left[change]:
                left[change] -= 1
                counts["equivalent"] += 1
                continue
            counts["survived"] += 1
            function, before, after = change
            unexplained.append(f"# {mutant} ({status})\n@ {function}\n- {before}\n+ {after}")
        everything += counts
        print(row(name, counts))
    print(row("**all**", everything))
    for diff in unexplained:
        print(f"\n{diff}")
    gone = [] if word else [change for change, count in left.items() if count]
    for function, before, after in gone:
        print(f"\nlisted, and did not survive:\n@ {function}\n- {before}\n+ {after}")
    return 1 if unexplained or gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
