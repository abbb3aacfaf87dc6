"""Texts for people: amounts with their units, suggestions for misspelt names, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP = 1024


def is_in_bytes(dimension: str, /) -> bool:
    """Return whether a dimension is counted in bytes: memory, ephemeral storage, huge pages."""
    return dimension in ("memory", "ephemeral-storage") or dimension.startswith("hugepages-")


def amount_text(dimension: str, amount: float, /) -> str:
    """Return an amount of a dimension with its unit.

    `amount` is in the unit of a `Resource`: bytes of memory, otherwise thousandths.

    >>> amount_text("cpu", 1500), amount_text("nvidia.com/gpu", 2000)
    ('1.5 cpu', '2 nvidia.com/gpu')
    >>> amount_text("memory", 3 << 29), amount_text("ephemeral-storage", 5 * 2**30 * 1000)
    ('1.5 GiB memory', '5 GiB ephemeral-storage')
    """
    units = amount if dimension == "memory" else amount / 1000
    if not is_in_bytes(dimension):
        return f"{_number(units)} {dimension}"
    power = 0
    while abs(units) >= _STEP and power < len(_BINARY) - 1:
        units /= _STEP
        power += 1
    return f"{_number(units)} {_BINARY[power]} {dimension}"


def amounts_text(amounts: Iterable[tuple[str, float]], /) -> str:
    """Return amounts by dimension in one line, without those that are 0.

    >>> amounts_text([("cpu", 2000), ("memory", 0), ("nvidia.com/gpu", 1000)]), amounts_text([])
    ('2 cpu, 1 nvidia.com/gpu', 'nothing')
    """
    return ", ".join(amount_text(name, amount) for name, amount in amounts if amount) or "nothing"


def _number(amount: float) -> str:
    """Return a number with at most three decimals; ``<0.001`` for smaller amounts above 0."""
    rounded = round(float(amount), 3)
    if not rounded and amount:
        return "<0.001" if amount > 0 else ">-0.001"
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


_BYTES = ((1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def shown_amount(dimension: str, amount: float, /) -> str:
    """Return an amount of a dimension as text: in cpus or devices, or in bytes with a prefix.

    >>> shown_amount("cpu", 2500), shown_amount("memory", 3 << 29), shown_amount("gpu", 8000)
    ('2.5', '1.5 GiB', '8')
    """
    if dimension != "memory":
        return _short(amount / 1000)
    for size, name in _BYTES:
        if abs(amount) >= size:
            return f"{_short(amount / size)} {name}"
    return f"{_short(amount)} B"


def _short(amount: float) -> str:
    text = f"{amount:.3f}".rstrip("0").rstrip(".")
    return text if text not in ("-0", "") else "0"


def similar_name(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name that is most similar to a name, if one is. O(names x length).

    Args:
        name: what was written.
        known: what might have been meant; among equally similar ones, the order counts.
        similarity: how similar it must be at least, from 0 (anything) to 1 (the same).

    >>> similar_name("unreddy", ["unready", "evictBackfill"])
    'unready'

    """
    close = get_close_matches(name, list(known), n=1, cutoff=similarity)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether a similar name was meant, or nothing if there is none.

    >>> did_you_mean("unreddy", ["unready", "evictBackfill"])
    "did you mean 'unready'?"
    """
    similar = similar_name(name, known)
    return "" if similar is None else f"did you mean {similar!r}?"


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
