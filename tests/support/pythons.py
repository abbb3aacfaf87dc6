"""Where Pythons of other versions are found on this machine."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

__all__ = ["find_python"]

_PROGRAM = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def find_python(version: str) -> str | None:
    """Return a Python of this minor version that really runs, or None.

    On the path, or where pyenv keeps its own, whose stand-ins on the path may not run.
    """
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    candidates = [place / f"python{version}" for place in places]
    with suppress(RuntimeError):  # there is no home
        candidates.extend(sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for candidate in candidates:
        if candidate.is_file() and _version_of(candidate) == version:
            return str(candidate)
    return None


def _version_of(python: Path) -> str | None:
    try:
        done = subprocess.run(
            [str(python), "-c", _PROGRAM],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
