"""Registries: what configurations may name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.books import Opens, Saying

from batchsched import ConfigError, Registry, RegistryError, Scheduler, default_registry


def make(_: object) -> Opens:
    return Opens(Saying(job_ready=lambda _: True))


def test_the_default_registry_has_all_plugins_and_actions() -> None:
    registry = default_registry()
    assert " ".join(registry.plugin_names) == (
        "capacity conformance devices drf fcfs gang las nodeorder placement predicates priority "
        "proportion protection sjf sla topology usage"
    )
    assert (
        " ".join(registry.action_names)
        == "allocate backfill consolidate plan preempt reclaim reserve"
    )


def test_each_default_registry_is_a_new_one() -> None:
    default_registry().register_plugin("own", make)
    assert default_registry().plugin_factory("own") is None


@pytest.mark.parametrize("what", ["plugin", "action"])
def test_what_is_registered_can_be_found_and_nothing_else(what: str) -> None:
    registry = Registry()
    getattr(registry, f"register_{what}")("zeta", make)
    getattr(registry, f"register_{what}")("alpha", make)
    assert getattr(registry, f"{what}_names") == ("alpha", "zeta")
    assert getattr(registry, f"{what}_factory")("alpha") is make
    assert getattr(registry, f"{what}_factory")("beta") is None
    other = "action" if what == "plugin" else "plugin"
    assert getattr(registry, f"{other}_names") == ()


@pytest.mark.parametrize("what", ["plugin", "action"])
@pytest.mark.parametrize(
    ("name", "factory", "message"),
    [
        ("", make, "expected a name for {what}, got ''; use a string without commas"),
        ("  ", make, "expected a name for {what}, got '  '; use a string without commas"),
        ("a,b", make, "expected a name for {what}, got 'a,b'; use a string without commas"),
        ("known", make, "{what} 'known' is already registered; choose another name"),
        ("new", 5, "{what} 'new': expected a callable that takes its arguments, got 5"),
        ("new", None, "{what} 'new': expected a callable that takes its arguments, got None"),
    ],
)
def test_what_cannot_be_registered_is_refused(
    what: str, name: str, factory: Any, message: str
) -> None:
    registry = Registry()
    register = getattr(registry, f"register_{what}")
    register("known", make)
    with pytest.raises(RegistryError) as caught:
        register(name, factory)
    assert str(caught.value) == message.format(what=what)
    assert isinstance(caught.value, ValueError)
    assert getattr(registry, f"{what}_names") == ("known",)


def test_a_plugin_and_an_action_may_share_a_name() -> None:
    registry = Registry()
    registry.register_plugin("x", make)
    registry.register_action("x", make)


def test_a_copy_takes_new_names_and_the_original_does_not() -> None:
    registry = default_registry()
    copy = registry.copy()
    copy.register_plugin("own", make)
    copy.register_action("own", make)
    assert "own" in copy.plugin_names
    assert "own" in copy.action_names
    assert registry.plugin_names == default_registry().plugin_names
    assert registry.action_names == default_registry().action_names


def test_an_empty_registry_says_that_it_knows_nothing() -> None:
    with pytest.raises(ConfigError, match="action 'allocate' is not registered; known: ") as e:
        Scheduler(registry=Registry())
    assert len(e.value.faults) == 12
