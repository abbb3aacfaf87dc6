"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["html_table"]

_MOST_ROWS = 20


def html_table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], *, count: int
) -> str:
    """Return an HTML table of the first 20 rows, with the number of the others.

    Args:
        caption: the caption of the table.
        header: the names of the columns.
        rows: the rows; only those that are shown are consumed.
        count: the number of all rows.

    >>> print(html_table("a & b", ["x"], [["<1>"]], count=1))
    <table><caption>a &amp; b</caption><thead><tr><th>x</th></tr></thead>\
<tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>
    """
    shown = [row for row, _ in zip(rows, range(_MOST_ROWS), strict=False)]
    body = "".join(_row("td", row) for row in shown)
    if count > len(shown):
        body += f'<tr><td colspan="{len(header)}">... and {count - len(shown)} more</td></tr>'
    return (
        f"<table><caption>{_escaped(caption)}</caption>"
        f"<thead>{_row('th', header)}</thead><tbody>{body}</tbody></table>"
    )


def _escaped(given: object) -> str:
    text = str(given)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text


def _row(tag: str, cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_escaped(cell)}</{tag}>" for cell in cells) + "</tr>"
