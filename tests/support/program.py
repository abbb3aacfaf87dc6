"""Runs the program in this process, as a terminal would, on files or on standard input."""

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from typing import NamedTuple
from unittest.mock import patch

from batchsched_cli.program import main


class Ended(NamedTuple):
    """What the program printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def data(self):
        """The answer as JSON."""
        return json.loads(self.out)

    @property
    def lines(self):
        """The lines of the answer."""
        return self.out.splitlines()


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        """Return that it is one."""
        return True


def run(*words, given=None, terminal=False):
    """Run the program; `given` is on its standard input: bytes, or objects of a dump."""
    content = given
    if given is not None and not isinstance(given, bytes):
        content = json.dumps({"kind": "List", "apiVersion": "v1", "items": given}).encode()
    stdin = Terminal() if content is None else TextIOWrapper(BytesIO(content))
    out, err = Terminal() if terminal else StringIO(), StringIO()
    with patch.object(sys, "stdin", stdin), redirect_stdout(out), redirect_stderr(err):
        status = main([str(word) for word in words])
    return Ended(status, out.getvalue(), err.getvalue())
