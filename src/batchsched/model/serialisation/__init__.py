"""Values of batchsched as plain data, ready for JSON, and back: derived from their classes."""

from batchsched.model.serialisation.format import Format
from batchsched.model.serialisation.shape import JsonValue

__all__ = ["Format", "JsonValue"]
