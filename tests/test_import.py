"""What `import batchsched` loads, and what it loads only once it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import batchsched


def in_a_fresh_process(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def test_data_alone_loads_no_scheduler() -> None:
    program = (
        "import sys, batchsched\n"
        "batchsched.Snapshot(queues=[batchsched.Queue(name='q')])\n"
        "names = {name.split('.')[1] for name in sys.modules if name.startswith('batchsched.')}\n"
        "print(*sorted(names))"
    )
    assert in_a_fresh_process(program) == "causes errors model"


def test_a_scheduler_loads_neither_tools_nor_transitions_nor_what_comes_with_an_extra() -> None:
    program = (
        "import sys, batchsched\n"
        "batchsched.schedule(batchsched.Snapshot(queues=[batchsched.Queue(name='q')]))\n"
        "late = ('tools', 'simulation', 'kubernetes', 'live', 'transition')\n"
        "late = ['batchsched.' + name for name in late]\n"
        "print([name for name in [*late, 'numpy', 'hypothesis'] if name in sys.modules])"
    )
    assert in_a_fresh_process(program) == "[]"


def test_a_plugin_or_an_action_is_loaded_by_the_configuration_that_names_it() -> None:
    program = (
        "import sys, batchsched\n"
        "def loaded():\n"
        "    names = [name.split('.') for name in sys.modules if name.startswith('batchsched.')]\n"
        "    return {name[2] for name in names if name[1:2] in (['plugins'], ['actions'])"
        " and name[2:]}\n"
        "assert loaded() == set(), loaded()\n"
        "config = {'actions': 'plan', 'tiers': [{'plugins': ['gang']}]}\n"
        "batchsched.Scheduler(batchsched.SchedulerConfig.from_mapping(config))\n"
        "print(*sorted(loaded()))"
    )
    loaded = in_a_fresh_process(program).split()
    assert {"plan", "gang"} <= set(loaded)
    assert not {"capacity", "topology", "allocate", "reclaim"} & set(loaded)


def test_importing_the_library_loads_few_modules_and_a_first_cycle_not_many_more() -> None:
    program = (
        "import sys, batchsched\n"
        "def loaded():\n"
        "    return sum(name.partition('.')[0] == 'batchsched' for name in sys.modules)\n"
        "print(loaded())\n"
        "batchsched.schedule(batchsched.Snapshot(queues=[batchsched.Queue(name='q')]))\n"
        "print(loaded())"
    )
    at_import, after_a_cycle = map(int, in_a_fresh_process(program).split())
    assert at_import <= 24
    assert after_a_cycle <= 110


@pytest.mark.slow
def test_every_public_name_is_found_and_listed() -> None:
    program = (
        "import batchsched\n"
        "assert set(batchsched.__all__) <= set(dir(batchsched))\n"
        "print([name for name in batchsched.__all__ if not hasattr(batchsched, name)])"
    )
    assert in_a_fresh_process(program) == "[]"
    assert in_a_fresh_process("from batchsched import *; print(explain.__module__)").startswith(
        "batchsched.tools"
    )
    for used in ("tools.Recorder", "live.Cluster", "devices.Device", "trace.Teller"):
        assert in_a_fresh_process(f"import batchsched; print(batchsched.{used})")
    for module in ("live", "tools"):
        program = (
            f"from batchsched import {module} as module\n"
            "assert set(module.__all__) <= set(dir(module))\n"
            "print([name for name in module.__all__ if not hasattr(module, name)])"
        )
        assert in_a_fresh_process(program) == "[]"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'batchsched' has no attribute 'explode'"):
        _ = batchsched.explode  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match=r"module 'batchsched.live' has no attribute 'explode'"
    ):
        _ = batchsched.live.explode  # type: ignore[attr-defined]
