"""What is raised when a plugin breaks a law."""

from __future__ import annotations

from batchsched.snapshot import Snapshot

__all__ = ["LawViolation"]


class LawViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A plugin that does not do what its extension points demand.

    The message names the plugin, the extension point and the law, and says what was seen.
    Hypothesis adds the smallest example that it found.
    """

    def __init__(
        self, plugin: str, extension_point: str, law: str, seen: str, snapshot: Snapshot
    ) -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        self.law = law
        """What every plugin must do."""
        self.seen = seen
        """What this one did."""
        self.snapshot = snapshot
        """Where it did it."""
        super().__init__(plugin, extension_point, law, seen, snapshot)

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}, {self.extension_point}: {self.law}\n  but {self.seen}"
