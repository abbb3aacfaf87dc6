"""Configurations of Volcano that are in real use are read; what is not known is left out."""

from __future__ import annotations

from typing import Any

import pytest

from batchsched import ConfigError, Notice, NoticeCode, Registry, Scheduler, SchedulerConfig

DEFAULT_OF_VOLCANO = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {
            "plugins": [
                {"name": "priority"},
                {"name": "gang", "enablePreemptable": False},
                {"name": "conformance"},
            ]
        },
        {
            "plugins": [
                {"name": "overcommit"},
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
                {"name": "binpack"},
            ]
        },
    ],
}
OF_A_TRAINING_CLUSTER = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "configurations": [
        {"name": "enqueue", "arguments": {"overcommit-factor": 1.0}},
        {"name": "allocate", "arguments": {"unready": "discard"}},
    ],
    "tiers": [
        {
            "plugins": [
                {"name": "priority"},
                {"name": "gang", "enableJobStarving": "false"},
                {"name": "conformance"},
                {"name": "own-sla", "arguments": {"sla-waiting-time": "1h2m3s"}},
                {
                    "name": "own-tdm",
                    "arguments": {"tdm.revocable-zone.rz1": "10:00-21:00", "zones": ["a", "b"]},
                },
            ]
        },
        {
            "plugins": [
                {"name": "drf", "enablePreemptable": False, "enableHierarchy": True},
                {
                    "name": "predicates",
                    "arguments": {
                        "predicate.MemoryPressureEnable": "true",
                        "predicate.GPUSharingEnable": True,
                        "resources": {"nvidia.com/gpu": 8},
                    },
                },
                {"name": "proportion"},
                {
                    "name": "nodeorder",
                    "arguments": {"leastrequested.weight": "2", "tainttoleration.weight": "3"},
                },
                {"name": "binpack", "arguments": {"binpack.weight": 10}},
                {"name": "numaaware", "enableNodeOrder": False, "weight": 10},
            ]
        },
    ],
    "metrics": {"type": "prometheus", "interval": "30s"},
}


DEFAULT_OF_KAI = {
    "actions": "allocate, consolidation, reclaim, preempt, stalegangeviction",
    "tiers": [
        {
            "plugins": [
                *({"name": name} for name in ("predicates", "proportion", "priority")),
                *({"name": name} for name in ("nodeavailability", "resourcetype", "podaffinity")),
                *({"name": name} for name in ("elastic", "kubeflow", "ray", "subgrouporder")),
                *({"name": name} for name in ("taskorder", "nominatednode", "dynamicresources")),
                *({"name": name} for name in ("minruntime", "topology", "snapshot", "gpupack")),
                {"name": "nodeplacement", "arguments": {"cpu": "binpack", "gpu": "binpack"}},
                {"name": "gpusharingorder"},
            ]
        }
    ],
}


def read(mapping: Any, **more: Any) -> SchedulerConfig:
    return SchedulerConfig.from_mapping(mapping, unknown="notice", **more)


def plugins_of(config: SchedulerConfig) -> list[list[str]]:
    return [[plugin.name for plugin in tier.plugins] for tier in config.tiers]


def said(notices: tuple[Notice, ...]) -> list[tuple[NoticeCode, str, tuple[str, ...]]]:
    return [(notice.code, notice.field, notice.examples) for notice in notices]


def test_the_default_configuration_of_volcano_is_read() -> None:
    config = read(DEFAULT_OF_VOLCANO)
    Scheduler(config)
    assert [action.name for action in config.actions] == ["allocate", "backfill"]
    assert plugins_of(config) == [
        ["priority", "gang", "conformance"],
        ["drf", "predicates", "proportion", "nodeorder"],
    ]
    assert config.tiers[1].plugins[0].flags == {"enablePreemptable": False}
    assert said(config.notices) == [
        (NoticeCode.NOT_MODELLED, "enqueue", ("actions[0]",)),
        (NoticeCode.NOT_MODELLED, "binpack", ("tiers[1].plugins[5]",)),
        (NoticeCode.NOT_MODELLED, "overcommit", ("tiers[1].plugins[0]",)),
    ]


def test_the_default_configuration_of_kai_is_read() -> None:
    config = read(DEFAULT_OF_KAI)
    assert [action.name for action in config.actions] == ["allocate", "reclaim", "preempt"]
    assert plugins_of(config) == [["predicates", "proportion", "priority", "topology"]]
    assert {notice.code for notice in config.notices} == {NoticeCode.NOT_MODELLED}
    assert len(config.notices) == 17


