"""The program as a process: how it starts, and how it ends. (Each process costs time: few do.)"""

import json
import os
import subprocess
import sys

import pytest
from tests.support.dumps import everything
from tests.support.program import run

from batchsched_cli.arguments import KUBECTL
from batchsched_cli.program import main

RUN = [sys.executable, "-m", "batchsched_cli"]


def test_help_does_not_wait_for_the_library():
    code = (
        "import sys; from batchsched_cli.program import main; status = main(['--help']);"
        "print(status, sorted({'batchsched', 'attr', 'json', 'difflib'} & sys.modules.keys()))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert ended.stdout.splitlines()[-1] == "0 []"
    assert max(map(len, ended.stdout.splitlines()[:-2])) <= 132


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly():
    items = [
        each
        | {
            "metadata": each["metadata"]
            | {
                "name": f"{each['metadata']['name']}-{copy}",
                "uid": f"{each['metadata'].get('uid')}-{copy}",
            }
        }
        for copy in range(9)
        for each in everything()
        if each["kind"] == "Node"
    ]
    process = subprocess.Popen(
        [*RUN, "nodes", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()  # the reader is gone before the answer comes
    process.stdin.write(json.dumps({"items": items}).encode())
    process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


class Interrupted:
    """An input at which somebody interrupts the program."""

    buffer = property(lambda self: self)

    def isatty(self):
        return False

    def read(self):
        raise KeyboardInterrupt


def test_an_interrupt_ends_it_with_130(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert main(["jobs"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
def test_closed_and_full_streams_end_it_without_a_traceback():
    command = " ".join(RUN)
    script = f"{command} nodes <&-; echo $?; {command} --help >/dev/full; echo $?"
    ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
    assert ended.stdout.split() == ["2", "2"]
    assert ended.stderr.splitlines() == [
        "batchsched: standard input: there are no objects",
        "batchsched: standard output: No space left on device",
    ]


def test_the_line_that_makes_a_dump_takes_all_kinds_that_are_read(tmp_path):
    read = ["nodes", "pods", "namespaces", "jobs.batch", "jobs.batch.volcano.sh"]
    read += [f"podgroups.scheduling.{group}" for group in ("k8s.io", "volcano.sh", "run.ai")]
    read += ["compositepodgroups.scheduling.k8s.io", "priorityclasses.scheduling.k8s.io"]
    read += ["queues.scheduling.volcano.sh", "bindrequests.scheduling.run.ai"]
    read += ["hypernodes.topology.volcano.sh", "topologies.kai.scheduler"]
    of_devices = ("slices", "claims", "claimtemplates")
    read += [f"resource{kind}.resource.k8s.io" for kind in of_devices]
    read += ["deviceclasses.resource.k8s.io"]
    kinds = ("workloads", "localqueues", "clusterqueues", "cohorts", "workloadpriorityclasses")
    kinds += ("resourceflavors", "topologies")
    read += [f"{kind}.kueue.x-k8s.io" for kind in kinds]
    others = ["secrets", "configmaps", "podmonitors.monitoring.coreos.com", "cronjobs.batch"]
    kubectl = tmp_path / "kubectl"
    printed = "\n".join([*read, *others])
    kubectl.write_text(
        f'#!/bin/sh\nif [ "$1" = api-resources ]; then echo "{printed}"; else echo "$2"; fi\n'
    )
    kubectl.chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", KUBECTL], check=True, cwd=tmp_path, env=path)
    assert (tmp_path / "cluster.json").read_text().split() == read


@pytest.mark.slow
def test_names_that_the_encoding_lacks_are_printed_as_well_as_it_can():
    given = json.dumps([each for each in everything() if each["kind"] == "Node"])
    given = f'{{"items": {given.replace("cpu-only", "größe-節点")}}}'
    ended = subprocess.run(
        [*RUN, "nodes"],
        check=False,
        input=given.encode(),
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (ended.returncode, b"gr??e-??" in ended.stdout) == (0, True)


def test_help_is_a_command_too():
    assert run("help") == run("--help")
    assert run("help", "why") == run("why", "--help")
    assert run("help").status == 0
