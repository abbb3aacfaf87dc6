"""The digests of all decisions: a time counts only if the decisions were right."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.cycle import Run

__all__ = ["Digests", "WrongDecisionsError", "same"]

STORED = Path(__file__).with_name("digests.json")


class WrongDecisionsError(Exception):
    """The decisions of a run differ from the expected ones."""


class Digests:
    """The stored digests, by workload and scale."""

    def __init__(self, *, is_update: bool = False, path: Path = STORED) -> None:
        self._path = path
        self._stored: dict[str, str] = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        )
        self._is_update = is_update

    def check(self, name: str, scale: float, run: Run) -> Run:
        """Return `run`, if its decisions are those that are stored, or are to be stored.

        Raises:
            WrongDecisionsError: they are not, or nothing is stored.
        """
        key = f"{name} at {scale:g}"
        stored = self._stored.get(key)
        if stored != run.digest:
            if not self._is_update:
                problem = "is not the stored one" if stored else "is not stored"
                raise WrongDecisionsError(
                    f"{key}: the digest of the decisions, {run.digest}, {problem}; "
                    "if it is right, run with --update-digests"
                )
            self._stored[key] = run.digest
            self._save()
        return run

    def _save(self) -> None:
        text = json.dumps(dict(sorted(self._stored.items())), indent=1)
        self._path.write_text(f"{text}\n", encoding="utf-8")


def same(expected: Run, run: Run) -> Run:
    """Return `run`, if it decided the same as `expected`.

    Raises:
        WrongDecisionsError: it did not.
    """
    if run.digest != expected.digest:
        raise WrongDecisionsError(f"decided {run.counts}, and should have {expected.counts}")
    return run
