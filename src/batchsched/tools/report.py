"""Reports: sections of lines and tables as text or HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import cast

from attrs import Attribute, AttrsInstance, fields, frozen, has

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import html_row, html_text

_WIDTH = 100
_WIDEST_CELL = 64
_SCREEN = 50
_MOST_ROWS = (12, 9, 7, 5, 4, 3)
"""Row limits of tables; the first with which the report fits on a screen is used."""

Cell = str | int | float | None


def number(cell: Cell) -> str:
    """Format a cell: numbers are shortened, None becomes a dash.

    >>> number(0.25), number(3), number(None), number(2.0)
    ('0.25', '3', '-', '2')
    """
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3g}" if not cell.is_integer() or abs(cell) >= 1e15 else str(int(cell))  # noqa: PLR2004
    return str(cell)


@frozen
class Section:
    """A section of a report: a heading, lines, and a table."""

    title: str
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: Sequence[Sequence[Cell]] = ()
    in_full: bool = False
    """Whether its title and lines are not cut, however long they are."""
    is_detail: bool = False
    """Whether the answer is complete without it."""

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as texts."""
        return tuple(tuple(number(cell) for cell in row) for row in self.rows)


class Report(ABC):
    """A report in sections. Prints as text; a notebook shows tables."""

    __slots__ = ()

    @abstractmethod
    def sections(self) -> Iterable[Section]:
        """Return the sections of the report, the most important first."""

    def _repr_html_(self) -> str:
        return as_html(self.sections())

    def __str__(self) -> str:
        return as_text(self.sections())


def as_text(sections: Iterable[Section]) -> str:
    """Render sections as aligned text of at most a screen.

    Long tables and lists are cut, with the number of rows left out; the more of them there are, the
    shorter each is. Long lines are cut too, unless their section says otherwise. Unprintable
    characters become question marks.
    """
    told = list(sections)
    lines: list[str] = []
    for most_rows in _MOST_ROWS:
        lines = [line for section in told for line in _text_of(section, most_rows)]
        if len(lines) <= _SCREEN:
            break
    return "\n".join(lines)


def _text_of(section: Section, most_rows: int) -> Iterator[str]:
    indent = ""
    if section.title:
        yield _cut(section.title, None if section.in_full else _WIDTH)
        indent = "  "
    for line in section.lines[:most_rows]:
        yield _cut(f"{indent}{line}", None if section.in_full else _WIDTH)
    if len(section.lines) > most_rows:
        yield f"{indent}... and {len(section.lines) - most_rows} more"
    if section.rows:
        shown = section.cells[:most_rows]
        table = [section.head, *shown] if section.head else [*shown]
        table = [tuple(_cut(cell, _WIDEST_CELL) for cell in row) for row in table]
        widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
        for row in table:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            yield _cut(f"{indent}{'  '.join(cells)}".rstrip())
        if len(section.rows) > most_rows:
            yield f"{indent}... and {len(section.rows) - most_rows} more"


def _cut(text: str, width: int | None = _WIDTH) -> str:
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "?" for each in text)
    return text if width is None or len(text) <= width else f"{text[: width - 3]}..."


def as_html(sections: Iterable[Section]) -> str:
    """Render sections as HTML for a notebook."""
    parts: list[str] = []
    for section in sections:
        if section.title:
            parts.append(f"<h4>{html_text(section.title)}</h4>")
        parts += [f"<p>{html_text(line)}</p>" for line in section.lines]
        if section.rows:
            head = html_row("th", section.head) if section.head else ""
            body = "".join(html_row("td", row) for row in section.cells)
            parts.append(f"<table>{head}{body}</table>")
    return "".join(parts)


def as_dict(part: AttrsInstance) -> dict[str, JsonValue]:
    """Return a report, or a part of one, as dicts, lists, strings and numbers only."""
    attributes: tuple[Attribute[object], ...] = fields(type(part))
    return {attribute.name: as_json(getattr(part, attribute.name)) for attribute in attributes}


def as_json(value: object) -> JsonValue:
    """Return a value of a report as dicts, lists, strings and numbers only."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Resource):
        return {name: amount for name, amount in value.dimensions() if amount}
    if isinstance(value, ResourceLimit):
        return dict(value.dimensions())
    if isinstance(value, Mapping):
        content = cast("Mapping[object, object]", value)
        return {
            str(key.value if isinstance(key, Enum) else key): as_json(item)
            for key, item in content.items()
        }
    if isinstance(value, tuple):
        return [as_json(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (Snapshot, SchedulerConfig)):
        return value.to_dict()
    if has(type(value)):
        return as_dict(value)  # type: ignore[arg-type]  # it is of an attrs class
    return str(value)
