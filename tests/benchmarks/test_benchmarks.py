import json
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import asdict, evolve
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import DEFAULT, FAST, engine, engines, plain_loop, run
from benchmarks.digests import Digests, WrongDecisionsError
from benchmarks.hot import HOW_MANY, table
from benchmarks.measurement import SCALES, EngineMeasurement, Options, Ratio, measure, source_digest
from benchmarks.raw import measurement_of
from benchmarks.replay import record, replay
from benchmarks.report import report
from benchmarks.targets import TARGETS
from benchmarks.workloads.simulation import simulation

import batchsched

pytestmark = pytest.mark.slow

TINY = SCALES[0]
NAMES = list(WORKLOADS)
SHORT = Options(scale=TINY, rounds=1, plain_rounds=1, plain_limit=0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine_name", [DEFAULT, FAST])
def test_the_engines_decide_what_is_stored(name, engine_name):
    by_engine = run(WORKLOADS[name].make(TINY), engines()[engine_name])
    Digests().check(name, TINY, by_engine)


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_loop_decides_what_is_stored(name):
    Digests().check(name, TINY, run(WORKLOADS[name].make(TINY), plain_loop))


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_the_same_whenever_it_is_made(name):
    assert WORKLOADS[name].make(TINY).snapshot == WORKLOADS[name].make(TINY).snapshot


@pytest.mark.parametrize("name", NAMES)
def test_the_replay_ends_in_the_same_state_as_what_it_replays(name):
    scenario = WORKLOADS[name].make(TINY)
    recording = record(scenario)
    assert recording.run.digest == run(scenario, engine).digest
    assert replay(scenario, recording).digest == recording.run.digest


def test_a_replay_notes_what_a_queue_held_when_it_was_skipped():
    """In this history an eviction changes that in the same cycle, and reasons say what was held."""
    scenario = simulation(
        1, nodes=5, tasks=30, cycles=11, actions="reclaim, allocate, backfill, preempt", seed=28
    )
    recording = record(scenario)
    assert replay(scenario, recording).digest == recording.run.digest


def test_a_run_is_measured_in_all_its_parts():
    measured = run(WORKLOADS["busy"].make(TINY), engine)
    parts = ["open", "reclaim", "allocate", "backfill", "preempt", "close"]
    assert list(measured.parts) == parts
    assert measured.seconds == pytest.approx(sum(measured.parts.values()))


def test_a_time_with_wrong_decisions_is_not_trusted(tmp_path):
    path = tmp_path / "digests.json"
    measured = run(WORKLOADS["gangs-1000"].make(TINY), engine)
    with pytest.raises(WrongDecisionsError, match="is not stored"):
        Digests(path=path).check("gangs", 1, measured)
    Digests(path=path, is_update=True).check("gangs", 1, measured)
    Digests(path=path).check("gangs", 1, measured)
    path.write_text(json.dumps({"gangs at 1": "another"}))
    with pytest.raises(WrongDecisionsError, match="is not the stored one"):
        Digests(path=path).check("gangs", 1, measured)


def test_both_engines_are_measured_and_reported_in_full():
    measured = measure(WORKLOADS["gangs-10000"], SHORT, Digests())
    assert list(measured.engines) == [DEFAULT, FAST]
    assert all(each.growth is not None for each in measured.engines.values())
    assert measured.engines[DEFAULT].to_default == Ratio(rounds=(1.0,))
    tables = report({measured.name: measured}, {"machine": "any"})
    assert tables.count("\n| `gangs-10000` |") == 2
    assert tables.count("\n| `gangs-10000`, `fast` |") == 2
    targets = tables.partition("## Targets")[2]
    assert targets.count("reached") + targets.count("missed") == 2 * 4


def test_without_numpy_there_are_dashes(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    for name in ("batchsched.fast", "batchsched.placement.arrays"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert list(engines()) == [DEFAULT]
    measured = measure(WORKLOADS["gangs-1000"], SHORT, Digests())
    tables = report({measured.name: measured}, {"machine": "any"})
    rows = [line for line in tables.splitlines() if line.startswith("| `gangs-1000`, `fast` |")]
    assert [set(row.split(" | ")[1:-1]) for row in rows] == [{"–"}] * 2  # noqa: RUF001
    (target,) = [line for line in tables.splitlines() if line.startswith("| (b)")]
    assert target.endswith("| – | – |")  # noqa: RUF001


def test_the_default_engine_is_measured_for_its_memory_without_numpy():
    program = (
        "import sys, json; from benchmarks.worker import peak_memory\n"
        f"at_default = peak_memory('gangs-1000', {TINY}, '{DEFAULT}'), 'numpy' in sys.modules\n"
        f"with_fast = peak_memory('gangs-1000', {TINY}, '{FAST}'), 'numpy' in sys.modules\n"
        "print(json.dumps([at_default, with_fast]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
    )
    (at_default, is_before), (with_fast, is_after) = json.loads(done.stdout)
    assert 0 < at_default < with_fast
    assert (is_before, is_after) == (False, True)


def test_the_plain_loop_runs_once_where_it_takes_long():
    several = evolve(SHORT, plain_rounds=2)
    measured = measure(WORKLOADS["gangs-1000"], several, Digests())
    assert len(measured.plain_seconds) == len(measured.engines[FAST].plain.rounds) == 2
    measured = measure(WORKLOADS["gangs-1000"], evolve(several, plain_once=0.0), Digests())
    assert len(measured.plain_seconds) == len(measured.engines[FAST].plain.rounds) == 1


def test_the_largest_scale_is_taken_at_which_the_plain_loop_ends_in_time():
    options = evolve(SHORT, scale=SCALES[2], plain_limit=1000.0)
    measured = measure(WORKLOADS["gangs-1000"], options, Digests())
    assert measured.plain_scale == SCALES[2]
    assert measure(WORKLOADS["gangs-1000"], SHORT, Digests()).plain_scale == TINY


def test_both_readings_of_a_target_and_why_one_cannot_be_small_are_told():
    measured = measure(WORKLOADS["busy"], SHORT, Digests())
    assert all(len(each.allocate_alone) == 1 for each in measured.engines.values())
    tables = report({measured.name: measured}, {"machine": "any"})
    assert "allocate's in the same cycle (see below)" in tables
    assert "allocate's in a cycle without them (not asked for) (see below)" in tables
    assert tables.count("\n- ") >= 2
    assert "cannot be small" in tables


def test_a_measurement_survives_being_written():
    measured = measure(WORKLOADS["nothing-fits"], SHORT, Digests())
    assert all(isinstance(each, EngineMeasurement) for each in measured.engines.values())
    assert measurement_of(json.loads(json.dumps(asdict(measured)))) == measured


def test_rows_of_different_sources_are_not_to_be_compared():
    measured = measure(WORKLOADS["gangs-1000"], SHORT, Digests())
    other = evolve(measured, name="openb", source="another")
    warning = "do not compare them"
    assert warning in report({"gangs-1000": measured, "openb": other}, {})
    assert warning not in report({"gangs-1000": measured}, {})


def test_what_is_not_run_is_not_part_of_the_source(monkeypatch, tmp_path):
    library = tmp_path / "batchsched"
    (library / "testing").mkdir(parents=True)
    (library / "__init__.py").write_text("")
    monkeypatch.setattr(batchsched, "__file__", str(library / "__init__.py"))
    before = source_digest()
    (library / "testing" / "laws.py").write_text("")
    assert source_digest() == before
    (library / "ledger.py").write_text("")
    assert source_digest() != before


def test_every_target_is_one_of_a_workload_that_there_is():
    assert {target.workload for target in TARGETS} <= set(WORKLOADS)


def test_hot_functions_are_named_with_their_classes():
    rows = table("gangs-1000", DEFAULT, TINY)
    assert "| `state/ledger.py`: `Ledger.move` |" in rows
    assert rows.count("\n|") == 2 + HOW_MANY
    assert "extra `fast`" in table("gangs-1000", FAST, TINY)


def test_rounds_are_at_least_one() -> None:
    asked = [sys.executable, "-m", "benchmarks", "--plain-rounds", "0"]
    done = subprocess.run(
        asked, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 2
    assert "--plain-rounds: expected a whole number, at least 1; got 0" in done.stderr
