"""Raw results: measurements as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import fields

from benchmarks.cycle import Run
from benchmarks.measurement import EngineMeasurement, Measurement, Options, Ratio

__all__ = ["measurement_of"]


def measurement_of(raw: Mapping[str, Any]) -> Measurement:
    """Return the measurement that was written as `raw`."""
    known = {field.name for field in fields(Measurement)}
    content = {name: value for name, value in raw.items() if name in known}
    content["replays"] = tuple(Run(**run) for run in content["replays"])
    for name in ("snapshot_seconds", "plain_seconds"):
        content[name] = tuple(content[name])
    content["engines"] = {name: _engine_of(each) for name, each in content["engines"].items()}
    content["options"] = Options(**content["options"])
    return Measurement(**content)


def _engine_of(raw: Mapping[str, Any]) -> EngineMeasurement:
    content = dict(raw)
    content["runs"] = tuple(Run(**run) for run in content["runs"])
    content["allocate_alone"] = tuple(content["allocate_alone"])
    for name in ("replay_cycle", "replay_actions", "to_default", "plain", "growth"):
        if content[name] is not None:
            content[name] = Ratio(rounds=tuple(content[name]["rounds"]))
    return EngineMeasurement(**content)
