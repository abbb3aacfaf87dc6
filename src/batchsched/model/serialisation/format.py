"""Formats: plain data with a header that names the format and its version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar, cast

from attrs import AttrsInstance

from batchsched.errors import FaultsError
from batchsched.model.serialisation.shape import JsonValue, Reading
from batchsched.model.serialisation.shapes import record_of
from batchsched.model.validation.values import is_integer, is_mapping, shown

__all__ = ["Format"]

ValueT = TypeVar("ValueT", bound=AttrsInstance)

_HEADER = ("format", "version")


class Format(Generic[ValueT]):
    """The format of one class: an object with a name, a version and the fields.

    Everything else is derived from the class; see `batchsched.model.serialisation.shapes`.
    Fields that equal their default are omitted, unless `derived` is given.
    """

    def __init__(
        self,
        kind: type[ValueT],
        *,
        version: int,
        error: type[FaultsError],
        derived: Mapping[type, Sequence[str]] | None = None,
    ) -> None:
        self._kind = kind
        self._name = f"batchsched.{kind.__name__}"
        self._version = version
        self._error = error
        self._derived = derived

    def to_dict(self, value: ValueT, /) -> dict[str, JsonValue]:
        """Return a value as dicts, lists, strings and numbers only. O(size)."""
        content = record_of(self._kind).write(value, derived=self._derived)
        return {
            "format": self._name,
            "version": self._version,
            **cast("dict[str, JsonValue]", content),
        }

    def from_dict(self, given: object, /) -> ValueT:
        """Create a value from the output of `to_dict`.

        Raises:
            FaultsError: it cannot be read; all faults at once. They include those that the class
                itself reports, if all parts could be read.

        """
        reading = Reading(self._derived or {})
        if not is_mapping(given):
            reading.refuse("", f"expected an object of the format {self._name}, got {shown(given)}")
            raise self._error(reading.faults)
        self._check_header(given, reading)
        if reading.faults:
            raise self._error(reading.faults)  # it is useless to check fields of another format
        content = {name: item for name, item in given.items() if name not in _HEADER}
        arguments = record_of(self._kind).arguments(content, "", reading)
        value: ValueT | None = None
        if arguments is not None and reading.is_complete:
            try:
                value = self._kind(**arguments)
            except FaultsError as error:
                known = {fault.path for fault in reading.faults}
                reading.faults += [fault for fault in error.faults if fault.path not in known]
        if reading.faults or value is None:
            raise self._error(reading.faults)
        return value

    def _check_header(self, given: Mapping[object, object], reading: Reading) -> None:
        for name in _HEADER:
            if name not in given:
                reading.refuse(name, f"is missing; expected data of the format {self._name}")
        if reading.faults:
            return
        kind, version = given["format"], given["version"]
        if kind != self._name:
            reading.refuse("format", f"expected {self._name!r}, got {shown(kind)}")
        elif not is_integer(version) or version < 1:
            reading.refuse("version", f"expected {self._version}, got {shown(version)}")
        elif version > self._version:
            message = (
                f"expected {self._version} or less, got {version}: "
                "this was written by a newer version of batchsched; read it with that version"
            )
            reading.refuse("version", message)

    def json_schema(self) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of the output of `to_dict`."""
        definitions: dict[str, JsonValue] = {}
        described = record_of(self._kind).described(definitions)
        properties = cast("dict[str, JsonValue]", described["properties"])
        required = cast("list[JsonValue]", described["required"])
        for kind, names in (self._derived or {}).items():
            of_kind = cast("dict[str, JsonValue]", definitions[kind.__name__])
            for name in names:
                cast("dict[str, JsonValue]", of_kind["properties"])[name] = {"type": "string"}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self._name,
            **described,
            "properties": {
                "format": {"const": self._name},
                "version": {"const": self._version},
                **properties,
            },
            "required": ["format", "version", *required],
            "$defs": dict(sorted(definitions.items())),
        }
