"""Configurations: what a kube-batch or Volcano file holds, and everything wrong with it at once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from tests.support.books import Opens, Saying

from batchsched import (
    ActionOption,
    Arguments,
    ConfigError,
    PluginOption,
    Registry,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    Tier,
    default_registry,
)
from batchsched.config.options import ENABLE_FLAGS, WITH_DEFAULT_TIERS, unknown_key
from batchsched.testing import configs

PLUGINS = (
    "capacity, conformance, devices, drf, fcfs, gang, las, nodeorder, placement, predicates, "
    "priority, proportion, protection, sjf, sla, topology, usage"
)
ACTIONS = "allocate, backfill, consolidate, plan, preempt, reclaim, reserve"
FLAGS = (
    "enableJobOrder, enableQueueOrder, enableTaskOrder, enablePredicate, enableNodeOrder, "
    "enablePreemptable, enableReclaimable, enableJobReady, enableJobPipelined"
)


def faults(mapping: Any, registry: Registry | None = None) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(mapping, registry=registry)
    assert str(caught.value) == "\n".join(str(fault) for fault in caught.value.faults)
    return [(fault.path, fault.message) for fault in caught.value.faults]


def plugins_of(config: SchedulerConfig) -> list[list[str]]:
    return [[plugin.name for plugin in tier.plugins] for tier in config.tiers]


# What is read

DEFAULT_TIERS = [
    ["priority", "gang", "conformance", "protection"],
    ["drf", "predicates", "devices", "topology", "capacity", "nodeorder"],
]


def test_the_recommended_tiers_stand_where_none_are_named() -> None:
    named = SchedulerConfig.from_mapping({"actions": None})
    for config in (SchedulerConfig(), named, Scheduler().config):
        assert [action.name for action in config.actions] == ["allocate", "backfill"]
        assert plugins_of(config) == DEFAULT_TIERS
        assert config == SchedulerConfig()
        of = {plugin.name: plugin for tier in config.tiers for plugin in tier.plugins}
        assert of["gang"].arguments == {"atMinimum": "whole-job"}
        assert of["drf"].flags == {"enablePreemptable": False}


def test_none_is_as_good_as_nothing() -> None:
    config = SchedulerConfig.from_mapping({"actions": None, "tiers": None, "configurations": None})
    assert config == SchedulerConfig()


@pytest.mark.parametrize(
    "actions",
    [
        "reclaim, allocate, backfill",
        "reclaim,allocate,backfill",
        "  reclaim ,allocate  ,  backfill ",
        ["reclaim", "allocate", "backfill"],
        ("reclaim", {"name": "allocate"}, {"name": "backfill", "arguments": None}),
    ],
)
def test_actions_are_a_text_with_commas_or_a_list(actions: Any) -> None:
    config = SchedulerConfig.from_mapping({"actions": actions})
    assert [action.name for action in config.actions] == ["reclaim", "allocate", "backfill"]
    assert all(action.arguments == {} for action in config.actions)
    assert plugins_of(config) == DEFAULT_TIERS


def test_an_action_may_run_twice_with_other_arguments() -> None:
    config = SchedulerConfig.from_mapping(
        {"actions": ["allocate", {"name": "allocate", "arguments": {"unready": "discard"}}]}
    )
    Scheduler(config)
    assert [dict(action.arguments) for action in config.actions] == [{}, {"unready": "discard"}]


def test_volcanos_configurations_add_arguments_to_actions() -> None:
    config = SchedulerConfig.from_mapping(
        {
            "actions": ["allocate", {"name": "backfill", "arguments": {"strategy": "release"}}],
            "configurations": [
                {"name": "allocate", "arguments": {"unready": "discard"}},
                {"name": "backfill", "arguments": {"strategy": "displace", "nodeChoice": "best"}},
            ],
        }
    )
    allocate, backfill = config.actions
    assert allocate.arguments == {"unready": "discard"}
    assert backfill.arguments == {"strategy": "release", "nodeChoice": "best"}  # its own counts


def test_tiers_name_plugins_with_flags_and_arguments() -> None:
    config = SchedulerConfig.from_mapping(
        {
            "tiers": [
                {
                    "plugins": [
                        "priority",
                        {"name": "gang", "enableJobOrder": False, "enableJobReady": "true"},
                    ]
                },
                {"plugins": None},
                {},
                {"plugins": [{"name": "nodeorder", "arguments": {"leastrequested.weight": "2"}}]},
            ]
        }
    )
    assert plugins_of(config) == [["priority", "gang"], [], [], ["nodeorder"]]
    assert config.tiers[0].plugins[1].flags == {"enableJobOrder": False, "enableJobReady": True}
    assert config.tiers[3].plugins[0].arguments == {"leastrequested.weight": "2"}


@pytest.mark.parametrize("weight", ["2", 2, 2.0])
def test_arguments_may_be_texts_or_have_their_own_types(weight: Any) -> None:
    seen: list[int] = []

    def factory(arguments: Arguments) -> Opens:
        seen.append(arguments.integer("weight", default=1))
        return Opens(Saying(job_ready=lambda _: True))

    registry = Registry()
    registry.register_plugin("own", factory)
    SchedulerConfig.from_mapping(
        {
            "actions": [],
            "tiers": [{"plugins": [{"name": "own", "arguments": {"weight": weight}}]}],
        },
        registry=registry,
    )
    assert seen == [2]


def test_every_flag_of_kube_batch_is_known() -> None:
    assert ", ".join(ENABLE_FLAGS) == FLAGS
    plugin = {"name": "gang", **dict.fromkeys(ENABLE_FLAGS, False)}
    config = SchedulerConfig.from_mapping({"tiers": [{"plugins": [plugin]}]})
    assert config.tiers[0].plugins[0].flags == dict.fromkeys(ENABLE_FLAGS, False)


@given(configs())
def test_configurations_are_values(config: SchedulerConfig) -> None:
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(SchedulerConfig(actions=config.actions, tiers=config.tiers))


def test_configurations_cannot_be_changed_from_outside() -> None:
    flags = {"enableJobOrder": False}
    plugins = [PluginOption(name="gang", flags=flags)]
    tier = Tier(plugins=plugins)
    flags["enableJobOrder"] = True
    plugins.clear()
    assert tier.plugins[0].flags == {"enableJobOrder": False}
    with pytest.raises(TypeError):
        tier.plugins[0].flags["enableJobOrder"] = True  # type: ignore[index]


# What is wrong


def test_everything_wrong_is_told_at_once_with_its_path() -> None:
    given_mapping = {
        "action": "allocate",
        "actions": [
            {"name": "allocate", "argument": {}, "arguments": {"unready": "x", "evictBackfil": 1}},
            {"name": "backfill", "arguments": {"starvationThreshold": "-1", "odd": [1]}},
            {"name": ""},
            5,
        ],
        "configurations": [{"name": "reserve", "arguments": {}}, {"kind": 1}],
        "tiers": [
            {"plugins": [{"name": "gang", "enableJobOder": False, "enableJobReady": "perhaps"}]},
            {"plugin": []},
            {"plugins": {"name": "drf"}},
            {"plugins": [{"name": "gang"}, {"arguments": 7}]},
            {
                "plugins": [
                    {
                        "name": "nodeorder",
                        "arguments": {"leastrequested.weight": "much", "podaffinity.weight": -1},
                    },
                    {
                        "name": "predicates",
                        "arguments": {"predicate.MemoryPressureEnable": "perhaps"},
                    },
                ]
            },
        ],
    }
    assert faults(given_mapping) == [
        (
            "action",
            "unknown key; did you mean 'actions'? known: actions, tiers, configurations",
        ),
        (
            "actions[0].argument",
            "unknown key; did you mean 'arguments'? known: name, arguments",
        ),
        ("actions[1].arguments['odd']", "expected a string, a number or a boolean, got [1]"),
        ("actions[2].name", "expected a name, got ''"),
        ("actions[3]", "expected a mapping, got 5"),
        ("actions[3].name", "is missing"),
        ("configurations[0].name", "expected one of the configured actions, got 'reserve'"),
        ("configurations[1].kind", "unknown key; known: name, arguments"),
        ("configurations[1].name", "is missing"),
        (
            "tiers[0].plugins[0].enableJobOder",
            "unknown key; did you mean 'enableJobOrder'? known: name, " + FLAGS + ", arguments",
        ),
        ("tiers[0].plugins[0].enableJobReady", "expected true or false, got 'perhaps'"),
        ("tiers[1].plugin", "unknown key; did you mean 'plugins'? known: plugins"),
        ("tiers[2].plugins", "expected a list, got {'name': 'drf'}"),
        ("tiers[3].plugins[1].name", "is missing"),
        ("tiers[3].plugins[1].arguments", "expected a mapping, got 7"),
        ("actions[0].arguments['unready']", "expected one of hold, discard, got 'x'"),
        (
            "actions[0].arguments['evictBackfil']",
            (
                "unknown argument; did you mean 'evictBackfill'? "
                "known: curable, evictBackfill, retry, starvationThreshold, unready"
            ),
        ),
        ("actions[1].arguments['starvationThreshold']", "expected 0 or more, got '-1'"),
        ("tiers[3].plugins[0]", "plugin 'gang' is already configured at tiers[0].plugins[0]"),
        (
            "tiers[4].plugins[0].arguments['leastrequested.weight']",
            ("expected a number, got 'much'"),
        ),
        ("tiers[4].plugins[0].arguments['podaffinity.weight']", "expected 0 or more, got -1"),
        (
            "tiers[4].plugins[1].arguments['predicate.MemoryPressureEnable']",
            "expected true or false, got 'perhaps'",
        ),
    ]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (5, [("", "expected a mapping, got 5")]),
        (None, [("", "expected a mapping, got None")]),
        ({"actions": 5}, [("actions", "expected a list, got 5")]),
        ({"actions": ""}, [("actions", "expected names separated by commas, got ''")]),
        (
            {"actions": "allocate,, backfill"},
            [("actions", "expected names separated by commas, got 'allocate,, backfill'")],
        ),
        ({"actions": {"allocate": {}}}, [("actions", "expected a list, got {'allocate': {}}")]),
        ({"tiers": "gang"}, [("tiers", "expected a list, got 'gang'")]),
        ({"tiers": [5]}, [("tiers[0]", "expected a mapping, got 5")]),
        ({"tiers": [{"plugins": "gang"}]}, [("tiers[0].plugins", "expected a list, got 'gang'")]),
        ({"tiers": [{"plugins": 0}]}, [("tiers[0].plugins", "expected a list, got 0")]),
        ({"tiers": [{"plugins": {}}]}, [("tiers[0].plugins", "expected a list, got {}")]),
        ({"tiers": [{"plugins": ""}]}, [("tiers[0].plugins", "expected a list, got ''")]),
        (
            {"tiers": [{"plugins": [5]}]},
            [
                ("tiers[0].plugins[0]", "expected a mapping, got 5"),
                ("tiers[0].plugins[0].name", "is missing"),
            ],
        ),
        (
            {"tiers": [{"plugins": [{"name": 5}]}]},
            [("tiers[0].plugins[0].name", "expected a name, got 5")],
        ),
        (
            {"actions": None, "configurations": "x"},
            [("configurations", "expected a list, got 'x'")],
        ),
        (
            {"tiers": None, "configurations": [{"name": "allocate", "arguments": []}]},
            [("configurations[0].arguments", "expected a mapping, got []")],
        ),
    ],
)
def test_what_is_ill_typed_is_a_fault(mapping: Any, expected: list[tuple[str, str]]) -> None:
    assert faults(mapping) == expected


@pytest.mark.parametrize("mapping", [{}, {"configurations": []}, {"kind": "Pod", "spec": {}}])
def test_what_names_neither_actions_nor_tiers_is_no_configuration(mapping: Any) -> None:
    told = (
        "expected `actions`, `tiers` or both, got neither; "
        f"its keys: {', '.join(sorted(mapping)) or 'none'}; "
        "SchedulerConfig() is the default configuration"
    )
    assert ("", told) in faults(mapping)
    with pytest.raises(ConfigError, match="got neither"):
        SchedulerConfig.from_mapping(mapping, unknown="notice")


def test_unknown_actions_are_refused_at_once_as_unknown_plugins_are() -> None:
    mapping = {"actions": "alocate, own", "tiers": [{"plugins": ["drff", "mine"]}]}
    config = SchedulerConfig(
        actions=[ActionOption(name="alocate"), ActionOption(name="own")],
        tiers=[Tier(plugins=[PluginOption(name="drff"), PluginOption(name="mine")])],
    )
    expected = [
        (
            "actions[0]",
            f"action 'alocate' is not registered; did you mean 'allocate'? known: {ACTIONS}",
        ),
        ("actions[1]", f"action 'own' is not registered; known: {ACTIONS}"),
        (
            "tiers[0].plugins[0]",
            f"plugin 'drff' is not registered; did you mean 'drf'? known: {PLUGINS}",
        ),
        ("tiers[0].plugins[1]", f"plugin 'mine' is not registered; known: {PLUGINS}"),
    ]
    with pytest.raises(ConfigError) as caught:
        Scheduler(config)
    assert [(fault.path, fault.message) for fault in caught.value.faults] == expected
    for registry in (None, default_registry()):
        assert faults(mapping, registry) == expected
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_dict(config.to_dict())
    assert [(fault.path, fault.message) for fault in caught.value.faults] == expected


def test_the_scheduler_checks_configurations_made_in_code_too() -> None:
    config = SchedulerConfig(
        actions=[ActionOption(name="reserve", arguments={"reservedNodePercent": 101})],
        tiers=[
            Tier(plugins=[PluginOption(name="gang", flags={"enableJobOder": True})]),
            Tier(plugins=[PluginOption(name="gang", arguments={"x": 1})]),
        ],
    )
    with pytest.raises(ConfigError) as caught:
        Scheduler(config)
    assert [(fault.path, fault.message) for fault in caught.value.faults] == [
        ("actions[0].arguments['reservedNodePercent']", "expected 100 or less, got 101"),
        (
            "tiers[0].plugins[0].enableJobOder",
            f"unknown key; did you mean 'enableJobOrder'? known: {FLAGS}",
        ),
        ("tiers[1].plugins[0]", "plugin 'gang' is already configured at tiers[0].plugins[0]"),
        ("tiers[1].plugins[0].arguments['x']", "unknown argument; known: atMinimum"),
    ]


@pytest.mark.parametrize("value", ["false", 0, None])
def test_a_flag_that_is_no_truth_value_is_a_fault(value: Any) -> None:
    config = SchedulerConfig(
        tiers=[Tier(plugins=[PluginOption(name="gang", flags={"enableJobOrder": value})])]
    )
    with pytest.raises(ConfigError) as caught:
        Scheduler(config)
    (fault,) = caught.value.faults
    assert fault.path == "tiers[0].plugins[0].enableJobOrder"
    assert fault.message == f"expected true or false, got {value!r}"


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("allocate", {"unready": "hold", "evictBackfill": "true", "starvationThreshold": "60"}),
        ("backfill", {"strategy": "displace", "nodeChoice": "best", "starvationThreshold": 1.5}),
        ("reserve", {"starvingJobTimeThreshold": 0, "reservedNodePercent": "12.5"}),
        ("preempt", {}),
        ("reclaim", {}),
    ],
)
def test_the_arguments_of_every_action_are_known(action: str, arguments: dict[str, Any]) -> None:
    SchedulerConfig.from_mapping({"actions": [{"name": action, "arguments": arguments}]})
    message = faults({"actions": [{"name": action, "arguments": {"x?": 1}}]})[0][1]
    for name in arguments:
        assert name in message


@pytest.mark.parametrize(
    "name", ["leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource"]
)
def test_the_weights_of_nodeorder_are_whole_and_not_negative(name: str) -> None:
    def of(value: Any) -> dict[str, Any]:
        plugin = {"name": "nodeorder", "arguments": {f"{name}.weight": value}}
        return {"tiers": [{"plugins": [plugin]}]}

    SchedulerConfig.from_mapping(of("0"))
    SchedulerConfig.from_mapping(of(10))
    for value in ("-1", 1.5, "x", True):
        assert len(faults(of(value))) == 1


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        (
            {"actions": "allocate"},
            "actions: expected a collection of ActionOption, got 'allocate'; use a tuple",
        ),
        ({"actions": ["allocate"]}, "actions[0]: expected ActionOption(name=...), got 'allocate'"),
        (
            {"tiers": [["drf"]]},
            "tiers[0]: expected Tier(plugins=[...]), got ['drf']",
        ),
        (
            {"tiers": [Tier(plugins=["drf"])]},
            "tiers[0].plugins[0]: expected PluginOption(name=...), got 'drf'",
        ),  # type: ignore[list-item]
    ],
    ids=["a string", "strings", "a list", "a name"],
)
def test_options_of_a_wrong_type_are_faults(wrong: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Scheduler(SchedulerConfig(**wrong))
    assert str(caught.value).startswith(path)


COLLECTION = "expected a collection of"
LIST = "use a tuple or a list"
MAPPING = "expected a mapping such as a dict, got"
NAME = "expected a name (a string), got"


def refused(*arguments: Any, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        Scheduler(*arguments, **options)
    return [(fault.path, fault.message) for fault in caught.value.faults]


def action(**wrong: Any) -> SchedulerConfig:
    return SchedulerConfig(actions=[ActionOption(**{"name": "allocate", **wrong})])


def plugin(**wrong: Any) -> SchedulerConfig:
    return SchedulerConfig(tiers=[Tier(plugins=[PluginOption(**{"name": "gang", **wrong})])])


@pytest.mark.parametrize("wrong", [5, None, {"a": 1}, "ab", b"ab"], ids=str)
def test_what_is_no_collection_where_one_stands_is_a_fault(wrong: Any) -> None:
    assert refused(SchedulerConfig(actions=wrong)) == [
        ("actions", f"{COLLECTION} ActionOption, got {wrong!r}; {LIST}")
    ]
    assert refused(SchedulerConfig(tiers=wrong)) == [
        ("tiers", f"{COLLECTION} Tier, got {wrong!r}; {LIST}")
    ]
    assert refused(SchedulerConfig(tiers=[Tier(), Tier(plugins=wrong)])) == [
        ("tiers[1].plugins", f"{COLLECTION} PluginOption, got {wrong!r}; {LIST}")
    ]


@pytest.mark.parametrize("wrong", [5, None, [1], "ab"], ids=str)
def test_what_is_no_mapping_where_one_stands_is_a_fault(wrong: Any) -> None:
    message = f"{MAPPING} {wrong!r}"
    assert refused(action(arguments=wrong)) == [("actions[0].arguments", message)]
    assert refused(plugin(arguments=wrong)) == [("tiers[0].plugins[0].arguments", message)]
    assert refused(plugin(flags=wrong)) == [("tiers[0].plugins[0].flags", message)]


@pytest.mark.parametrize("wrong", [5, None, ["a"], b"gang", {}], ids=str)
def test_what_is_no_name_is_a_fault(wrong: Any) -> None:
    message = f"{NAME} {wrong!r}"
    assert refused(action(name=wrong)) == [("actions[0].name", message)]
    assert refused(plugin(name=wrong)) == [("tiers[0].plugins[0].name", message)]


@pytest.mark.parametrize("wrong", [5, None, ("a",)], ids=str)
def test_flags_and_arguments_of_which_the_names_are_no_texts_are_faults(wrong: Any) -> None:
    no_argument = "expected a string as an argument name"
    assert refused(action(arguments={wrong: 1, "unready": "hold"})) == [
        (f"actions[0].arguments[{wrong!r}]", no_argument)
    ]
    assert refused(plugin(flags={wrong: True}, arguments={wrong: 1})) == [
        (f"tiers[0].plugins[0].flags[{wrong!r}]", "expected a string as a flag"),
        (f"tiers[0].plugins[0].arguments[{wrong!r}]", no_argument),
    ]


def test_everything_wrong_with_options_made_in_code_is_told_at_once() -> None:
    wrong: Any = 5
    config = SchedulerConfig(
        actions=[
            ActionOption(name=wrong, arguments=wrong),
            ActionOption(name="allocte", arguments=wrong),
        ],
        tiers=[
            Tier(plugins=wrong),
            Tier(
                plugins=[
                    PluginOption(name=wrong, flags=wrong, arguments=wrong),
                    PluginOption(name=wrong),
                    PluginOption(name="gang", flags={wrong: True, "enableJobReady": wrong}),
                ]
            ),
        ],
    )
    assert [path for path, _ in refused(config)] == [
        *("actions[0].name", "actions[0].arguments", "actions[1]", "actions[1].arguments"),
        "tiers[0].plugins",
        *(f"tiers[1].plugins[0].{part}" for part in ("name", "flags", "arguments")),
        "tiers[1].plugins[1].name",
        *("tiers[1].plugins[2].flags[5]", "tiers[1].plugins[2].enableJobReady"),
    ]


def test_what_is_no_registry_is_a_fault_with_all_others() -> None:
    wrong: Any = "x"
    registry = (
        "registry",
        ("expected a Registry, got 'x'; leave it out, or extend default_registry()"),
    )
    assert refused(None, wrong) == [registry]
    assert faults({"tiers": None}, wrong) == [registry]
    assert faults({"actions": 5, "tiers": [{"plugins": ["mine"]}]}, wrong) == [
        ("actions", "expected a list, got 5"),
        registry,
    ]
    assert refused(wrong, wrong, placement=wrong) == [
        ("config", "expected a SchedulerConfig, got 'x'; use SchedulerConfig.from_mapping"),
        registry,
        ("placement", "expected a function that makes a placement engine, got 'x'"),
    ]
    assert refused(action(name="mine", arguments=5), wrong) == [
        registry,
        ("actions[0].arguments", "expected a mapping such as a dict, got 5"),
    ]


def test_what_cannot_be_shown_is_told_of_all_the_same() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    shy: Any = Shy()
    assert refused(action(arguments={"unready": shy}))[0][1] == "expected a string, got <Shy>"
    assert refused(shy)[0][1].startswith("expected a SchedulerConfig, got <Shy>")
    assert faults({"actions": shy, shy: 1})[0] == (
        "<Shy>",
        "unknown key; known: actions, tiers, configurations",
    )


def test_what_is_no_snapshot_and_no_engine_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(SnapshotError, match="expected a Snapshot, got None"):
        Scheduler().schedule(nothing)
    number: Any = 3
    with pytest.raises(
        ConfigError, match="expected a function that makes a placement engine, got 3"
    ):
        Scheduler(placement=number)


def test_what_makes_no_placement_engine_is_told_when_it_is_to_make_one() -> None:
    scheduler = Scheduler(placement=lambda _ledger, _evaluator: None)
    with pytest.raises(ConfigError, match=r"placement: expected it to return .* engine, got None"):
        scheduler.schedule(Snapshot())


# The same, but for something


def test_further_plugins_come_at_the_end_of_a_tier_and_all_else_stays() -> None:
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    more = config.with_plugins("placement", {"name": "usage", "arguments": {"k": 0.5}})
    first = more.with_plugins(PluginOption(name="fcfs"), tier=0)
    assert plugins_of(more) == [DEFAULT_TIERS[0], [*DEFAULT_TIERS[1], "placement", "usage"]]
    assert plugins_of(first)[0] == [*DEFAULT_TIERS[0], "fcfs"]
    assert more.tiers[1].plugins[-1].arguments == {"k": 0.5}
    assert [action.name for action in first.actions] == ["allocate", "preempt"]
    assert config.with_plugins() == config
    assert plugins_of(more.without_plugins("placement", "usage")) == DEFAULT_TIERS


def test_what_actions_do_by_default_with_the_default_tiers_they_go_on_doing() -> None:
    config = SchedulerConfig.from_mapping({"actions": "reclaim, allocate, preempt"})
    for changed in (
        config.with_plugins("usage"),
        config.without_plugins("drf"),
        config.with_arguments("gang", atMinimum="protect"),
    ):
        made = {action.name: dict(action.arguments) for action in changed.actions}
        assert made == {
            "reclaim": {"curable": True, "retry": "largest-first"},
            "allocate": {"retry": "largest-first"},
            "preempt": {"curable": True, "retry": "largest-first", "unblock": True},
        }
    own = config.with_arguments("preempt", curable=False).with_plugins("usage")
    assert own.actions[2].arguments == {
        "curable": False,
        "retry": "largest-first",
        "unblock": True,
    }
    hold = {"name": "allocate", "arguments": {"unready": "hold"}}
    [holds] = SchedulerConfig.from_mapping({"actions": [hold]}).with_plugins("usage").actions
    assert holds.arguments == {"unready": "hold"}
    named = SchedulerConfig(actions=config.actions, tiers=config.tiers[:1])
    assert named.with_plugins("usage").actions == config.actions
    registry = default_registry()
    for name in registry.action_names:
        factory = registry.action_factory(name)
        assert factory is not None
        given = WITH_DEFAULT_TIERS.get(name, {})
        assert factory(Arguments(given, "")) == factory(Arguments({}, "", has_default_tiers=True))


def test_arguments_of_plugins_and_of_actions_are_given_by_name() -> None:
    config = SchedulerConfig.from_mapping({"actions": "preempt, allocate, preempt"})
    kept = config.with_arguments("gang", atMinimum="protect")
    assert kept.tiers[0].plugins[1].arguments == {"atMinimum": "protect"}
    waits = config.with_arguments("preempt", minRuntime=60)
    assert [dict(each.arguments) for each in waits.actions] == [
        {"minRuntime": 60},
        {},
        {"minRuntime": 60},
    ]
    assert waits.tiers == config.tiers


def not_made(change: Callable[[SchedulerConfig], SchedulerConfig]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        change(SchedulerConfig())
    return [str(fault) for fault in caught.value.faults]


def test_wrong_changes_of_a_configuration_are_refused_all_at_once() -> None:
    assert not_made(lambda config: config.with_plugins("usge", {"nam": "fcfs"}, tier=2)) == [
        f"plugins[1].nam: {unknown_key('nam', ('name', *ENABLE_FLAGS, 'arguments'))}",
        "plugins[1].name: is missing",
        f"plugins[0]: plugin 'usge' is not registered; did you mean 'usage'? known: {PLUGINS}",
        "tier: expected the position of one of 2 tiers, from 0, got 2",
    ]
    assert not_made(lambda config: config.with_plugins("drf", "proportion")) == [
        "tiers[1].plugins[6]: plugin 'drf' is already configured at tiers[1].plugins[0]",
        (
            "tiers[1].plugins[4]: plugin 'capacity' replaces 'proportion', which is configured at "
            "tiers[1].plugins[7]; remove one of them"
        ),
    ]
    [told] = not_made(lambda config: config.without_plugins("usage"))
    assert told.startswith("names: plugin 'usage' is not configured; configured: priority, gang, ")
    [told] = not_made(lambda config: config.with_arguments("preempt", curable=True))
    assert told.startswith("name: plugin or action 'preempt' is not configured; configured: ")
    [told] = not_made(lambda config: config.with_arguments("gang", atMinmum="protect"))
    assert told.startswith("tiers[0].plugins[1].arguments['atMinmum']: unknown argument; did you ")


def test_plugins_of_ones_own_are_added_with_their_registry() -> None:
    registry = default_registry()
    registry.register_plugin("own", lambda _arguments: Opens(Saying()))
    config = SchedulerConfig().with_plugins("own", registry=registry)
    assert plugins_of(config)[1][-1] == "own"
    assert plugins_of(config.without_plugins("drf"))[1][-1] == "own"
    assert len(not_made(lambda each: each.with_plugins("own"))) == 1
