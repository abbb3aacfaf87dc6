"""What the project's commands do; `tasks.py` runs them (`python3 tasks.py test`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox
from tests.support.pythons import find_python

ROOT = Path(__file__).resolve().parent
TESTED = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that the tests run on, where they are found."""
THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
OF_OTHER_PYTHONS = (
    "tests/golden/test_golden.py::test_every_case_is_decided_as_expected",
    "--deselect=tests/golden/test_golden.py::test_every_case_is_decided_as_expected[medium]",
    *("tests/scenarios", "tests/transition"),
    "src",
)
"""What a second Python could decide otherwise; all tests run on the first.

Those of determinism, on the first, let processes of all Pythons decide the same.
"""
OF_WHEEL = ("tests/scenarios",)
"""What the installed wheel is tested with, besides the doctests of all its modules."""
OF_PROGRAM = (
    ("0", "--help"),
    ("1", "why", "my-job", "-f", "examples/dumps/kubernetes.json"),
    ("1", "what-if", "cordon", "node-0000", "-f", "openb:0.01"),
)
"""What the installed program is asked, each after the exit status that it must have."""
QUIETLY = ("-n", "auto", "--dist", "loadgroup", "-q")
QUICK = ("-m", "not slow", "--hypothesis-profile=quick")
"""What `test --quick` leaves out: what takes long, and most examples of property tests."""
REST = (
    *("-m", "(slow or hypothesis) and not night"),
    *("--hypothesis-profile=rest", "--durations=40"),
)
"""What `test --quick` left out, but for searches; property tests, of which it tried five examples.

They try at most 40; all that they ask for in `nightly`, and where no profile is named. It tells
what took longest.
"""
OF_EXTRAS = (
    *("tests/simulation/test_plots.py", "tests/simulation/test_sweep.py"),
    "tests/simulation/test_tables.py",
    "tests/docs/test_documentation.py::test_examples_give_what_the_page_says[pandas.md]",
)
"""What needs libraries that few tests need: plots, tables, and a dask cluster."""
WITHOUT_NUMPY = (
    "tests/golden/test_golden.py::test_every_case_is_decided_as_expected[constraints]",
    "tests/golden/test_golden.py::test_every_case_is_decided_as_expected[tree]",
    *("tests/scenarios", "tests/placement", "tests/live/test_laws.py", "tests/test_import.py"),
    "tests/properties/test_plain.py::test_a_plain_cycle_decides_and_says_the_same",
    "--ignore=tests/placement/test_arrays.py",
)
"""What could decide otherwise where NumPy is not installed; small clusters do not use it anyway."""
NIGHTLY = ("-m", "slow or hypothesis")
"""What takes long, with other examples each night, as many as each property test asks for."""

nox.needs_version = ">=2025.5.1"
nox.options.envdir = ".venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False


def install(session: nox.Session, *requirements: str) -> None:
    """Install what is required, without a word if it goes well."""
    session.install("--quiet", *requirements, silent=True)


def make_environment(session: nox.Session, folder: Path, python: str) -> None:
    """Make an empty environment of a Python, with a pip that knows dependency groups."""
    command = [sys.executable, "-m", "virtualenv", "--quiet", "--python", python]
    session.run(*command, str(folder), external=True)


def test_on(session: nox.Session, python: str, *arguments: str) -> None:
    """Run tests in the environment that belongs to a Python."""
    session.run(python, "-m", "pytest", *arguments, external=True)


@nox.session
def test(session: nox.Session) -> None:
    """Run all tests on this Python, and those of decisions on the others; or only some tests.

    With `--quick` alone, what takes long is left out, and only this Python is tested; with
    `--rest` alone, that runs, and nothing that `--quick` has tested in full.
    """
    install(session, "--editable", ".", "--group", "test")
    if session.posargs == ["--quick"]:
        session.run("python", "-m", "pytest", *QUIETLY, *QUICK)
        return
    is_rest = session.posargs == ["--rest"]
    if session.posargs and not is_rest:
        session.run("python", "-m", "pytest", *session.posargs)
        return
    session.run("python", "-m", "pytest", *QUIETLY, *(REST if is_rest else ()))
    for version in TESTED:
        if version == THIS_VERSION:
            continue
        python = find_python(version)
        if python is None:
            session.warn(f"Python {version} was not found; the tests do not run on it here")
            continue
        folder = ROOT / ".venv" / f"test-{version}"
        make_environment(session, folder, python)
        programs = folder / ("Scripts" if os.name == "nt" else "bin")
        of_version = str(programs / "python")
        packages = ["--editable", ".", "--group", "decisions"]
        session.run(of_version, "-m", "pip", "install", "--quiet", *packages, external=True)
        test_on(session, of_version, *QUIETLY, *OF_OTHER_PYTHONS)