def test_what_people_set_in_configurations_of_kai_is_no_mistake() -> None:
    arguments = {"kValue": "2.0", "relcaimerSaturationMultiplier": "1.5"}
    plugins = [{"name": "proportion", "arguments": arguments}]
    plugins += [{"name": "gpuspread"}, {"name": "numa"}, {"name": "reflectjoborder"}]
    keys = {"queueDepthPerAction": {"reclaim": 5}, "usageDBConfig": {"clientType": "prometheus"}}
    config = read({"actions": "allocate", "tiers": [{"plugins": plugins}]} | keys)
    assert [notice.field for notice in config.notices] == [
        *("kValue", "relcaimerSaturationMultiplier", "queueDepthPerAction", "usageDBConfig"),
        *("gpuspread", "numa", "reflectjoborder"),
    ]
    assert {notice.code for notice in config.notices} == {NoticeCode.NOT_MODELLED}


def test_everything_that_is_not_known_is_left_out_with_a_notice() -> None:
    config = read(OF_A_TRAINING_CLUSTER)
    Scheduler(config)
    assert plugins_of(config) == [
        ["priority", "gang", "conformance"],
        ["drf", "predicates", "proportion", "nodeorder"],
    ]
    drf, predicates, _, nodeorder = config.tiers[1].plugins
    assert drf.flags == {"enablePreemptable": False}
    assert predicates.arguments == {"predicate.MemoryPressureEnable": "true"}
    assert nodeorder.arguments == {"leastrequested.weight": "2"}
    assert config.actions[0].arguments == {"unready": "discard"}
    assert said(config.notices) == [
        (NoticeCode.NOT_MODELLED, "enqueue", ("actions[0]",)),
        (
            NoticeCode.NOT_MODELLED,
            "predicate.GPUSharingEnable",
            ("tiers[1].plugins[1].arguments['predicate.GPUSharingEnable']",),
        ),
        (
            NoticeCode.UNKNOWN_ARGUMENT,
            "resources",
            ("tiers[1].plugins[1].arguments['resources']",),
        ),
        (
            NoticeCode.NOT_MODELLED,
            "tainttoleration.weight",
            ("tiers[1].plugins[3].arguments['tainttoleration.weight']",),
        ),
        (NoticeCode.NOT_MODELLED, "enableHierarchy", ("tiers[1].plugins[0].enableHierarchy",)),
        (NoticeCode.NOT_MODELLED, "enableJobStarving", ("tiers[0].plugins[1].enableJobStarving",)),
        (NoticeCode.UNKNOWN_FLAG, "weight", ("tiers[1].plugins[5].weight",)),
        (NoticeCode.NOT_MODELLED, "metrics", ("metrics",)),
        (NoticeCode.NOT_MODELLED, "binpack", ("tiers[1].plugins[4]",)),
        (NoticeCode.NOT_MODELLED, "numaaware", ("tiers[1].plugins[5]",)),
        (NoticeCode.UNKNOWN_PLUGIN, "own-sla", ("tiers[0].plugins[3]",)),
        (NoticeCode.UNKNOWN_PLUGIN, "own-tdm", ("tiers[0].plugins[4]",)),
    ]


def test_every_notice_says_what_follows() -> None:
    notices = {notice.field: notice for notice in read(OF_A_TRAINING_CLUSTER).notices}
    assert notices["numaaware"].consequence == "left out: nodes are not split by NUMA zone"
    assert notices["enableHierarchy"].consequence.startswith("has no effect: ")
    assert str(notices["metrics"]) == (
        "1 x key metrics: left out: the measured load of nodes is not considered (metrics)"
    )


def test_one_notice_tells_of_a_flag_at_several_plugins() -> None:
    config = read(
        {
            "tiers": [
                {"plugins": [{"name": "gang", "enableBestNode": 1}]},
                {"plugins": [{"name": "drf", "enableBestNode": True}]},
            ]
        }
    )
    (notice,) = config.notices
    assert (notice.count, notice.kind) == (2, "flag")
    assert notice.examples == (
        "tiers[0].plugins[0].enableBestNode",
        "tiers[1].plugins[0].enableBestNode",
    )


def test_a_misspelt_name_is_left_out_with_what_may_be_meant() -> None:
    config = read({"actions": "alocate", "tiers": [{"plugins": ["drff"]}], "tier": []})
    assert [notice.consequence for notice in config.notices] == [
        "left out; did you mean 'allocate'?",
        "left out; did you mean 'tiers'?",
        "left out; did you mean 'drf'?",
    ]
    assert config.actions == ()


