"""Lets `help` show the fields of a class, with what stands below each in its source."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc, getsource


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
