"""Resource limits: an amount for each limited dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from batchsched.model.immutable import EMPTY, FrozenMap, kept_map
from batchsched.model.resources import Amount

__all__ = ["ResourceLimit"]


def _kept_amounts(content: Mapping[str, Amount], /) -> Mapping[str, Amount]:
    return content if isinstance(content, FrozenMap) else kept_map(content)


@frozen(kw_only=True)
class ResourceLimit:
    """The most of each dimension; a dimension that is not named is unlimited.

    A `batchsched.Resource` cannot express this: a dimension that it does not name is 0,
    so 4 cpus would allow no memory.

    >>> limit = ResourceLimit(milli_cpu=4000, scalars={"nvidia.com/gpu": 2000})
    >>> limit.get("cpu"), limit.get("memory"), limit.get("nvidia.com/gpu")
    (4000, None, 2000)
    """

    milli_cpu: Amount | None = None
    """Thousandths of a cpu; None: unlimited."""
    memory: Amount | None = None
    """Bytes; None: unlimited."""
    scalars: Mapping[str, Amount] = field(default=EMPTY, converter=_kept_amounts)
    """Thousandths of each named scalar; a scalar that is not named is unlimited."""

    def get(self, dimension: str, /) -> Amount | None:
        """Return the limit of ``cpu``, ``memory`` or a scalar; None: unlimited."""
        if dimension == "cpu":
            return self.milli_cpu
        if dimension == "memory":
            return self.memory
        return self.scalars.get(dimension)

    def dimensions(self) -> Iterator[tuple[str, Amount]]:
        """Yield the name and the amount of every dimension that is limited."""
        if self.milli_cpu is not None:
            yield "cpu", self.milli_cpu
        if self.memory is not None:
            yield "memory", self.memory
        for name in sorted(self.scalars):
            yield name, self.scalars[name]
