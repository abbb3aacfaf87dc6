"""Texts for people: amounts with their units, suggestions for misspelt names, tables, `help`.

`help` shows the fields of a class that `describe` was told of, with what stands below each in its
source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc, getsource
from itertools import pairwise

_BYTES = ((1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_WHOLE = 1000
"""One cpu or device, in the unit of a `Resource`."""
_LARGEST = 1e15
"""Larger numbers are told by their first digits: no unit helps."""


def amount_text(dimension: str, amount: float, /) -> str:
    """Return an amount of one dimension as a person says it.

    `amount` is in the unit of a `Resource`: bytes of memory, otherwise thousandths.

    >>> amount_text("nvidia.com/gpu", 16000), amount_text("cpu", 1500), amount_text("cpu", 250)
    ('16 GPUs', '1.5 cpu', '250m cpu')
    >>> amount_text("memory", 3 << 39), amount_text("ephemeral-storage", 1000 << 40)
    ('1.5 TiB of memory', '1 TiB ephemeral-storage')
    """
    if dimension == "cpu" and 0 < amount < _WHOLE:
        return f"{amount:g}m cpu"
    return counted_amount(dimension, amount)


def counted_amount(dimension: str, amount: float, /) -> str:
    """Return an amount of one dimension, of cpus as a decimal: to be followed by bare numbers.

    >>> counted_amount("cpu", 250), counted_amount("nvidia.com/gpu", 1000)
    ('0.25 cpu', '1 GPU')
    """
    unit = dimension
    if dimension == "memory":
        unit = "of memory"
    elif dimension.rpartition("/")[2] == "gpu":
        unit = "GPU" if amount == _WHOLE else "GPUs"
    elif dimension == "pods":
        unit = "pod" if amount == _WHOLE else "pods"
    return f"{shown_amount(dimension, amount)} {unit}"


def amounts_text(amounts: Iterable[tuple[str, float]], /, *, with_zeros: bool = False) -> str:
    """Return amounts by dimension in one line, without those that are 0 unless these count.

    >>> amounts_text([("cpu", 2000), ("memory", 3 << 29), ("nvidia.com/gpu", 0)]), amounts_text([])
    ('2 cpu, 1.5 GiB', 'nothing')
    """
    told = (
        shown_amount(name, amount) if name == "memory" else amount_text(name, amount)
        for name, amount in amounts
        if amount or with_zeros
    )
    return ", ".join(told) or "nothing"


def shown_amount(dimension: str, amount: float, /) -> str:
    """Return an amount of a dimension as a number: of cpus or devices, or bytes with a prefix.

    >>> shown_amount("cpu", 2500), shown_amount("memory", 3 << 29), shown_amount("gpu", 8000)
    ('2.5', '1.5 GiB', '8')
    >>> shown_amount("hugepages-2Mi", 1000 << 21), shown_amount("a", 0.1), shown_amount("a", 1e60)
    ('2 MiB', '<0.001', '1e+57')
    """
    units = amount if dimension == "memory" else amount / _WHOLE
    if dimension in ("memory", "ephemeral-storage") or dimension.startswith("hugepages-"):
        for size, name in _BYTES:
            if abs(units) >= size:
                return f"{_short(units / size)} {name}"
        return f"{_short(units)} B"
    return _short(units)


def _short(number: float) -> str:
    """Return a number with at most three decimals; ``<0.001`` for smaller ones above 0."""
    if abs(number) >= _LARGEST:
        return f"{number:.3g}"
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    if text in ("0", "-0"):
        return "<0.001" if number > 0 else ">-0.001" if number else "0"
    return text


def counted(number: int, thing: str) -> str:
    """Return a number of things.

    >>> counted(1, "task"), counted(2000, "task")
    ('1 task', '2,000 tasks')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def all_of(number: int, thing: str) -> str:
    """Return all of some things.

    >>> all_of(1, "task"), all_of(2, "task"), all_of(8, "task")
    ('the task', 'both tasks', 'all 8 tasks')
    """
    if number == 1:
        return f"the {thing}"
    return f"both {thing}s" if number == 2 else f"all {number:,} {thing}s"  # noqa: PLR2004 - a pair


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> duration_text(7200), duration_text(5400), duration_text(0.5)
    ('2 h', '1 h 30 min', '0.5 s')
    """
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (name, size), (smaller, part) in pairwise(units):
        if seconds >= size:
            rest = int(seconds % size // part)
            return f"{int(seconds // size)} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds:g} s"


def level_word(level: str, number: int = 1) -> str:
    """Return what one domain of a level is called, or several are.

    >>> level_word("example.com/rack", 2), level_word("kubernetes.io/hostname")
    ('racks', 'node')
    >>> level_word("tier-1"), level_word("tier-1", 3)
    ('HyperNode of tier 1', 'HyperNodes of tier 1')
    """
    name = level.rpartition("/")[2]
    several = "" if number == 1 else "s"
    tier = name.removeprefix("tier-")
    if tier.isdecimal():  # what Volcano's tiers are called as levels
        return f"HyperNode{several} of tier {tier}"
    return f"{'node' if name == 'hostname' else name}{several}"


def first_of(names: Sequence[object], most: int) -> str:
    """Return the first of some names, and how many more there are.

    >>> first_of(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(map(str, names[:most]))}{more}"


