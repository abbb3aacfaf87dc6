"""Runs the program: `python -m batchsched_cli`."""

import sys

from batchsched_cli.program import main

if __name__ == "__main__":
    sys.exit(main())
