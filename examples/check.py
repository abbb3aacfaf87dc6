"""What can a configuration never do? Each finding is shown on a cluster of at most three jobs.

python examples/check.py --config scheduler.yaml [cluster.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from textwrap import fill

from batchsched import check_config
from cluster_files import parser_for, read_cluster, read_config, run


def wrapped(text: str) -> str:
    """Return a text in lines of at most 100 characters."""
    return fill(text, width=100, initial_indent="  ", subsequent_indent="    ")


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    parser = parser_for("What can a configuration never do?", "0 without findings; 1 with some")
    for action in parser._actions:
        if action.dest == "cluster":
            action.nargs = "*"
            action.required = False
    arguments = parser.parse_args(argv)

    def answer() -> int:
        snapshot = read_cluster(arguments) if arguments.cluster else None
        findings = check_config(read_config(arguments.config), snapshot)
        if arguments.json:
            print(json.dumps([finding.to_dict() for finding in findings], indent=1))
            return int(bool(findings))
        for finding in findings:
            print(f"{finding.code} at {finding.place}")
            print(wrapped(finding.consequence))
            print(wrapped(f"advice: {finding.advice}"))
            if finding.shows_on_yours is not None:
                does = "makes a difference" if finding.shows_on_yours else "changes nothing now"
                print(f"  on this cluster it {does}")
        print(f"{len(findings)} finding(s)")
        return int(bool(findings))

    return run(answer)


if __name__ == "__main__":
    sys.exit(main())
