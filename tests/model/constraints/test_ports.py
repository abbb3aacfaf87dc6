"""Host ports: the specification's section 8."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import HostPort

ports = st.builds(
    HostPort,
    port=st.sampled_from([80, 443]),
    protocol=st.sampled_from(["TCP", "UDP"]),
    address=st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (HostPort(port=80, address="10.0.0.1"), True),
        (HostPort(port=80, address="10.0.0.2"), False),
        (HostPort(port=80), True),
        (HostPort(port=80, address="0.0.0.0"), True),
        (HostPort(port=81), False),
        (HostPort(port=80, protocol="UDP"), False),
        (HostPort(port=80, protocol="UDP", address="10.0.0.1"), False),
        (HostPort(port=81, address="10.0.0.1"), False),
        (HostPort(port=80, protocol="TCP", address="10.0.0.1"), True),
    ],
)
def test_conflicts_by_example(other: HostPort, expected: bool) -> None:
    assert HostPort(port=80, address="10.0.0.1").conflicts(other) is expected


def test_any_address_conflicts_with_any_address() -> None:
    assert HostPort(port=80).conflicts(HostPort(port=80))
    assert not HostPort(port=80).conflicts(HostPort(port=80, protocol="SCTP"))


def test_the_defaults_are_tcp_on_every_address() -> None:
    assert HostPort(port=80) == HostPort(port=80, protocol="TCP", address="0.0.0.0")


@given(ports, ports)
def test_conflicts_go_both_ways(one: HostPort, other: HostPort) -> None:
    assert one.conflicts(other) is other.conflicts(one)


@given(ports)
def test_every_port_conflicts_with_itself(port: HostPort) -> None:
    assert port.conflicts(port)


@given(ports, ports)
def test_ports_of_different_numbers_or_protocols_never_conflict(
    one: HostPort, other: HostPort
) -> None:
    if one.conflicts(other):
        assert (one.port, one.protocol) == (other.port, other.protocol)


@given(ports, ports)
def test_taking_every_address_conflicts_at_least_as_often(one: HostPort, other: HostPort) -> None:
    everywhere = HostPort(port=one.port, protocol=one.protocol)
    assert one.conflicts(other) <= everywhere.conflicts(other)
    same_kind = (one.port, one.protocol) == (other.port, other.protocol)
    assert everywhere.conflicts(other) is same_kind


@given(st.lists(ports))
def test_ports_have_a_total_order(several: list[HostPort]) -> None:
    assert sorted(several) == sorted(several, key=lambda p: (p.port, p.protocol, p.address))


@given(ports)
def test_a_port_is_a_value(port: HostPort) -> None:
    again = pickle.loads(pickle.dumps(port))
    assert again == port
    assert hash(again) == hash(port)
