"""Answers as pages: one file each, readable on a phone and in the dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from batchsched_cli.text import Answer, Bar, Block, Line, Picture, Section, Table, printable

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --quiet: #57606a; --line: #d0d7de;
  --waits: #9a6700; --starts: #1a7f37; --runs: #0969da; --wrong: #cf222e; --free: #eef1f4; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #e6e9ed; --quiet: #9aa4af;
  --line: #3a424c; --waits: #e3b341; --starts: #56d364; --runs: #79c0ff; --wrong: #ff8f86;
  --free: #262c33; } }
* { box-sizing: border-box; }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 75rem; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.3rem; line-height: 1.35; margin: .2rem 0 1rem; }
h2 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
p { margin: .3rem 0; }
p.item { padding-left: 1rem; }
table { border-collapse: collapse; margin: .8rem 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top; }
th { color: var(--quiet); font-size: .8rem; }
td.number, th.number { text-align: right; }
td.number, td.whole { white-space: nowrap; }
td.name { white-space: pre-wrap; }
.wide { overflow-x: auto; }
tr.waits td:first-child { color: var(--waits); }
tr.starts td:first-child { color: var(--starts); }
tr.runs td:first-child { color: var(--runs); }
tr.wrong td:first-child { color: var(--wrong); }
tr.quiet { color: var(--quiet); }
svg { display: block; height: auto; max-width: 100%; }
td svg { margin-top: .3rem; }
svg text { fill: #111; font: 12px ui-monospace, monospace; text-anchor: middle; }
svg .c0 { fill: #e69f00; } svg .c1 { fill: #56b4e9; } svg .c2 { fill: #2fb58a; }
svg .c3 { fill: #f0e442; } svg .c4 { fill: #8fa8ff; } svg .c5 { fill: #ff8a5c; }
svg .c6 { fill: #d98fc0; } svg .c7, svg .other { fill: #b5b5b5; }
svg .free { fill: var(--free); stroke: var(--line); }
svg .out { fill: none; stroke: var(--wrong); }
svg .kept { fill: none; stroke: var(--runs); stroke-dasharray: 3 2; }
svg text.plain { fill: var(--text); }
svg .held { fill: #2fb58a; } svg .loan { fill: #e69f00; }
.bars { display: grid; gap: .35rem .8rem; grid-template-columns: max-content auto 1fr;
  align-items: center; }
.bars .beside { color: var(--quiet); }
ul.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; }
ul.legend li { align-items: center; display: flex; gap: .4rem; }
@media (max-width: 54rem) {
  .bars { grid-template-columns: 1fr; gap: 0; }
  .bars .beside { margin-bottom: .6rem; }
  thead { display: none; }
  tr { border-bottom: 1px solid var(--line); display: block; padding: .5rem 0; }
  td, td.number { border: 0; display: flex; gap: .6rem; padding: .1rem 0; text-align: left;
    overflow-wrap: anywhere; white-space: normal; }
  td::before { color: var(--quiet); content: attr(data-label); flex: 0 0 6.5rem;
    font-size: .8rem; }
  td:empty { display: none; }
}
"""
_SIZE, _STEP = 16, 18
"""Sides of a square, and from one to the next."""
_COLOURS = 8
_BAR_UNIT, _BAR_HEIGHT = 8, 14
_CLASSES = {".": "free", "x": "out", "r": "kept", "*": "other", "#": "other"}
"""The classes of squares that are no letter of a job."""
_OF_BAR = {"#": "held", "~": "loan", ".": "free"}
_IN_WORDS = {"held": "held", "loan": "beyond its share", "free": "free"}


def page_of(answer: Answer, title: str) -> str:
    """Return an answer as an HTML page: the same text and tables, with pictures. O(blocks)."""
    meanings = {
        letter: meaning
        for block in answer.blocks
        if isinstance(block, Picture)
        for letter, meaning in block.legend.items()
    }
    body = "\n".join(part for block in _blocks(answer) for part in _parts(block, meanings))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_told(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _blocks(answer: Answer) -> Iterator[Block | str]:
    """Yield the blocks; the first line, which is the answer, as a text of its own."""
    is_first = True
    for block in answer.blocks:
        if is_first and isinstance(block, Line):
            yield f"<h1>{_told(block.text)}</h1>"
        else:
            yield block
        is_first = False


def _parts(block: Block | str, meanings: Mapping[str, str]) -> Iterator[str]:
    if isinstance(block, str):
        yield block
    elif isinstance(block, Line):
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
    """Return the bar of a queue as a picture."""
    if not cells:
        return ""
    width = len(cells) * _BAR_UNIT
    parts: list[str] = []
    told: list[str] = []
    start = 0
    for letter, kind in _OF_BAR.items():
        count = cells.count(letter)
        if count:
            parts.append(
                f'<rect class="{kind}" x="{start + 0.5}" y="0.5" '
                f'width="{count * _BAR_UNIT - 1}" height="{_BAR_HEIGHT - 1}"/>'
            )
            told.append(f"{count / len(cells):.0%} {_IN_WORDS[kind]}")
        start += count * _BAR_UNIT
    label = ", ".join(told)
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
