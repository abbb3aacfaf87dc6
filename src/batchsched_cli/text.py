"""Answers as text for a terminal: lines, tables and bars that fit its width.

An answer is a few blocks. The same blocks become a page (`pages.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO
from unicodedata import east_asian_width

from batchsched.tools import Section as ReportSection
from batchsched.tools import amount_text
from batchsched_cli.arguments import Arguments, UsageError, did_you_mean

ELLIPSIS = "…"
MOST_LINES = 40
"""The most lines of an answer, unless all are asked for."""
_LEAST_ROWS = 3
"""A list or table is cut to no fewer lines than this."""
_NARROWEST, _USUAL_WIDTH, _WIDEST = 20, 80, 100_000
_GAP = 2
"""Columns between those of a table."""
_LEAST_CELL = 6
"""No column is cut to fewer columns than this."""
_TONES = {"waits": "33", "starts": "32", "runs": "36", "wrong": "31", "quiet": "2", "title": "1"}
"""Colours of a terminal, by what they stand for."""


class Line(NamedTuple):
    """A sentence of its own, wrapped where it is too long."""

    text: str
    tone: str = ""
    """What its colour says, besides its words: ``waits``, ``starts``, ``runs``, ``wrong``."""
    has_head: bool = False
    """Whether what stands before its first colon says something by itself: it is then broken
    there, if it is too long for a line."""


class Section(NamedTuple):
    """A heading, and lines below it; many lines are cut."""

    title: str
    """Empty: no heading."""
    lines: tuple[str, ...]
    in_full: bool = False
    """Whether none of them may be left out."""


class Column(NamedTuple):
    """A column of a table."""

    title: str
    right: bool = False
    """Whether it has numbers, which are right-aligned."""
    is_name: bool = False
    """Whether its cells are names, of which no two different ones may look alike."""
    share: int = 1
    """How readily it gives up width, beside other columns; 0: it is never cut."""
    least: int = 6
    """It is cut to no fewer columns than this, as long as others can be cut or dropped."""
    drop: int = 0
    """In which order columns are left out of lines that are too narrow; 0: never."""
    is_bar: bool = False
    """Whether its cells are bars: ``#`` held, ``~`` beyond the share, ``.`` free; or, of times,
    ``-`` from the earliest to the latest, ``|`` the median; or arrows of ``=``, with ``>``."""


class Table(NamedTuple):
    """Rows of cells; those that do not fit are cut, and many rows too."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    tones: tuple[str, ...] = ()
    """The tone of each row, if any has one."""
    indent: str = ""


class Bar(NamedTuple):
    """A row of a picture: a name, one character a device, and what is beside it."""

    name: str
    cells: str
    """A letter of the legend for each device, ``.`` free, ``x`` out of service, ``r`` reserved."""
    text: str = ""


class Picture(NamedTuple):
    """Bars, in groups, with a legend."""

    title: str
    bars: tuple[Bar, ...]
    legend: Mapping[str, str] = {}
    """What the letters mean."""


Block = Line | Section | Table | Picture


class Answer(NamedTuple):
    """What a command answers."""

    status: int
    """The exit status: 0 or 1."""
    blocks: tuple[Block, ...]
    """What a person reads, the answer itself first: a full sentence."""
    data: Mapping[str, object]
    """The same as plain data, for ``--json``."""


def blocks_of(sections: Iterable[ReportSection], *, details: bool = True) -> Iterator[Block]:
    """Yield a report of the library as blocks: the first line of all is the answer."""
    is_first = True
    for section in sections:
        if section.is_detail and not details:
            continue
        lines = section.lines
        title = section.title
        if is_first:
            for text in filter(None, (title, *lines)):
                yield Line(text)
        elif title or lines:
            yield Section(title, lines, section.in_full)
        is_first = False
        rows = section.cells
        if rows:
            head = section.head or ("",) * len(rows[0])
            last = len(head) - 1
            columns = tuple(
                Column(
                    name.upper(),
                    right=not any(row[place].strip("0123456789.,%+-") for row in rows),
                    is_name=not place,
                    share=3 if place == last else 1,
                )
                for place, name in enumerate(head)
            )
            yield Table(columns, rows, indent="  ")


class Style(NamedTuple):
    """How text is written."""

    width: int
    is_coloured: bool
    shows_all: bool


def style_of(arguments: Arguments, stream: TextIO, environment: Mapping[str, str]) -> Style:
    """Return how to write to a stream, by the arguments and the terminal."""
    is_terminal = stream.isatty()
    width = arguments.whole("--width", least=_NARROWEST)
    if width is None:
        width = _terminal_width(stream) if is_terminal else _USUAL_WIDTH
    wish = arguments.text("--color") or "auto"
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    is_coloured = wish == "always" or (wish == "auto" and is_terminal and not plain)
    return Style(min(width, _WIDEST), is_coloured, arguments.has("--all"))


