"""The bugs of ``bugs.txt``, and how one of them is put into a copy of the source."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
PACKAGE = "batchsched"


@frozen
class Bug:
    """One line of the source as it should not be."""

    name: str
    description: str
    path: str
    """The file, below the package."""
    before: str
    """The line as it is, with lines beside it that tell it from others."""
    after: str
    """The same lines with the bug."""

    def applied_to(self, text: str) -> str:
        """Return the source of the file with the bug in it.

        Raises:
            ValueError: the line to change is not there, or there more than once.
        """
        count = f"\n{text}".count(f"\n{self.before}\n")
        if count != 1:
            raise ValueError(f"{self.name}: its line is {count} times in {self.path}")
        return f"\n{text}".replace(f"\n{self.before}\n", f"\n{self.after}\n")[1:]

    def sow(self, source: Path) -> None:
        """Put the bug into a copy of the source."""
        file = source / PACKAGE / self.path
        file.write_text(self.applied_to(file.read_text(encoding="utf-8")), encoding="utf-8")


def read_bugs(file: str = "bugs.txt") -> list[Bug]:
    """Return the bugs of a file, in its order: those that the kit finds, or ``missed.txt``."""
    text = (HERE / file).read_text(encoding="utf-8")
    return [_bug(section) for section in text.split("\n# ")[1:]]


def _bug(section: str) -> Bug:
    title, path, *lines = section.rstrip("\n").split("\n")
    name, description = title.split(": ", 1)
    return Bug(
        name=name,
        description=description,
        path=path,
        before="\n".join(line[1:] for line in lines if not line.startswith("+")),
        after="\n".join(line[1:] for line in lines if not line.startswith("-")),
    )