@nox.session
def extras(session: nox.Session) -> None:
    """Run the tests that need more libraries than others do: plots, tables, and a dask cluster."""
    install(session, "--editable", ".", "--group", "test", "--group", "extras")
    plots = "src/batchsched/simulation/plots.py"
    session.run("python", "-m", "pytest", "-q", *(session.posargs or (*OF_EXTRAS, plots)))


@nox.session
def without_numpy(session: nox.Session) -> None:
    """Run the tests of decisions where NumPy is not installed."""
    install(session, "--editable", ".", "--group", "decisions")
    session.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "numpy")
    session.run("python", "-m", "pytest", *QUIETLY, *(session.posargs or WITHOUT_NUMPY))


@nox.session
def nightly(session: nox.Session) -> None:
    """Search further than each change is searched: other examples, and bugs that are sown."""
    install(session, "--editable", ".", "--group", "test")
    options = ("-q", "--hypothesis-profile=search", *session.posargs)
    more = {"BATCHSCHED_NIGHTLY": "1"}  # more golden cases, and more seeds of hashes
    session.run("python", "-m", "pytest", "-n", "auto", *options, *NIGHTLY, env=more)
    session.run("python", "tests/seeded_bugs/run.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, layers, and that the public API has no Any.

    With arguments, only the checks whose command has one of them in it.
    """
    install(session, ".", "--group", "lint")
    # The public API is checked as it is installed, as users' type checkers see it.
    install(session, "--no-deps", "--force-reinstall", ".")
    # What takes longest first: as many run at once as there are processors.
    checks = [
        "pyright",
        "mypy",
        "python tests/typing/pull_public_api.py",
        "python tests/typing/wrong_plugins.py",
        "lint-imports --no-logo",
        "ruff check .",
        "ruff format --check .",
    ]
    wanted = [
        check
        for check in checks
        if not session.posargs or any(word in check for word in session.posargs)
    ]
    # Pyright would say on every run that there is a newer one.
    variables = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    programs = [*map(str, session.bin_paths or ()), variables["PATH"]]
    variables["PATH"] = os.pathsep.join(programs)

    def run(check: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = check.split()
        found = shutil.which(program, path=variables["PATH"]) or program
        return subprocess.run(
            [found, *arguments],
            check=False,
            cwd=ROOT,
            env=variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    failed: list[str] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as at_once:
        for check, done in zip(wanted, at_once.map(run, wanted), strict=True):
            session.log(check)
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                failed.append(check)
    if failed:
        session.error(f"these checks failed: {'; '.join(failed)}")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/, with warnings as errors."""
    install(session, "--editable", ".[fast,testing]", "--group", "docs")
    session.run("sphinx-build", "-W", "-q", "-b", "html", *session.posargs, "docs", "site")


@nox.session
def openb(session: nox.Session) -> None:
    """Run the example."""
    install(session, "--editable", ".")
    session.run("python", "examples/openb.py", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the source distribution and the wheel, and test the wheel away from the sources."""
    install(session, "--group", "build")
    with tempfile.TemporaryDirectory(prefix="batchsched-wheel-") as temporary:
        place = Path(temporary).resolve()
        session.run("python", "-m", "build", "--outdir", str(place), str(ROOT), silent=True)
        [source] = place.glob("*.tar.gz")
        [binary] = place.glob("*.whl")
        folder = place / "environment"
        make_environment(session, folder, sys.executable)
        python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
        packages = [f"{binary}[testing]", "--group", "decisions"]
        session.run(python, "-m", "pip", "install", "--quiet", *packages, external=True)
        program = "import batchsched, pathlib; print(pathlib.Path(batchsched.__file__).parent)"
        told = session.run(python, "-c", program, silent=True, external=True)
        package = str(told).strip()
        if not Path(package).is_relative_to(folder):
            session.error(f"expected the tests to test the installed wheel, got {package}")
        # The tests come from the source distribution, which must have all of them.
        shutil.unpack_archive(source, place)
        [unpacked] = [each for each in place.glob("batchsched-*") if each.is_dir()]
        shutil.rmtree(unpacked / "src")
        session.chdir(unpacked)
        # The program, as whoever installs it has it, with its example.
        found = str(Path(python).with_name("batchsched"))
        for status, *words in OF_PROGRAM:
            expected = [int(status)]
            session.run(found, *words, success_codes=expected, silent=True, external=True)
        options = [*QUIETLY, "-c", "pyproject.toml", "--rootdir", "."]
        # The doctests of plots need matplotlib.
        modules = [package, f"{package}_cli", f"--ignore={package}/simulation/plots.py"]
        test_on(session, python, *options, *session.posargs, *OF_WHEEL, "examples", *modules)


@nox.session
def charts(session: nox.Session) -> None:
    """Draw the chart of the documentation from the results of a benchmark."""
    install(session, "--editable", ".", "--group", "charts")
    session.run("python", "-m", "benchmarks.charts")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks."""
    install(session, "--editable", ".", "--group", "test")
    session.run("python", "-m", "benchmarks", *session.posargs)
