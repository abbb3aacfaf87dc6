"""Converts values to plain data for JSON and back, as derived from their classes."""

from batchsched.model.serialisation.format import Format
from batchsched.model.serialisation.shape import JsonValue

__all__ = ["Format", "JsonValue"]
