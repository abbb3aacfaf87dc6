"""What can a configuration never do? Each finding is shown on a cluster of at most three jobs.

python examples/check.py --config scheduler.yaml [cluster.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from textwrap import fill

from batchsched import SchedulerConfig, check_config
from batchsched.tools import Finding
from cluster_files import config_content, parser_for, read_cluster, run

SCREEN = 50
"""At most this many lines are printed; further findings are only named."""


def wrapped(text: str) -> str:
    """Break a string into lines of at most 100 characters."""
    return fill(text, width=100, initial_indent="  ", subsequent_indent="    ")


def told(finding: Finding) -> list[str]:
    """Return a finding in a few lines."""
    lines = [f"{finding.code} at {finding.place}", *wrapped(finding.consequence).splitlines()]
    lines += wrapped(f"advice: {finding.advice}").splitlines()
    if finding.shows_on_yours is not None:
        does = "makes a difference" if finding.shows_on_yours else "changes nothing now"
        lines.append(f"  on this cluster it {does}")
    return lines


def report(findings: Sequence[Finding]) -> list[str]:
    """Return at most one screen of findings: the first ones in full, of the others the codes."""
    lines: list[str] = []
    for position, finding in enumerate(findings):
        left = findings[position:]
        if len(lines) + len(told(finding)) + 4 > SCREEN:
            also = ", ".join(other.code for other in left)
            lines += [f"and {len(left)} more (--json tells all)", *wrapped(also).splitlines()[:3]]
            break
        lines += told(finding)
    return [*lines, f"{len(findings)} finding(s)"]


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
        content = None if arguments.config is None else config_content(arguments.config)
        if content is None:
            findings = check_config(SchedulerConfig(), snapshot)
        elif "format" in content:
            findings = check_config(SchedulerConfig.from_dict(content), snapshot)
        else:
            findings = check_config(content, snapshot)
        if arguments.json:
            print(json.dumps([finding.to_dict() for finding in findings], indent=1))
        else:
            print("\n".join(report(findings)))
        return int(bool(findings))

    return run(answer)


if __name__ == "__main__":
    sys.exit(main())
