"""The error raised when a plugin breaks a law."""

from __future__ import annotations

from batchsched.model.snapshot import Snapshot
from batchsched.testing.code import as_code

__all__ = ["LawViolation"]


class LawViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A plugin that violates the contract of its extension points.

    The message names the plugin, the extension point, the law, and what was observed. Hypothesis
    adds the smallest example; `as_code` returns it as code to paste into a test.
    """

    def __init__(
        self,
        plugin: str,
        extension_point: str,
        law: str,
        seen: str,
        snapshot: Snapshot,
        other: Snapshot | None = None,
    ) -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        self.law = law
        """The law that was broken."""
        self.seen = seen
        """What was observed."""
        self.snapshot = snapshot
        """The snapshot that shows it."""
        self.other = other
        """The snapshot of a cycle in between, if one was needed."""
        super().__init__(plugin, extension_point, law, seen, snapshot, other)

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}, {self.extension_point}: {self.law}\n  but {self.seen}"

    def as_code(self) -> str:
        """Return code that checks the plugin again, on this snapshot only.

        The caller must fill in the plugin.
        """
        examples = "st.just(snapshot)"
        lines = [
            "from hypothesis import strategies as st",
            "",
            f"# {self.plugin!r} broke a law of {self.extension_point}:",
            f"# {self.law}",
            f"snapshot = {as_code(self.snapshot)}",
        ]
        if self.other is not None:
            examples = "st.sampled_from([snapshot, other])"
            lines += ["# A cycle on this one came between.", f"other = {as_code(self.other)}"]
        lines += [
            "plugin = ...  # fill in the argument of check_plugin, newly created",
            "# Add the arguments and config that check_plugin was given, if any.",
            f"check_plugin(plugin, name={self.plugin!r}, examples={examples})",
        ]
        return "\n".join([*lines, ""])
