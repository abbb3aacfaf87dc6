"""Answers as pages: one file each, readable on a phone and in the dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from pathlib import Path

from batchsched_cli.text import Answer, Bar, Block, Line, Picture, Section, Table, printable

_STYLE = Path(__file__).with_name("page.css")
_SIZE, _STEP = 16, 18
"""Sides of a square, and from one to the next."""
_COLOURS = 8
_BAR_UNIT, _BAR_HEIGHT = 8, 14
_CLASSES = {".": "free", "x": "out", "r": "kept", "*": "other", "#": "other"}
"""The classes of squares that are no letter of a job."""
_OF_BAR = {
    "#": "held",
    "~": "loan",
    ".": "free",
    "-": "span",
    "|": "median",
    "=": "flow",
    ">": "tip",
}
_IN_WORDS = {"held": "held", "loan": "beyond its share", "free": "free"}
"""What the bars of queues tell; those of times and arrows stand beside what they show."""


def page_of(answer: Answer, title: str) -> str:
    """Return an answer as an HTML page: the same text and tables, with pictures. O(blocks)."""
    meanings = {
        letter: meaning
        for block in answer.blocks
        if isinstance(block, Picture)
        for letter, meaning in block.legend.items()
    }
    style = _STYLE.read_text(encoding="utf-8")
    first, *others = answer.blocks
    parts = [*_parts(first, meanings)]
    if isinstance(first, Line):  # the answer
        parts = [f"<h1>{_told(first.text)}</h1>"]
    body = "\n".join([*parts, *(part for block in others for part in _parts(block, meanings))])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_told(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _parts(block: Block, meanings: Mapping[str, str]) -> Iterator[str]:
    if isinstance(block, Line):
        yield f"<p>{_told(block.text)}</p>"
    elif isinstance(block, Section):
        yield from _title(block.title)
        kind = ' class="item"' if block.title else ""
        for text in block.lines:
            yield f"<p{kind}>{_told(text)}</p>"
    elif isinstance(block, Picture):
        yield from _picture(block, meanings)
    else:
        yield from _table(block)


def _told(text: str) -> str:
    return escape(printable(text))


def _title(title: str) -> Iterator[str]:
    if title:
        yield f"<h2>{_told(title)}</h2>"


def _table(table: Table) -> Iterator[str]:
    yield from _title(table.title)
    columns = [
        (position, column)
        for position, column in enumerate(table.columns)
        if column.is_name or any(row[position] for row in table.rows)
    ]
    yield '<div class="wide"><table>'
    if any(column.title for _, column in columns):
        heads = (
            f"<th{' class=number' if column.right else ''}>{_told(column.title)}</th>"
            for _, column in columns
        )
        yield f"<thead><tr>{''.join(heads)}</tr></thead>"
    yield "<tbody>"
    tones = table.tones or ("",) * len(table.rows)
    for row, tone in zip(table.rows, tones, strict=True):
        cells: list[str] = []
        for position, column in columns:
            kind = "number" if column.right else "name" if column.is_name else ""
            kind = kind or ("whole" if not column.share else "")
            cell = row[position]
            content = _bar(cell) if column.is_bar else _told(cell)
            label = f' data-label="{_told(column.title)}"' if column.title else ""
            cells.append(f"<td{f' class={kind}' if kind else ''}{label}>{content}</td>")
        yield f"<tr{f' class={tone}' if tone else ''}>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _bar(cells: str) -> str:
    """Return the bar of a queue, or of a time, as a picture."""
    if not cells:
        return ""
    width = len(cells) * _BAR_UNIT
    parts: list[str] = []
    told: list[str] = []
    start = 0
    for letter, run in groupby(cells):
        kind, count = _OF_BAR[letter], len(list(run))
        if kind == "tip":
            tip = f"{start},0 {start + _BAR_UNIT},{_BAR_HEIGHT / 2:g} {start},{_BAR_HEIGHT}"
            parts.append(f'<polygon class="flow" points="{tip}"/>')
            continue
        parts.append(
            f'<rect class="{kind}" x="{start + 0.5}" y="0.5" '
            f'width="{count * _BAR_UNIT - 1}" height="{_BAR_HEIGHT - 1}"/>'
        )
        if kind in _IN_WORDS:
            told.append(f"{count / len(cells):.0%} {_IN_WORDS[kind]}")
        start += count * _BAR_UNIT
    label = "goes to" if ">" in cells else ", ".join(told)
    label = "earliest, median and latest" if "|" in cells else label
    return (
        f'<svg role="img" aria-label="{label}" width="{width}" height="{_BAR_HEIGHT}" '
        f'viewBox="0 0 {width} {_BAR_HEIGHT}"><title>{label}</title>{"".join(parts)}</svg>'
    )


# Pictures of nodes


def _picture(picture: Picture, meanings: Mapping[str, str]) -> Iterator[str]:
    yield from _title(picture.title)
    if picture.bars:
        yield '<div class="bars">'
        for bar in picture.bars:
            yield f"<div>{_told(bar.name)}</div>"
            yield f"<div>{_squares(bar, meanings)}</div>"
            yield f'<div class="beside">{_told(bar.text)}</div>'
        yield "</div>"
    if picture.legend:
        yield '<ul class="legend">'
        for letter, meaning in picture.legend.items():
            yield f"<li>{_squares(Bar('', letter), meanings)}{_told(meaning)}</li>"
        yield "</ul>"


def _squares(bar: Bar, meanings: Mapping[str, str]) -> str:
    """Return a square for each device, with the letter of the job that holds it."""
    if not bar.cells:
        return ""
    letters = [letter for letter in meanings if letter not in _CLASSES]
    parts: list[str] = []
    for place, letter in enumerate(bar.cells):
        kind = _CLASSES.get(letter) or f"c{letters.index(letter) % _COLOURS}"
        at = place * _STEP + 1
        meaning = f"<title>{_told(meanings.get(letter, ''))}</title>"
        parts.append(
            f'<g>{meaning}<rect class="{kind}" x="{at}" y="1" width="{_SIZE}" height="{_SIZE}" '
            'rx="2"/>'
        )
        if letter != ".":
            plain = ' class="plain"' if kind in ("out", "kept") else ""
            parts.append(f'<text{plain} x="{at + _SIZE // 2}" y="13">{letter}</text>')
        parts.append("</g>")
    width = len(bar.cells) * _STEP
    label = f"{_told(bar.name)}: {_told(bar.text)}" if bar.name else _told(bar.cells)
    return (
        f'<svg role="img" aria-label="{label}" width="{width}" height="{_STEP}" '
        f'viewBox="0 0 {width} {_STEP}">{"".join(parts)}</svg>'
    )