def _terminal_width(stream: TextIO) -> int:
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, _NARROWEST)
    except OSError:
        return _USUAL_WIDTH


# Characters and names


def printable(text: str) -> str:
    r"""Return a text in one line, with control characters and lone surrogates escaped.

    >>> printable("a" + chr(27) + "[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def width_of(text: str) -> int:
    """Return in how many columns of a terminal a printable text is shown."""
    if text.isascii():
        return len(text)
    return len(text) + sum(east_asian_width(each) in "WF" for each in text)


def cut(text: str, width: int) -> str:
    """Return a text in at most so many columns, cut in the middle.

    >>> cut("training/bert-large-7f9c", 12)
    'trainin…7f9c'
    """
    if width_of(text) <= width:
        return text
    tail = (width - 1) * 2 // 5
    return f"{_head(text, width - 1 - tail)}{ELLIPSIS}{_tail(text, tail)}"


def _head(text: str, width: int) -> str:
    while width_of(text[:width]) > width:
        width -= 1
    return text[:width]


def _tail(text: str, width: int) -> str:
    found = text[len(text) - width :] if width else ""
    while width_of(found) > width:
        found = found[1:]
    return found


def cut_end(text: str, width: int) -> str:
    """Return a sentence in at most so many columns, cut at its end."""
    if width_of(text) <= width:
        return text
    return f"{_head(text, width - 1).rstrip()}{ELLIPSIS}"


def cut_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Return names in at most so many columns, cut in the middle so that no two look alike.

    All are cut at the same place; if none tells them apart, before and after where they differ.
    If that is too long, they stay as they are. O(names x width).

    >>> sorted(cut_names(["train-a-0001", "train-b-0001"], 9).values())
    ['train-a…1', 'train-b…1']
    """
    shown = {name: name for name in names}
    long = sorted(name for name in shown if width_of(name) > width)
    if not long:
        return shown
    middle = (width - 1) * 2 // 5
    for tail in sorted(range(width), key=lambda tail: abs(tail - middle)):
        head = width - 1 - tail
        found = [f"{_head(name, head)}{ELLIPSIS}{_tail(name, tail)}" for name in long]
        if _tells_apart(shown | dict(zip(long, found, strict=True))):
            return shown | dict(zip(long, found, strict=True))
    start = _common(long)
    end = _common([name[:start:-1] for name in long])
    parts = [name[start : len(name) - end] for name in long]
    room = width - 2 - max(map(width_of, parts))
    found = [
        f"{_head(name, room - room // 3)}{ELLIPSIS}{part}{ELLIPSIS}{_tail(name, room // 3)}"
        for name, part in zip(long, parts, strict=True)
    ]
    cut_twice = shown | dict(zip(long, found, strict=True))
    return cut_twice if room >= 0 and _tells_apart(cut_twice) else shown


def _tells_apart(shown: Mapping[str, str]) -> bool:
    return len(set(shown.values())) == len(shown)


def _common(names: Sequence[str]) -> int:
    """Return how many characters the beginnings of names have in common."""
    first, last = min(names), max(names)
    count = 0
    while count < len(first) and first[count] == last[count]:
        count += 1
    return count


def is_cut(name: str, shown: str) -> bool:
    """Return whether a name may be shown as this, with what stands for an ellipsis left out.

    >>> is_cut("training/bert-large", "train…large"), is_cut("training/bert", "train…large")
    (True, False)
    """
    first, *parts, last = shown.split(ELLIPSIS)
    if not name.startswith(first) or not name[len(first) :].endswith(last):
        return False
    position, end = len(first), len(name) - len(last)
    for part in parts:
        found = name.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


