"""Values as code, ready to paste into a test."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from math import isfinite
from operator import attrgetter
from typing import cast

from attrs import NOTHING, Attribute, AttrsInstance, fields, has

import batchsched

_WIDTH = 88
_STEP = "    "
_SHIFTS = (40, 30, 20)
_converter_of: Callable[[object], object] = attrgetter("converter")


def as_code(value: object, /, *, indent: str = "") -> str:
    """Return Python code that creates a value equal to `value`.

    Works for all data of batchsched: snapshots, their parts, configurations, results and plain
    values. The code needs the names of batchsched. Parts with default values are left out, and long
    code is split into lines.

    Args:
        value: the value to show.
        indent: the indentation of all lines but the first.

    >>> from batchsched import JobInfo, Resource, TaskInfo
    >>> task = TaskInfo(uid="t1", name="t1", resreq=Resource(milli_cpu=500, memory=1 << 30))
    >>> print(as_code(task))
    TaskInfo(uid='t1', name='t1', resreq=Resource(milli_cpu=500, memory=1 << 30))
    >>> print(as_code(JobInfo(name="j", queue="q", tasks=[task])))
    JobInfo(
        name='j',
        queue='q',
        tasks=[
            TaskInfo(uid='t1', name='t1', resreq=Resource(milli_cpu=500, memory=1 << 30)),
        ],
    )

    """
    return _show(value, indent, 0)


def _show(value: object, indent: str, used: int) -> str:
    """Show a value that begins `used` characters after the indentation of its line."""
    content = _content(value)
    if content is None:
        return _atom(value)
    opening, parts, closing = content
    shown = [(name, _show(part, indent + _STEP, len(name))) for name, part in parts]
    line = f"{opening}{', '.join(name + code for name, code in shown)}{closing}"
    if "\n" not in line and len(indent) + used + len(line) <= _WIDTH:
        return line
    lines = [f"{indent}{_STEP}{name}{code}," for name, code in shown]
    return "\n".join([opening, *lines, f"{indent}{closing.removeprefix(',')}"])


def _content(value: object) -> tuple[str, list[tuple[str, object]], str] | None:
    """Return the opening, the parts and the closing of a compound value; None for others."""
    if has(type(value)):
        return f"{type(value).__name__}(", list(_arguments(value)), ")"
    if isinstance(value, Mapping):
        content = cast("Mapping[object, object]", value)
        items = sorted(content.items(), key=lambda item: repr(item[0]))
        return "{", [(f"{_inline(key)}: ", part) for key, part in items], "}"
    if isinstance(value, list):
        return "[", [("", part) for part in cast("list[object]", value)], "]"
    if isinstance(value, tuple):
        parts = [("", part) for part in cast("tuple[object, ...]", value)]
        return "(", parts, ",)" if len(parts) == 1 else ")"
    return None


def _inline(value: object) -> str:
    return _show(value, "", -10_000)


def _arguments(value: object) -> Iterator[tuple[str, object]]:
    kind = cast("type[AttrsInstance]", type(value))
    attributes: tuple[Attribute[object], ...] = fields(kind)
    for attribute in attributes:
        if attribute.init:
            part: object = getattr(value, attribute.name)
            if not _is_default(attribute, part):
                if isinstance(part, tuple) and _converter_of(attribute) is not None:
                    part = list(cast("tuple[object, ...]", part))  # which makes a tuple of it
                yield f"{attribute.alias}=", part


def _is_default(attribute: Attribute[object], part: object) -> bool:
    default: object = attribute.default
    # A default from a Factory never compares equal, so the value is shown.
    if default is NOTHING or isinstance(part, bool) is not isinstance(default, bool):
        return False
    return part == default


def _atom(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, int) and not isinstance(value, bool):
        for shift in _SHIFTS:
            whole = value >> shift
            if whole and whole << shift == value:
                return f"{whole} << {shift}"
    if isinstance(value, float) and not isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def as_script(code: str, /, *further: str) -> str:
    """Return code preceded by the imports that it needs from batchsched.

    Args:
        code: statements.
        further: more lines to put after the import, such as other imports.

    >>> print(as_script("task = TaskInfo(uid='t', name='t')"))
    from batchsched import TaskInfo
    <BLANKLINE>
    task = TaskInfo(uid='t', name='t')

    """
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    names = sorted(used.intersection(batchsched.__all__))
    line = f"from batchsched import {', '.join(names)}"
    if len(line) > _WIDTH:
        line = "\n".join(["from batchsched import (", *(f"{_STEP}{name}," for name in names), ")"])
    return "\n".join([line, *further, "", code])
