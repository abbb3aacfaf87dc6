#!/usr/bin/env python3
"""The project's commands; each makes the virtual environment that it needs, under `.venv`.

    python3 tasks.py openb      run the example: a published GPU cluster trace in one cycle
    python3 tasks.py test       run all tests, those of decisions also on other Pythons
    python3 tasks.py test --quick       run most of them, in some minutes
    python3 tasks.py test --rest        run the others, and more examples of property tests
    python3 tasks.py extras     run the tests that need matplotlib or dask
    python3 tasks.py without-numpy      run the tests of decisions without NumPy
    python3 tasks.py lint       style, types, layers, no Any in the public API
    python3 tasks.py docs       build the documentation into site/
    python3 tasks.py wheel      build the wheel, install it elsewhere, test what is installed
    python3 tasks.py bench      run the benchmarks
    python3 tasks.py charts     draw the documentation's charts from the benchmarks' results
    python3 tasks.py nightly    search further: other examples, and bugs that are sown
    python3 tasks.py all        what continuous integration runs: all but bench, charts, nightly

What follows a command goes to the program that it runs: `python3 tasks.py openb --scale 0.1`,
`python3 tasks.py test -k preempt` (on this Python only).

The commands themselves stand in `noxfile.py`. This file only installs nox into `.venv/nox` and
passes the command on; it needs Python 3.11 or newer and, the first time, a package registry that
pip can reach.
"""

import os
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
CHECKS = ("test", "extras", "without-numpy", "lint", "docs", "openb", "wheel")
COMMANDS = (*CHECKS, "bench", "charts", "nightly")
NOX = "nox>=2025.5.1"
ROOT = Path(__file__).resolve().parent
HOME = ROOT / ".venv" / "nox"


def install_nox() -> Path:
    """Return the Python of an environment that has nox; made once for each Python and checkout."""
    python = HOME / ("Scripts" if os.name == "nt" else "bin") / "python"
    note = HOME / "made-for.txt"
    made_for = f"{NOX} {sys.version} {ROOT}"
    if note.is_file() and note.read_text(encoding="utf-8") == made_for:
        return python
    print("==> installing nox into .venv/nox (once, some seconds)", flush=True)
    base = getattr(sys, "_base_executable", None) or sys.executable
    if subprocess.call([base, "-m", "venv", "--clear", str(HOME)]) != 0:
        sys.exit(
            f"tasks.py: {base} cannot make a virtual environment; its message is above. "
            "(Debian and Ubuntu have what it needs in their package python3-venv.)"
        )
    if subprocess.call([str(python), "-m", "pip", "install", "--quiet", NOX]) != 0:
        sys.exit(f"tasks.py: pip could not install {NOX}. Can it reach a package registry?")
    note.write_text(made_for, encoding="utf-8")
    return python


def main(arguments: "list[str]") -> int:
    """Run the command that was asked for; return its exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print((__doc__ or "").strip())
        return 0 if arguments else 2
    name, *others = arguments
    if name not in (*COMMANDS, "all"):
        sys.exit(f"tasks.py: there is no command {name!r}; there are {', '.join(COMMANDS)} and all")
    if name == "all" and others:
        sys.exit("tasks.py: 'all' takes no arguments")
    sessions = [each.replace("-", "_") for each in (CHECKS if name == "all" else (name,))]
    command = [str(install_nox()), "-m", "nox", "--noxfile", str(ROOT / "noxfile.py")]
    # Where nothing compiled is kept, each process of a test compiles all modules that it imports.
    unwanted = (
        *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"),
        *("VIRTUAL_ENV", "__PYVENV_LAUNCHER__"),
    )
    variables = {key: value for key, value in os.environ.items() if key not in unwanted}
    try:
        return subprocess.call(
            [*command, "--sessions", *sessions, "--", *others],
            env=variables,
            stdin=subprocess.DEVNULL,
        )
    except KeyboardInterrupt:
        return 130


# An old Python must be able to read this file and to get to here.
if sys.version_info < OLDEST:
    sys.exit(
        "tasks.py: this is Python {}.{}, but batchsched needs Python {}.{} or newer. "
        "Install one and run this file with it.".format(*sys.version_info[:2], *OLDEST)
    )

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
