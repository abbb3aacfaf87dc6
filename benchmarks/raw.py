"""Raw results: measurements as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import fields

from benchmarks.cycle import Run
from benchmarks.measurement import Measurement, Options, Ratio

__all__ = ["measurement_of"]


def measurement_of(raw: Mapping[str, Any]) -> Measurement:
    """Return the measurement that was written as `raw`."""
    known = {field.name for field in fields(Measurement)}
    content = {name: value for name, value in raw.items() if name in known}
    for name in ("runs", "replays"):
        content[name] = tuple(Run(**run) for run in content[name])
    for name in ("snapshot_seconds", "plain_seconds", "allocate_alone"):
        content[name] = tuple(content[name])
    for name in ("replay_cycle", "replay_actions", "plain", "growth"):
        if content[name] is not None:
            content[name] = Ratio(rounds=tuple(content[name]["rounds"]))
    content["options"] = Options(**content["options"])
    return Measurement(**content)