def wrapped(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield a text in lines of at most so many columns, broken at spaces.

    Lines after the first are indented further. A word that is wider stands alone in its line.
    """
    line = indent
    is_empty = True
    for word in printable(text).split(" "):
        if not is_empty and width_of(line) + 1 + width_of(word) > width:
            yield line
            line, is_empty = f"{indent}  ", True
        line = f"{line}{word}" if is_empty else f"{line} {word}"
        is_empty = False
    yield line.rstrip()


# Blocks


def text_of(answer: Answer, style: Style) -> str:
    """Return an answer as text, each line with a line feed; at most 40 lines unless all are asked.

    O(blocks x width).
    """
    parts = [_part(block, style) for block in answer.blocks]
    if not style.shows_all:
        parts = _as_fit(parts, style)
    spare = MOST_LINES - sum(len(part.fixed) for part in parts)
    lines: list[str] = []
    for position, part in enumerate(parts):
        shown = part.cuttable
        # What later parts do not need, this one may have.
        later = [len(each.cuttable) for each in parts[position + 1 :] if each.cuttable]
        most = max(spare - sum(later), spare // (len(later) + 1), _LEAST_ROWS)
        if len(shown) > most and not style.shows_all:
            left = len(shown) - most + 1
            more = wrapped(f"and {left:,} more: --all shows them", style.width, part.indent)
            shown = [*shown[: most - 1], *more]
        spare -= len(shown)
        lines += [*part.fixed[: part.before], *shown, *part.fixed[part.before :]]
    return "".join(f"{line}\n" for line in lines)


def _as_fit(parts: Sequence[_Part], style: Style) -> list[_Part]:
    """Return the parts without the last ones, if there are too many to show a little of each."""
    least = [len(part.fixed) + min(len(part.cuttable), _LEAST_ROWS) for part in parts]
    excess = sum(least) - MOST_LINES
    able = [position for position, part in enumerate(parts) if part.cuttable]
    left_out: list[int] = []
    while excess > 0 and len(able) > 1:
        excess -= least[able[-1]] - (not left_out)  # one line tells of all of them
        left_out.append(able.pop())
    shown = [part for position, part in enumerate(parts) if position not in left_out]
    if left_out:
        more = counted(len(left_out), "more part")
        told = [*wrapped(f"and {more}: --all shows the rest", style.width)]
        shown.insert(left_out[-1], _fixed(told))
    return shown


class _Part(NamedTuple):
    """The lines of a block."""

    fixed: Sequence[str]
    before: int
    """How many of the fixed lines stand before the others."""
    cuttable: Sequence[str] = ()
    indent: str = ""


def _fixed(lines: Sequence[str]) -> _Part:
    return _Part(lines, len(lines))


def _part(block: Block, style: Style) -> _Part:
    if isinstance(block, Line):
        lines = (_sentence if block.has_head else wrapped)(block.text, style.width)
        return _fixed([_toned(line, block.tone, style) for line in lines])
    if isinstance(block, Picture):
        return _picture(block, style)
    if isinstance(block, Table):
        return _table(block, style)
    indent = "  " if block.title else ""
    told = [line for text in block.lines for line in wrapped(text, style.width, indent)]
    head = _title(block.title, style)
    return _fixed([*head, *told]) if block.in_full else _Part(head, len(head), told, indent)


def _sentence(text: str, width: int) -> Iterator[str]:
    """Yield a sentence in lines; what is too long for one is broken after its first colon."""
    first, sign, rest = printable(text).partition(": ")
    if not sign or width_of(printable(text)) <= width or width_of(first) >= width:
        yield from wrapped(text, width)
        return
    yield f"{first}:"
    yield from wrapped(rest, width, "  ")


def _title(title: str, style: Style) -> list[str]:
    if not title:
        return []
    return [_toned(line, "title", style) for line in wrapped(title, style.width)]


def _toned(text: str, tone: str, style: Style) -> str:
    if not tone or not style.is_coloured or not text:
        return text
    return f"\x1b[{_TONES[tone]}m{text}\x1b[0m"


def _table(table: Table, style: Style) -> _Part:
    columns, indent = table.columns, table.indent
    cells = [[printable(cell) for cell in row] for row in table.rows]
    used = [
        position
        for position, column in enumerate(columns)
        if column.is_name or any(row[position] for row in cells)
    ]
    widths = _widths(columns, used, cells, style.width - len(indent))
    used = sorted(widths)
    names = {
        position: cut_names((row[position] for row in cells), widths[position])
        for position in used
        if columns[position].is_name
    }

    def line(row: Sequence[str]) -> str:
        parts: list[str] = []
        for position in used:
            column, cell, width = columns[position], row[position], widths[position]
            short = names[position].get(cell) if column.is_name else None
            cell = cut_end(cell, width) if short is None else short
            pad = " " * (width - width_of(cell))
            parts.append(f"{pad}{cell}" if column.right else f"{cell}{pad}")
        return indent + (" " * _GAP).join(parts).rstrip()

    tones = table.tones or ("",) * len(cells)
    title = _title(table.title, style)
    body = [line(row) for row in cells]
    head = [line([column.title for column in columns])] if any(c.title for c in columns) else []
    if any(width_of(each) > style.width for each in (*head, *body)):
        records = [each for row in cells for each in _record(columns, row, style.width)]
        return _Part(title, len(title), records)
    body = [_toned(each, tone, style) for each, tone in zip(body, tones, strict=True)]
    head = [_toned(each, "title", style) for each in head]
    return _Part([*title, *head], len(title) + len(head), body, indent)


def _record(columns: Sequence[Column], row: Sequence[str], width: int) -> Iterator[str]:
    """Yield a row for lines that are too narrow for columns: a line for each cell."""
    indent = ""
    for column, cell in zip(columns, row, strict=True):
        if cell.strip():
            yield from wrapped(f"{column.title} {cell.strip()}".strip(), width, indent)
            indent = "  "


def _widths(
    columns: Sequence[Column], used: Sequence[int], cells: Sequence[Sequence[str]], width: int
) -> dict[int, int]:
    """Return the widths of columns by position, such that a line fits, if it can.

    Of those that may be cut, the widest gives first, to its least width; then columns are dropped,
    and at last all are cut further.
    """
    full = {
        position: max(
            [width_of(columns[position].title), *(width_of(row[position]) for row in cells)]
        )
        for position in used
    }
    droppable = sorted(
        (position for position in used if columns[position].drop),
        key=lambda position: columns[position].drop,
    )
    widths = full
    for dropped in range(len(droppable) + 1):
        widths = {at: wide for at, wide in full.items() if at not in droppable[:dropped]}
        if _shrink(widths, columns, width, is_last_try=False):
            return widths
    _shrink(widths, columns, width, is_last_try=True)
    return widths


def _shrink(
    widths: dict[int, int], columns: Sequence[Column], width: int, *, is_last_try: bool
) -> bool:
    """Make columns narrower, the widest first; return whether a line then fits."""
    excess = sum(widths.values()) + _GAP * (len(widths) - 1) - width
    least = {at: _LEAST_CELL if is_last_try else columns[at].least for at in widths}
    while excess > 0:
        able = [at for at, wide in widths.items() if columns[at].share and wide > least[at]]
        if not able:
            return False
        widest = max(able, key=lambda at: (widths[at] * columns[at].share, at))
        widths[widest] -= 1
        excess -= 1
    return True


def _picture(picture: Picture, style: Style) -> _Part:
    names = [printable(bar.name) for bar in picture.bars]
    room = max(style.width // 3, _LEAST_CELL)
    shown = cut_names(names, room)
    wide = max((width_of(shown[name]) for name in names), default=0)
    is_apart = wide > room
    """Whether names stand in lines of their own, since no shorter ones tell them apart."""
    lines: list[str] = []
    for name, bar in zip(names, picture.bars, strict=True):
        pad = " " * (wide - width_of(shown[name]) + _GAP)
        start = "  " if is_apart else f"{shown[name]}{pad}"
        most = max(style.width - width_of(start), _LEAST_CELL)
        cells = bar.cells
        drawn = f"[{cells}]" if len(cells) + 2 <= most else f"[{cells[: most - 3]}{ELLIPSIS}]"
        beside = most - len(drawn) - _GAP
        text = printable(bar.text)
        if not cells:
            drawn = cut_end(text, most)
        elif text and beside >= _LEAST_CELL:
            drawn += f"{' ' * _GAP}{cut_end(text, beside)}"
        if is_apart:
            lines.append(name)
        lines.append(f"{start}{drawn}".rstrip())
    legend = [f"{letter} {printable(text)}" for letter, text in picture.legend.items()]
    after = list(_flowed(legend, style.width))
    head = _title(picture.title, style)
    if not lines:  # a legend of many jobs
        return _Part(head, len(head), after)
    return _Part([*head, *after], len(head), lines)


def _flowed(items: Sequence[str], width: int) -> Iterator[str]:
    """Yield items in lines, as many in each as fit."""
    line = ""
    for item in items:
        short = cut(item, width)
        if line and width_of(line) + _GAP + width_of(short) > width:
            yield line
            line = ""
        line = f"{line}{' ' * _GAP}{short}" if line else short
    if line:
        yield line


# Amounts and names


def amounts_text(amounts: Iterable[tuple[str, float]]) -> str:
    """Return amounts by dimension in one line, without those that are 0.

    Devices come first, since they are what most is short of.
    """
    ranked = sorted(amounts, key=lambda item: item[0] in ("cpu", "memory"))
    return ", ".join(amount_text(*each) for each in ranked if each[1]) or "nothing"


def counted(count: int, what: str) -> str:
    """Return a number of things: ``1 job``, ``3 jobs``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def dimension_named(name: str, known: Iterable[str], what: str = "") -> str:
    """Return the resource that a name means: its own, or what stands after the slash.

    Raises:
        UsageError: it means none, or several; the message begins with `what`.

    """
    names = set(known)
    if name in names:
        return name
    meant = sorted(each for each in names if each.rpartition("/")[2] == name)
    if len(meant) > 1:
        raise UsageError(f"{what}{name} may be any of {', '.join(meant)}")
    if not meant:
        short = {each.rpartition("/")[2] for each in names}
        hint = did_you_mean(name, names | short)
        raise UsageError(f"{what}no node has {name}{hint}")
    return meant[0]


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error of a name that is not known, with those that may be meant."""
    return UsageError(f"no {what} is called {name}{did_you_mean(name, known)}")
