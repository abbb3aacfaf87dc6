"""Makes the description of the package: the README without links into the repository.

The repository has no public address, so that these would lead nowhere where the package is listed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#)[^)]*\)")


def without_links(text: str) -> str:
    """Return a text in which links to files are the words of these links alone."""
    return _LINK.sub(r"\1", text)


class Description(MetadataHookInterface):
    """Sets the readme of the project."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_links(text)}
