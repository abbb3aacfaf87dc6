"""Host ports: ports of the node that a task uses."""

from __future__ import annotations

from attrs import frozen

__all__ = ["ANY_ADDRESS", "HostPort"]

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - only compared, never bound


@frozen(kw_only=True, order=True)
class HostPort:
    """A port on the node's own address.

    >>> HostPort(port=80).conflicts(HostPort(port=80, address="10.0.0.1"))
    True
    >>> HostPort(port=80).conflicts(HostPort(port=80, protocol="UDP"))
    False
    """

    port: int
    """1 to 65535."""
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: HostPort, /) -> bool:
        """Return whether the two cannot be used on the same node."""
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.address == other.address or ANY_ADDRESS in (self.address, other.address))
        )
