"""What holds of every answer of the program, whatever the cluster; the laws have their numbers."""

import html
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.dumps import DUMPS, everything, pod
from tests.support.program import run

from batchsched.tools import JobStatus

TABLES = ("jobs", "queues", "nodes")
ESCAPE = "\x1b[31m\u009b\u202e"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return a file with all systems in one cluster."""
    file = tmp_path_factory.mktemp("program") / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": everything()}))
    return file


@pytest.mark.parametrize("name", sorted(DUMPS))
def test_c1_c2_c7_the_status_says_whether_it_waits_and_all_forms_say_the_same(name, tmp_path):
    objects = DUMPS[name]()
    page = tmp_path / "page.html"
    for row in run("jobs", "--all", "--json", given=objects).data["jobs"]:
        told = run("why", row["job"], "--json", "--html", page, given=objects)
        text = run("why", row["job"], "--width", 10_000, "--all", given=objects)
        assert told.status == text.status == int(told.data["waits"]) == int(row["waits"])
        assert told.data["state"] == row["state"]
        sentence = text.lines[0]
        assert JobStatus(row["state"]).words in sentence
        assert html.escape(sentence) in page.read_text()
        assert told.data["job"] == row["job"]
        for blocker in told.data["blockers"]:
            assert blocker["name"] in text.out
            assert blocker["text"] in text.out


@pytest.fixture(scope="module")
def usual(cluster):
    """Return what the commands answer about the cluster, in the usual order."""
    return {command: run(command, "-f", cluster) for command in (*TABLES, "why")}


@pytest.mark.slow
@given(order=st.permutations(range(len(everything()))), cuts=st.integers(1, 3))
@settings(max_examples=4)
def test_c3_the_order_of_files_and_objects_changes_no_byte(order, cuts, usual, tmp_path_factory):
    folder = tmp_path_factory.mktemp("order")
    objects = everything()
    shuffled = [objects[place] for place in order]
    files = []
    for part in range(cuts):
        file = folder / f"{part}.json"
        file.write_text("\n".join(map(json.dumps, shuffled[part::cuts])))
        files += ["-f", file]
    for command, expected in usual.items():
        assert run(command, *files) == expected


@pytest.mark.parametrize(
    "width",
    [20, *(pytest.param(width, marks=pytest.mark.slow) for width in (37, 60, 80, 133))],
)
def test_c4_no_line_is_wider_than_the_width_but_for_single_words(width, cluster):
    for command in (*TABLES, "why"):
        for more in ((), ("--all",)):
            for line in run(command, "--width", width, *more, "-f", cluster).lines:
                cells = line.split()
                assert len(line) <= width or len(cells) == 1, (command, line)
    for name in ("kai-gangs/big", "kueue-waits/wait", "volcano-closed/legacy"):
        for line in run("why", name, "--width", width, "-f", cluster).lines:
            assert len(line) <= width or len(line.split()) == 1, (name, line)


@pytest.mark.parametrize("command", [*TABLES, "why"])
def test_c5_without_a_terminal_no_control_character_is_printed(command, tmp_path):
    odd = json.dumps(ESCAPE)[1:-1]
    content = json.dumps(everything()).replace("legacy", f"le{odd}gacy").replace('"n1"', f'"{odd}"')
    objects = [*json.loads(content), pod(f"odd{ESCAPE}\ud800", cpu=900, scheduler="volcano")]
    ended = run(command, "--html", tmp_path / "page.html", given=objects)
    assert ended.status < 2
    for text in (run(command, given=objects).out, (tmp_path / "page.html").read_text()):
        assert ESCAPE[0] not in text
        assert all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize(
    "words",
    [
        *(pytest.param(words, marks=pytest.mark.slow) for words in ((), ("--width", 60))),
        ("-n", "kai-gangs"),
        ("-n", "volcano-closed"),
    ],
)
def test_c6_a_job_of_the_table_is_found_under_the_name_that_is_printed(words, cluster):
    table = run("jobs", "--all", *words, "-f", cluster)
    data = run("jobs", "--all", "--json", *words, "-f", cluster).data["jobs"]
    assert data
    start, end = (table.lines[1].index(title) for title in ("JOB", "QUEUE"))
    for line, row in zip(table.lines[2:], data, strict=False):
        name = line[start:end].strip()
        assert run("why", name, "--json", *words, "-f", cluster).data["job"] == row["job"], name


# C10: no input gives a traceback. What is not caught would leave `main`.


def unharmed(content, *commands):
    """Run commands on any content; each ends with a status, and each fault is one line."""
    for command in commands or (*TABLES, "why"):
        ended = run(command, given=content)
        assert ended.status in (0, 1, 2)
        if ended.status == 2:
            assert ended.err
            assert all(
                line.startswith(("batchsched: ", "note: ")) for line in ended.err.splitlines()
            )


@given(st.binary(max_size=200))
def test_c10_random_bytes_are_refused(content):
    unharmed(content, "why")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES)
def test_c10_any_json_is_answered_or_refused(value):
    unharmed(json.dumps(value).encode(), "why")


PLACES = [
    (place, path)
    for place, each in enumerate(everything())
    for path in [("apiVersion",), ("kind",), ("metadata",), ("spec",), ("status",)]
]


@given(st.sampled_from(PLACES), VALUES)
@settings(max_examples=40)
def test_c10_any_value_in_a_dump_is_answered_or_refused(place, value):
    objects = everything()
    position, path = place
    objects[position] = {**objects[position], path[0]: value}
    unharmed(json.dumps({"kind": "List", "items": objects}).encode(), "jobs")


@given(VALUES | st.dictionaries(st.sampled_from(["actions", "tiers", "kind", "data"]), VALUES))
@settings(max_examples=60)
def test_c10_any_configuration_is_used_or_refused(value):
    with TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(value))
        ended = run("jobs", "-c", file, given=DUMPS["native_gated"]())
    assert ended.status in (0, 2)


@given(st.integers(0, 3000), st.sampled_from(sorted(DUMPS)))
@settings(max_examples=50)
def test_c10_cut_files_are_answered_or_refused(end, name):
    unharmed(json.dumps(DUMPS[name]()[0]).encode()[:end], "why")


@given(
    st.lists(
        st.sampled_from(["why", "jobs", "--json", "--width", "-f", "-", "--", "x", "-n", "--by"])
    )
)
def test_c10_any_words_end_with_a_status(words):
    ended = run(*words, given=b"{}")
    assert ended.status in (0, 1, 2)
    assert re.fullmatch(r"(batchsched: .*\n)*", ended.err) or ended.status != 2
