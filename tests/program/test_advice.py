"""What `why` advises, `what-if` confirms, in words that follow from the advice (law C8)."""

import re

import pytest
from tests.support.dumps import DUMPS
from tests.support.program import run
from tests.support.shown_dumps import DUMPS as SHOWN

WORDS = (
    (r"(\d+) more nodes? like (\S+)", "add-node {1}x{0}"),
    (r"end job (\S+)", "end {0}"),
    (r"job (\S+): minimum (\d+) instead of .*", "job {0} min={1}"),
    (r"job (\S+): priority (\d+) instead of .*", "job {0} priority={1}"),
    (r"queue (\S+): limit (\d+) GPUs instead of .*", "queue {0} limit.gpu={1}"),
    (r"release: .*|its (?:group|queue) .*", "release {job}"),
)
"""Kinds of advice, and the words for `what-if`."""


def words_of(advice, job):
    for pattern, words in WORDS:
        found = re.fullmatch(pattern, advice)
        if found is not None:
            return words.format(*found.groups(), job=job).split()
    raise AssertionError(f"no words are known for the advice {advice!r}")


@pytest.mark.parametrize("make", [*DUMPS.values(), *SHOWN.values()], ids=lambda make: make.__name__)
def test_no_change_is_advised_that_what_if_does_not_confirm(make):
    for standing in run("jobs", "--json", "--all", given=make()).data["jobs"]:
        if not standing["waits"]:
            continue
        job = standing["job"]
        told = run("why", job, "--json", given=make())
        assert told.status == 1
        for advice in told.data["would_start"]:
            ended = run("what-if", *words_of(advice, job), "--json", given=make())
            assert ended.status == 1, advice
            changes = ended.data["difference"]["changes"]
            started = {each["job"] for each in changes if each["kind"] == "starts"}
            assert job in started, advice
