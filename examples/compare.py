"""What would another configuration do? Prints changed outcomes and the first difference.

python examples/compare.py cluster.json --config now.yaml --other new.yaml
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from batchsched import compare
from cluster_files import parser_for, read_cluster, read_config, run, show


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    parser = parser_for(
        "What would another configuration do?", "0 if the same; 1 if anything differs"
    )
    parser.add_argument("--other", required=True, metavar="FILE", help="the other configuration")
    arguments = parser.parse_args(argv)

    def answer() -> int:
        snapshot = read_cluster(arguments)
        before, after = read_config(arguments.config), read_config(arguments.other)
        comparison = compare(before, after, snapshot)
        show(comparison, as_json=arguments.json)
        return int(not comparison.is_same)

    return run(answer)


if __name__ == "__main__":
    sys.exit(main())
