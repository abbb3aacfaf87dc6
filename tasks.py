#!/usr/bin/env python3
"""The project's commands; each makes the environment that it needs, under `.venv`.

    python3 tasks.py openb      run the example: a published GPU cluster trace in one cycle
    python3 tasks.py test       run all tests, on every supported Python that is found
    python3 tasks.py lint       style, types, layers, no Any in the public API
    python3 tasks.py docs       build the documentation into site/
    python3 tasks.py wheel      build the wheel, install it elsewhere, test what is installed
    python3 tasks.py bench      run the benchmarks
    python3 tasks.py all        test, lint, docs, openb and wheel, like continuous integration

What follows a command goes to the program that it runs: `python3 tasks.py openb --scale 0.1`,
`python3 tasks.py test -k preempt` (which uses the Python that runs it, and no other).

It needs Python 3.11 or newer and, the first time, a package registry that pip can reach;
nothing else. An environment is made again when what it was made from has changed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

TESTED = ("3.11", "3.12", "3.13")
"""The versions of Python that the tests run on, where they are found."""
OF_TESTS = ("tests/testing", "tests/quality", "tests/seeded_bugs")
"""Tests of what tests: on one Python only, for they take as long as all others together."""
OF_WHEEL = (
    "tests/session",
    "tests/state",
    "tests/golden",
    "tests/kubernetes",
    "tests/plugins",
    "tests/scenarios",
)
"""What the installed wheel is tested with: enough to miss no module."""
QUIETLY = ("-n", "auto", "-q")

# An old Python must be able to read this file (its syntax is that of 3.6) and to get to here.
if sys.version_info < (3, 11):  # noqa: UP036 - who has an older one is told so here
    _newer = [f"python{version}" for version in TESTED if shutil.which(f"python{version}")]
    _found = [name for name in _newer if subprocess.getstatusoutput(f"{name} --version")[0] == 0]
    _advice = f"Try: {_found[-1]} tasks.py" if _found else "Install one and run this file with it."
    sys.exit(
        f"tasks.py: this is Python {sys.version_info[0]}.{sys.version_info[1]}, "
        f"but batchsched needs Python 3.11 or newer. {_advice}"
    )

ROOT = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / ".venv"
PIP_WITH_GROUPS = (25, 1)
"""The first pip that installs dependency groups."""
THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"

Argument = str | Path


def fail(message: str) -> NoReturn:
    """Stop with a message."""
    sys.stdout.flush()
    sys.exit(f"tasks.py: {message}")


def say(message: str) -> None:
    """Tell what is being done."""
    print(f"==> {message}", flush=True)


# Running programs


def variables() -> dict[str, str]:
    """Return the environment variables without those that would mix Pythons up."""
    unwanted = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(command: Sequence[Argument], folder: Path = ROOT, extra: Mapping[str, str] = {}) -> int:
    """Run a command without standard input and return its exit status."""
    sys.stdout.flush()
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**variables(), **extra},
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode


def output_of(command: Sequence[Argument]) -> str | None:
    """Return what a command prints, stripped; None if it cannot be run or fails."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            env=variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def this_python() -> str:
    """Return the Python that runs this; if that is of a virtual environment, the one behind."""
    behind: object = getattr(sys, "_base_executable", None)
    return behind if isinstance(behind, str) else sys.executable


def find_python(version: str) -> str | None:
    """Return a Python of this minor version that really runs, or None.

    On the path, or where pyenv keeps its own, whose stand-ins on the path may not run.
    """
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    candidates = [place / f"python{version}" for place in places]
    try:
        releases = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
        candidates.extend(sorted(releases))
    except RuntimeError:  # nobody's home
        pass
    program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for candidate in candidates:
        if candidate.is_file() and output_of([candidate, "-c", program]) == version:
            return str(candidate)
    return None


# Environments


