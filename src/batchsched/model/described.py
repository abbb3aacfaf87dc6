"""Lets `help` show the fields of a class, with what stands below each in its source."""

from __future__ import annotations

from inspect import cleandoc, getsource


def describe(*classes: type) -> None:
    """Add the fields of classes to their docstrings, when somebody reads these."""
    for one in classes:
        if hasattr(one, "__attrs_attrs__"):
            type.__setattr__(one, "__doc__", _Described(one.__doc__ or ""))


class _Described:
    """A docstring that is completed when it is read first, since few ever are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._whole: str | None = None

    def __get__(self, _instance: object, owner: type) -> str:
        if self._whole is None:
            self._whole = cleandoc(self._text) + _fields(owner)
        return self._whole


def _fields(owner: type) -> str:
    import ast  # noqa: PLC0415 - only for help
    from textwrap import dedent, indent  # noqa: PLC0415

    try:
        (defined,) = ast.parse(dedent(getsource(owner))).body
    except (OSError, TypeError, SyntaxError):  # there is no source where it runs
        return ""
    assert isinstance(defined, ast.ClassDef)
    told: list[str] = []
    for one, after in zip(defined.body, [*defined.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name = one.target.id
            if not name.startswith("_"):
                told.append(f"{name}: {ast.unparse(one.annotation)}")
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    told.append(indent(cleandoc(str(after.value.value)), "    "))
    return "\n\n" + "\n".join(["Fields:", *(indent(each, "    ") for each in told)]) if told else ""
