"""Why does my job wait? Prints its place, why no node fits, and what would start it.

kubectl get nodes,pods,podgroups,queues -A -o json > cluster.json
python examples/why.py cluster.json --job training/bert
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from batchsched import Scheduler, explain
from cluster_files import job_named, parser_for, read_cluster, read_config, run, show


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    parser = parser_for("Why does my job wait?", "0 if it does not wait; 1 if it does")
    parser.add_argument("--job", required=True, help="a job or task, by UID or name")
    arguments = parser.parse_args(argv)

    def answer() -> int:
        snapshot, config = read_cluster(arguments), read_config(arguments.config)
        uid = job_named(snapshot, arguments.job)
        result = Scheduler(config).schedule(snapshot)
        explanation = explain(snapshot, result, uid, config=config)
        show(explanation, as_json=arguments.json)
        return int(explanation.task is not None)

    return run(answer)


if __name__ == "__main__":
    sys.exit(main())
