"""What is raised when a plugin breaks a law."""

from __future__ import annotations

from batchsched.model.snapshot import Snapshot
from batchsched.testing.code import as_code

__all__ = ["LawViolation"]


class LawViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A plugin that does not do what its extension points demand.

    The message names the plugin, the extension point and the law, and says what was seen.
    Hypothesis adds the smallest example that it found; `as_code` gives it to paste into a test.
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
        """What every plugin must do."""
        self.seen = seen
        """What this one did."""
        self.snapshot = snapshot
        """Where it did it."""
        self.other = other
        """Of a cycle between, if it took one."""
        super().__init__(plugin, extension_point, law, seen, snapshot, other)

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}, {self.extension_point}: {self.law}\n  but {self.seen}"

    def as_code(self) -> str:
        """Return code that checks the plugin again, on this snapshot only.

        It cannot say what the plugin is. That is to be filled in.
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
            "plugin = ...  # to be filled in: what was given to check_plugin, made anew",
            "# Add the arguments and config that check_plugin was given, if any.",
            f"check_plugin(plugin, name={self.plugin!r}, examples={examples})",
        ]
        return "\n".join([*lines, ""])
