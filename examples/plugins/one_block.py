"""Sets of candidate nodes: a job with the label ``one-block`` is placed within one block of nodes.

The tightest block with room goes first; a job that has tasks somewhere stays in their block.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from batchsched import Arguments
from batchsched.plugin import Need, NodeSet, NodeState, SessionView, Stage


@frozen
class OneBlock:
    """Keeps jobs within one block."""

    label: str = "block"

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> OneBlock:
        """Read ``label``, the node label whose value names the block."""
        return cls(arguments.text("label", default="block"))

    def open(self, view: SessionView, /) -> OpenOneBlock:
        """Open for one cycle."""
        return OpenOneBlock(self.label, view)


class OpenOneBlock:
    """Offers one block after the other."""

    def __init__(self, label: str, view: SessionView) -> None:
        """List the blocks."""
        self._view = view
        nodes: dict[str, list[NodeState]] = {}
        for node in view.nodes:
            if label in node.info.labels:
                nodes.setdefault(node.info.labels[label], []).append(node)
        self._blocks = [NodeSet(name, of_block) for name, of_block in sorted(nodes.items())]

    def domains(self) -> Iterable[NodeSet]:
        """Return the blocks, so that their counts are kept as nodes change."""
        return self._blocks

    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet] | None:
        """Return the blocks that hold all tasks of a need, the tightest first."""
        if "one-block" not in need.job.info.labels:
            return None
        home = {task.node.slot for task in need.home if task.node is not None}
        blocks = [
            block for block in self._blocks if home <= block.slots and block.slots <= within.slots
        ]
        counts = self._view.counts(need, need.stage or Stage.NOW)
        if counts is None:  # unlike tasks: every block is tried
            return blocks
        if need.stage is not None:
            blocks = [block for block in blocks if counts.of(block) >= len(need.tasks)]
        return sorted(blocks, key=counts.of)