def test_what_a_registry_of_ones_own_has_is_known() -> None:
    registry = Registry()
    registry.register_plugin("binpack", lambda arguments: _Own(arguments.integer("x", default=1)))
    config = read(
        {"tiers": [{"plugins": [{"name": "binpack", "arguments": {"x": 2, "y": 3}}, "drf"]}]},
        registry=registry,
    )
    assert plugins_of(config) == [["binpack"]]
    assert config.tiers[0].plugins[0].arguments == {"x": 2}
    assert [notice.field for notice in config.notices] == ["allocate", "backfill", "y", "drf"]


class _Own:
    def __init__(self, x: int) -> None:
        self.x = x

    def open(self, _view: object) -> object:
        return object()


@pytest.mark.parametrize(
    ("mapping", "path"),
    [
        (
            {"tiers": [{"plugins": ["sla", {"name": "drf", "enableJobOrder": "perhaps"}]}]},
            "tiers[0].plugins[1].enableJobOrder",
        ),
        (
            {
                "actions": [
                    "enqueue",
                    {"name": "allocate", "arguments": {"unready": "x", "more": [1]}},
                ]
            },
            "actions[1].arguments['unready']",
        ),
        (
            {"actions": [{"name": "allocate", "arguments": {"evictBackfill": [True]}}]},
            "actions[0].arguments['evictBackfill']",
        ),
        ({"tiers": [{"plugins": ["sla", "gang", "gang"]}]}, "tiers[0].plugins[2]"),
        ({"tiers": 5}, "tiers"),
        (None, ""),
    ],
)
def test_what_is_known_and_wrong_is_a_fault_all_the_same(mapping: Any, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(mapping)
    assert [fault.path for fault in caught.value.faults] == [path]


def test_by_default_everything_unknown_is_a_fault() -> None:
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(OF_A_TRAINING_CLUSTER)
    paths = {fault.path for fault in caught.value.faults}
    named = {path for notice in read(OF_A_TRAINING_CLUSTER).notices for path in notice.examples}
    assert {path for path in named if "arguments['resources']" not in path} - paths == set()
    assert "tiers[0].plugins[4].arguments['zones']" in paths


def test_arguments_of_an_action_that_does_not_run_are_left_out() -> None:
    config = read(
        {"actions": "allocate", "configurations": [{"name": "reserve", "arguments": {"x": 1}}]}
    )
    assert [str(notice) for notice in config.notices] == [
        "1 x arguments of reserve: left out: the action does not run (configurations[0])"
    ]


def test_nothing_else_is_meant_by_a_flag_that_volcano_knows() -> None:
    config = {"tiers": [{"plugins": [{"name": "gang", "enableJobStarving": False}]}]}
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(config)
    assert str(caught.value) == (
        "tiers[0].plugins[0].enableJobStarving: this flag of Volcano is not supported; "
        'remove it, or read the configuration with unknown="notice"'
    )
    misspelt = {"tiers": [{"plugins": [{"name": "gang", "enableJobOder": False}]}]}
    with pytest.raises(ConfigError, match="did you mean 'enableJobOrder'"):
        SchedulerConfig.from_mapping(misspelt)


def test_notices_are_no_part_of_what_a_configuration_is() -> None:
    config = read(DEFAULT_OF_VOLCANO)
    same = SchedulerConfig(actions=config.actions, tiers=config.tiers)
    assert config == same
    assert hash(config) == hash(same)
    assert same.notices == ()


def test_unknown_is_one_of_two_words() -> None:
    wrong: Any = "warn"
    with pytest.raises(ConfigError, match="unknown: expected 'fault' or 'notice', got 'warn'"):
        SchedulerConfig.from_mapping({}, unknown=wrong)


def test_volcanos_usage_is_told_from_the_plugin_of_that_name() -> None:
    plugin = {"name": "usage", "arguments": {"usage.weight": 5, "thresholds": {"cpu": 80}}}
    given = {"tiers": [{"plugins": [plugin, "gang"]}]}
    config = SchedulerConfig.from_mapping(given, unknown="notice")
    assert [str(notice).partition(": ")[0] for notice in config.notices] == [
        "1 x argument thresholds",
        "1 x argument usage.weight",
    ]
    assert all("the measured load of nodes is not considered" in str(n) for n in config.notices)