def by_frequency(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return what is counted with its number, the most frequent first, equals by name."""
    return sorted(counts.items(), key=lambda part: (-part[1], part[0]))


_MOST_COMPARED = 10_000
"""The most names that are compared with one that is not there; more take seconds."""


def similar_name(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name that is most similar to a name, if one is. O(names x length).

    None is, if there are more than 10,000.

    Args:
        name: what was written.
        known: what might have been meant; among equally similar ones, the order counts.
        similarity: how similar it must be at least, from 0 (anything) to 1 (the same).

    >>> similar_name("unreddy", ["unready", "evictBackfill"])
    'unready'

    """
    names = list(known)
    if len(names) > _MOST_COMPARED:
        return None
    close = get_close_matches(name, names, n=1, cutoff=similarity)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether a similar name was meant, or nothing if there is none.

    A name that lacks only what stands before a slash is the most similar one.

    >>> did_you_mean("unreddy", ["unready", "evictBackfill"])
    "did you mean 'unready'?"
    >>> did_you_mean("train", ["default/train", "brain"])
    "did you mean 'default/train'?"
    """
    names = list(known)
    whole = {each.rpartition("/")[2]: each for each in reversed(names)}
    similar = whole.get(name)
    if similar is None:
        short = similar_name(name, whole)
        similar = similar_name(name, names) if short is None else whole[short]
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
    body = "".join(html_row("td", row) for row in shown)
    if count > len(shown):
        body += f'<tr><td colspan="{len(header)}">... and {count - len(shown)} more</td></tr>'
    return (
        f"<table><caption>{html_text(caption)}</caption>"
        f"<thead>{html_row('th', header)}</thead><tbody>{body}</tbody></table>"
    )


def html_text(given: object) -> str:
    """Return a value as text for HTML."""
    text = str(given)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text


def html_row(tag: str, cells: Sequence[object]) -> str:
    """Return a row of an HTML table."""
    return "<tr>" + "".join(f"<{tag}>{html_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def listed(names: Sequence[str], word: str = "and", /) -> str:
    """Return names in a sentence.

    >>> listed(["cpu"]), listed(["cpu", "memory", "GPUs"])
    ('cpu', 'cpu, memory and GPUs')
    """
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def describe_exports(module: str) -> None:
    """Describe the classes that a module exports; what it imports later does so itself."""
    itself = import_module(module)
    exported = [itself.__dict__.get(name) for name in itself.__all__]
    describe(*(each for each in exported if isinstance(each, type)))


def describe(*classes: type) -> None:
    """Add the fields of classes to their docstrings, when somebody reads these."""
    for one in classes:
        if _has_fields(one) and not isinstance(one.__dict__.get("__doc__"), _Described):
            type.__setattr__(one, "__doc__", _Described(one.__doc__ or ""))


def _has_fields(given: type) -> bool:
    return hasattr(given, "__attrs_attrs__")


class _Described:
    """A docstring that is completed when it is read first, since few ever are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._whole: str | None = None

    def __get__(self, _instance: object, owner: type) -> str:
        if self._whole is None:
            fields = [line for each in reversed(owner.__mro__) for line in _fields(each)]
            self._whole = "\n".join([cleandoc(self._text), *(["", "Fields:"] if fields else [])])
            self._whole += "".join(f"\n    {line}".rstrip(" ") for line in fields)
        return self._whole


def _fields(owner: type) -> Iterator[str]:
    """Yield the lines that tell the fields that a class has besides those of its bases."""
    import ast  # noqa: PLC0415 - only for help
    from textwrap import dedent  # noqa: PLC0415

    try:
        source = getsource(owner) if _has_fields(owner) else ""
    except (OSError, TypeError):  # there is no source where it runs
        source = ""
    body = [each for one in ast.parse(dedent(source)).body for each in getattr(one, "body", ())]
    for one, after in zip(body, [*body[1:], None], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            if one.target.id.startswith("_"):
                continue
            yield f"{one.target.id}: {ast.unparse(one.annotation)}"
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                yield from (f"    {line}" for line in cleandoc(str(after.value.value)).split("\n"))