class Environment:
    """A virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.programs / ("python.exe" if os.name == "nt" else "python")

    def make(self, python: str) -> None:
        """Make it anew, empty but for a pip that knows dependency groups."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if run([python, "-m", "venv", self.folder]) != 0:
            fail(
                f"{python} cannot make a virtual environment; its message is above. "
                "(Debian and Ubuntu have what it needs in their package python3-venv.)"
            )
        words = (output_of([self.python, "-m", "pip", "--version"]) or "pip 0").split()
        numbers = [int(number) for number in words[1].split(".")[:2] if number.isdigit()]
        if tuple(numbers) < PIP_WITH_GROUPS:
            self.install("--upgrade", "pip>={}.{}".format(*PIP_WITH_GROUPS))

    def install(self, *requirements: Argument) -> None:
        """Install what is required, or stop with a message."""
        status = self.run("-m", "pip", "install", "--quiet", *requirements)
        if status != 0:
            fail(
                f"pip could not install {' '.join(map(str, requirements))} into {self.folder} "
                f"(exit status {status}). Its message is above. Can it reach a package registry?"
            )

    def run(self, *arguments: Argument, folder: Path = ROOT) -> int:
        """Run its Python with these arguments and return the exit status."""
        return run([self.python, *arguments], folder)


def environment(name: str, *requirements: Argument, python: str | None = None) -> Environment:
    """Return the environment of this name with the requirements, made anew if need be.

    It is kept as long as it still runs, and pyproject.toml, the Python, the requirements
    and the place of the checkout are those that it was made from.
    """
    python = python or this_python()
    made_from = [
        (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
        output_of([python, "-c", "import sys; print(sys.version, sys.prefix)"]),
        [str(requirement) for requirement in requirements],
        str(ROOT),
    ]
    fingerprint = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
    wanted = Environment(ENVIRONMENTS / name)
    note = wanted.folder / "made-from.sha256"
    is_current = note.is_file() and note.read_text(encoding="utf-8") == fingerprint
    if is_current and output_of([wanted.python, "-c", "print('runs')"]) == "runs":
        return wanted
    say(f"making the environment .venv/{name} (once, some seconds)")
    wanted.make(python)
    wanted.install(*requirements)
    note.write_text(fingerprint, encoding="utf-8")
    return wanted


def project_environment(name: str, *groups: str, python: str | None = None) -> Environment:
    """Return the environment of this name with the project, editable, and dependency groups."""
    grouped = [part for group in groups for part in ("--group", group)]
    return environment(name, "--editable", ".", *grouped, python=python)


# Commands


def openb(arguments: Sequence[str]) -> int:
    """Run the example."""
    return project_environment("openb").run("examples/openb.py", *arguments)


def test(arguments: Sequence[str]) -> int:
    """Run all tests on every supported Python, or with arguments, some tests on this one."""
    status = test_on(THIS_VERSION, project_environment("test", "test"), arguments)
    for version in TESTED:
        if status != 0 or arguments:
            break
        if version == THIS_VERSION:
            continue
        python = find_python(version)
        if python is None:
            say(f"Python {version} was not found; the tests do not run on it here")
            continue
        other = project_environment(f"test-{version}", "test", python=python)
        status = test_on(version, other, [*QUIETLY, *(f"--ignore={part}" for part in OF_TESTS)])
    return status


def test_on(version: str, where: Environment, arguments: Sequence[str]) -> int:
    """Run tests in an environment."""
    say(f"tests on Python {version}")
    return where.run("-m", "pytest", *(arguments or QUIETLY))


def lint(arguments: Sequence[str]) -> int:
    """Check style, types, layers, and that the public API has no Any.

    With arguments, only the checks whose command has one of them in it.
    """
    where = environment("lint", ".", "--group", "lint")
    # The public API is checked as it is installed, as users' type checkers see it.
    where.install("--no-deps", "--force-reinstall", ".")
    checks = [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["pyright"],
        ["lint-imports", "--no-logo"],
        ["python", "tests/typing/pull_public_api.py"],
    ]
    extra = {
        # Pyright asks the first Python on the path where packages are.
        "PATH": f"{where.programs}{os.pathsep}{os.environ.get('PATH', '')}",
        # It would say on every run that there is a newer one.
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    }
    failed: list[str] = []
    for check in checks:
        shown = " ".join(check)
        if arguments and not any(word in shown for word in arguments):
            continue
        say(shown)
        if run([where.programs / check[0], *check[1:]], extra=extra) != 0:
            failed.append(shown)
    for shown in failed:
        say(f"FAILED: {shown}")
    return 1 if failed else 0


def docs(arguments: Sequence[str]) -> int:
    """Build the documentation."""
    if not (ROOT / "docs" / "conf.py").is_file():
        say("there is no docs/conf.py, so there is no documentation to build")
        return 0
    where = environment("docs", "--editable", ".[fast,testing]", "--group", "docs")
    say("building the documentation into site/")
    return where.run("-m", "sphinx", "-W", "-q", "-b", "html", *arguments, "docs", "site")


def wheel(arguments: Sequence[str]) -> int:
    """Build the source distribution and the wheel, and test the wheel away from the sources."""
    builder = environment("build", "--group", "build")
    with tempfile.TemporaryDirectory(prefix="batchsched-wheel-") as temporary:
        place = Path(temporary).resolve()
        say("building the source distribution, and the wheel from it")
        status = builder.run("-m", "build", "--outdir", place, ROOT)
        if status != 0:
            return status
        [source] = place.glob("*.tar.gz")
        [binary] = place.glob("*.whl")
        say(f"installing {binary.name} away from the sources")
        installed = Environment(place / "environment")
        installed.make(this_python())
        installed.install(f"{binary}[testing]", "--group", "test")
        program = "import batchsched, pathlib; print(pathlib.Path(batchsched.__file__).parent)"
        package = output_of([installed.python, "-c", program])
        if package is None or not Path(package).is_relative_to(installed.folder):
            fail(f"the tests would not test the installed wheel, but {package}")
        # The tests come from the source distribution, which must have all of them.
        shutil.unpack_archive(source, place)
        [unpacked] = [folder for folder in place.glob("batchsched-*") if folder.is_dir()]
        shutil.rmtree(unpacked / "src")
        say("tests of the installed wheel")
        options = [*QUIETLY, "-c", "pyproject.toml", "--rootdir", "."]
        what = [*OF_WHEEL, "examples", str(package)]
        return installed.run("-m", "pytest", *options, *arguments, *what, folder=unpacked)


def bench(arguments: Sequence[str]) -> int:
    """Run the benchmarks."""
    where = project_environment("bench", "test")
    if (ROOT / "benchmarks" / "__main__.py").is_file():
        return where.run("-m", "benchmarks", *arguments)
    if (ROOT / "benchmarks" / "run.py").is_file():
        return where.run("benchmarks/run.py", *arguments)
    say("there is neither benchmarks/__main__.py nor benchmarks/run.py")
    return 1


def everything(arguments: Sequence[str]) -> int:
    """Run what continuous integration runs."""
    if arguments:
        fail("'all' takes no arguments")
    for command in (test, lint, docs, openb, wheel):
        status = command([])
        if status != 0:
            return status
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "openb": openb,
    "test": test,
    "lint": lint,
    "docs": docs,
    "wheel": wheel,
    "bench": bench,
    "all": everything,
}


def main(arguments: Sequence[str]) -> int:
    """Run the command that was asked for; return its exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print((__doc__ or "").strip())
        return 0 if arguments else 2
    name, *others = arguments
    if name not in COMMANDS:
        fail(f"there is no command {name!r}; there are {', '.join(COMMANDS)}")
    begun = time.monotonic()
    try:
        status = COMMANDS[name](others)
    except KeyboardInterrupt:
        return 130
    if status != 0:
        seconds = time.monotonic() - begun
        print(f"tasks.py: {name} failed after {seconds:.0f} s", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
