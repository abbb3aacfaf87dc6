import json

import pytest
from attrs import asdict
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import engine, plain_loop, run
from benchmarks.digests import Digests, WrongDecisionsError
from benchmarks.measurement import SCALES, Options, measure
from benchmarks.raw import measurement_of
from benchmarks.replay import record, replay
from benchmarks.report import report
from benchmarks.targets import TARGETS

TINY = SCALES[0]
NAMES = list(WORKLOADS)


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_decides_what_is_stored_and_what_the_plain_loop_decides(name):
    scenario = WORKLOADS[name].make(TINY)
    by_engine = run(scenario, engine)
    Digests().check(name, TINY, by_engine)
    assert by_engine.digest == run(scenario, plain_loop).digest


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_the_same_whenever_it_is_made(name):
    assert WORKLOADS[name].make(TINY).snapshot == WORKLOADS[name].make(TINY).snapshot


@pytest.mark.parametrize("name", NAMES)
def test_the_replay_ends_in_the_same_state_as_what_it_replays(name):
    scenario = WORKLOADS[name].make(TINY)
    recording = record(scenario)
    assert recording.run.digest == run(scenario, engine).digest
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


def test_a_measurement_is_reported_in_full():
    options = Options(scale=TINY, rounds=1, plain_rounds=1, plain_limit=0.0)
    measured = measure(WORKLOADS["gangs-10000"], options, Digests())
    assert measured.growth is not None
    tables = report({measured.name: measured}, {"machine": "any"})
    assert "`gangs-10000`" in tables
    assert tables.count("reached") + tables.count("missed") == 4


def test_a_measurement_survives_being_written():
    options = Options(scale=TINY, rounds=1, plain_rounds=1, plain_limit=0.0)
    measured = measure(WORKLOADS["nothing-fits"], options, Digests())
    assert measurement_of(json.loads(json.dumps(asdict(measured)))) == measured


def test_every_target_is_one_of_a_workload_that_there_is():
    assert {target.workload for target in TARGETS} <= set(WORKLOADS)
