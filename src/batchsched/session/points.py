"""Extension points: which plugins have them, which answers make sense, and how these become one.

`RULES` says of each extension point how the answers of plugins are combined; `PluginSet` asks by
it. Whatever a plugin raises, or answers without sense, becomes a `PluginError` that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from inspect import Parameter, signature
from itertools import chain
from math import isfinite, isnan
from numbers import Integral, Real
from operator import attrgetter
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

from attrs import fields

from batchsched.errors import PluginError, SnapshotError, plugin_error
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.result import QueueOutcome
from batchsched.model.texts import similar_name
from batchsched.model.validation.values import shown
from batchsched.plugin.candidates import NodeSet
from batchsched.plugin.extension_points import (
    Hints,
    NothingToDo,
    Plugin,
    Refused,
    Vote,
)
from batchsched.plugin.node_functions import EvictionHints, NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import QueueState

FunctionT = TypeVar("FunctionT")

Named = tuple[str, FunctionT]
"""A plugin's name and one of its functions."""

Tiers = Sequence[Sequence[Named[Callable[..., Any]]]]
"""The functions of an extension point, tier by tier, with the names of their plugins."""


# Which answers make sense

Wrong = tuple[str, object] | None
"""What was expected, and what was answered instead; None: nothing is wrong."""


def _must_be(expected: str, is_so: Callable[[Any], bool]) -> Callable[..., Wrong]:
    def wrong(answer: object, *_asked: object) -> Wrong:
        return None if is_so(answer) else (expected, answer)

    return wrong


def _never(_answer: object) -> bool:
    return False


def _is_claim(answer: object) -> bool:
    points = (
        *("allows", "at_most", "begin", "changes", "may_take", "nodes_at", "short_of_limits"),
        *("victims", "why_not"),
    )
    return isinstance(answer, Unfit) or all(hasattr(answer, each) for each in points)


def _wrong_condition(answer: Any) -> Wrong:
    _job, condition = answer
    return None if isinstance(condition, JobCondition) else ("a JobCondition", condition)


def _wrong_outcomes(answer: object, *_asked: object) -> Wrong:
    """Return what is wrong with the outcomes of queues. O(queues)."""
    if not isinstance(answer, Mapping):
        return "a mapping of the names of queues to QueueOutcomes", answer
    given = cast("Mapping[object, object]", answer)
    if {*map(type, given)} <= {str} and {*map(type, given.values())} <= {QueueOutcome}:
        return None  # the usual case, with thousands of queues
    for queue, outcome in given.items():
        if not isinstance(queue, str):
            return "the name of a queue", queue
        if not isinstance(outcome, QueueOutcome):
            return f"a QueueOutcome for queue {queue!r}", outcome
    return None


def _wrong_score(answer: object) -> Wrong:
    if not isinstance(answer, NodeScore):
        return "a NodeScore", answer
    weight = answer.weight
    is_sound = type(weight) in (int, float) and isfinite(weight)
    return None if is_sound else ("a finite number as the weight of a score", weight)


def _wrong_share(answer: object, _queue: object) -> Wrong:
    parts = ("what the queue deserves", "what it has")
    items = _items(answer)
    is_pair = items is not None and len(items) == len(parts)
    return None if is_pair else (f"{' and '.join(parts)}, or None", answer)


def _wrong_weights(answer: object, siblings: Sequence[QueueState], _dimension: int) -> Wrong:
    """Return what is wrong with weights, unless they are one for each sibling. O(siblings)."""
    weights = _items(answer)
    if (
        weights is not None
        and len(weights) == len(siblings)
        and all(isinstance(weight, Integral) and int(weight) >= 0 for weight in weights)
    ):
        return None
    return f"{len(siblings)} integers, 0 or more, one for each queue", answer


def _are_numbers(answer: object) -> bool:
    items = _items(answer)
    return items is not None and (
        _NUMBERS.issuperset(map(type, items)) or all(isinstance(item, Real) for item in items)
    )


_NUMBERS = frozenset({int, float})


def _is_hashable(answer: object) -> bool:
    try:
        frozenset((answer,))
    except TypeError:
        return False
    return True


def _are_integers(answer: object) -> bool:
    return isinstance(answer, tuple) and all(
        type(each) is int for each in cast("tuple[object, ...]", answer)
    )


def _items(answer: object) -> Sequence[object] | None:
    is_sequence = type(answer) in (tuple, list) or isinstance(answer, Sequence)
    return cast("Sequence[object]", answer) if is_sequence else None


# How answers are combined


class Attribute(Enum):
    """Whether `PluginSet` has an attribute of the name of an extension point: what asks it."""

    NONE = auto()
    """None: methods of `PluginSet` ask, and do more than the rule says."""
    ALWAYS = auto()
    """The combined function, also where no plugin has the point."""
    IF_ASKED = auto()
    """The combined function, or None where no plugin has the point."""
    LISTED = auto()
    """What the combined function returns: it is asked once, when all plugins are open."""


class PointRule(NamedTuple):
    """How the answers of plugins at an extension point are combined, and which make sense."""

    combine: Callable[[PointRule, str, Tiers], Callable[..., Any]]
    """Returns one function that asks all plugins: given this rule, the point, the functions."""
    wrong: Callable[..., Wrong] = lambda *_: None
    """Returns what is wrong with an answer, given the answer and what was asked."""
    sound: type | tuple[()] = ()
    """Answers of this type make sense without a closer look."""
    ties: str = ""
    """The attribute that breaks ties of keys and of the time of creation; empty: none does."""
    attribute: Attribute = Attribute.NONE
    may_refuse: bool = True
    """Whether a plugin may refuse something to a job here, other than to all tasks of a kind."""
    is_vote: bool = False
    """Whether plugins vote here on whether a job is ready, or hear what changes their votes."""

    def check(self, name: str, point: str, answer: object, *asked: object) -> None:
        """Raise an error for an answer that makes no sense."""
        wrong = self.wrong(answer, *asked)
        if wrong is not None:
            expected, given = wrong
            raise PluginError(name, point, f"expected {expected}, got {shown(given)}")


def _keys(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns the keys of all plugins, one after the other.

    A queue is ranked with a need; a plugin that takes no need ignores it.
    """
    functions = [
        (name, function, point == "queue_order_key" and takes_need(function))
        for name, function in chain.from_iterable(tiers)
    ]
    tied = attrgetter("info.creation_time", rule.ties) if rule.ties else None

    def ask(asked: Any, need: Need | None = None) -> tuple[object, ...]:
        key: list[object] = []
        name = ""
        try:
            for name, function, by_need in functions:
                answer = function(asked, need) if by_need else function(asked)
                if type(answer) is float and isnan(answer):
                    rule.check(name, point, answer)
                key.append(answer)
        except Exception as error:
            raise plugin_error(name, point, error) from error
        return tuple(key) if tied is None else (*key, *tied(asked))

    return ask


def _votes(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns whether plugins permit something.

    Tier by tier, a rejection decides, or else a permission; without any, True.
    """

    def ask(asked: Any) -> bool:
        for tier in tiers:
            is_permitted = False
            for name, function in tier:
                try:
                    vote = function(asked)
                except Exception as error:
                    raise plugin_error(name, point, error) from error
                if vote is True or vote is Vote.PERMIT:
                    is_permitted = True
                elif vote is False or vote is Vote.REJECT:
                    return False
                elif vote is not Vote.ABSTAIN:
                    rule.check(name, point, vote)
            if is_permitted:
                return True
        return True

    def ask_the_only_one(asked: Any) -> bool:
        # Called several times for each task; nearly all votes take this path.
        try:
            vote = only(asked)
        except Exception as error:
            raise plugin_error(only_name, point, error) from error
        return vote if vote is True or vote is False else ask(asked)

    if [len(tier) for tier in tiers] != [1]:
        return ask
    ((only_name, only),) = tiers[0]
    return ask_the_only_one


def _first(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns the first answer that is not None."""
    functions, sound = [*chain.from_iterable(tiers)], rule.sound

    def ask(*asked: Any) -> Any:
        for name, function in functions:
            try:
                answer = function(*asked)
            except Exception as error:
                raise plugin_error(name, point, error) from error
            if answer is not None:
                if not isinstance(answer, sound):
                    rule.check(name, point, answer, *asked)
                return answer
        return None

    return ask


def _of_first_plugin(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that asks only the first plugin."""
    functions = [*chain.from_iterable(tiers)][:1]

    def ask(*asked: Any) -> Any:
        for name, function in functions:
            try:
                answer = function(*asked)
            except Exception as error:
                raise plugin_error(name, point, error) from error
            rule.check(name, point, answer, *asked)
            return answer
        return None

    return ask


def _of_only_plugin(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that asks the only plugin; there must not be a second one."""
    names = [name for name, _ in chain.from_iterable(tiers)]
    if len(names) > 1:
        problem = f"only one plugin may have it, and {names[0]!r} has it"
        raise PluginError(names[1], point, problem)
    return _of_first_plugin(rule, point, tiers)


def _each(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns a function of each plugin, by name."""

    def asking(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*asked: Any, **more: Any) -> Any:
            try:
                answer = function(*asked, **more)
            except Exception as error:
                raise plugin_error(name, point, error) from error
            rule.check(name, point, answer)
            return answer

        return ask

    by_name = {name: asking(name, each) for name, each in chain.from_iterable(tiers)}
    return lambda: by_name


def _decided_by(
    decisive: bool,
) -> Callable[[PointRule, str, Tiers], Callable[..., bool]]:
    """Return what combines answers: the first plugin with this one decides, else it is the other.

    True: whether any plugin says so. False: whether all do.
    """

    def combine(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., bool]:
        functions = [*chain.from_iterable(tiers)]

        def ask(*asked: Any) -> bool:
            for name, function in functions:
                try:
                    answer = function(*asked)
                except Exception as error:
                    raise plugin_error(name, point, error) from error
                if answer is not True and answer is not False:
                    rule.check(name, point, answer)
                if bool(answer) is decisive:
                    return decisive
            return not decisive

        return ask

    return combine


def _sum(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns the sum of all answers."""
    functions = [*chain.from_iterable(tiers)]

    def ask(*asked: Any) -> float:
        total: float = 0
        for name, function in functions:
            try:
                answer = function(*asked)
                rule.check(name, point, answer)
                total += answer
            except Exception as error:
                raise plugin_error(name, point, error) from error
        return total

    return ask


def _all(rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns what all plugins list, with the plugins' names."""
    functions, sound = [*chain.from_iterable(tiers)], rule.sound

    def ask() -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for name, function in functions:
            try:
                for item in function():
                    if not isinstance(item, sound) and rule.wrong(item) is not None:
                        rule.check(name, point, item)
                    found.append((name, item))
            except Exception as error:
                raise plugin_error(name, point, error) from error
        return found

    return ask


def _told(_rule: PointRule, point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that tells all plugins."""
    functions = [*chain.from_iterable(tiers)]

    def tell(*told: Any) -> None:
        for name, function in functions:
            try:
                function(*told)
            except Exception as error:
                raise plugin_error(name, point, error) from error

    return tell


def _functions(_rule: PointRule, _point: str, tiers: Tiers) -> Callable[..., Any]:
    """Return a function that returns the functions of all plugins, in order of tier."""
    functions = [*chain.from_iterable(tiers)]
    return lambda: functions


_ORDERED = _must_be("a key that can be ordered", _never)
_BOOL = _must_be("a bool", lambda answer: answer in (True, False))
_HASHABLE = _must_be("something that can be hashed", _is_hashable)
_VOTE = PointRule(
    _votes, _must_be("a Vote or a bool", _never), attribute=Attribute.ALWAYS, is_vote=True
)
_TOLD = PointRule(_told, attribute=Attribute.IF_ASKED)
_HEARD = PointRule(_told, is_vote=True)


def _order(ties: str = "", attribute: Attribute = Attribute.NONE) -> PointRule:
    return PointRule(_keys, _ORDERED, ties=ties, attribute=attribute, may_refuse=False)


RULES: Mapping[str, PointRule] = {
    # Orders
    "job_order_key": _order("uid", Attribute.ALWAYS),
    "job_order_shares": PointRule(_each, _HASHABLE, may_refuse=False),
    "queue_order_key": _order("name", Attribute.ALWAYS),
    "need_order_key": _order(),
    "task_order_key": _order("uid"),
    # Jobs
    "job_valid": PointRule(
        _first,
        _must_be("a JobCondition", _never),
        sound=JobCondition,
        attribute=Attribute.ALWAYS,
    ),
    "job_ready": _VOTE,
    "job_pipelined": _VOTE,
    "job_condition_ready": _VOTE,
    "may_claim": PointRule(_decided_by(False), _BOOL, attribute=Attribute.ALWAYS),
    "claim_refusal": PointRule(
        _first,
        _must_be("a Refused or None", _never),
        sound=Refused,
        attribute=Attribute.IF_ASKED,
    ),
    # Queues
    "overused": PointRule(_decided_by(True), _BOOL, attribute=Attribute.ALWAYS),
    "allocatable": PointRule(
        _first, _must_be("an Unfit or None", _never), sound=Unfit, attribute=Attribute.ALWAYS
    ),
    "most_allocatable": PointRule(
        _first,
        _must_be("a sequence of numbers, or None", _are_numbers),
        attribute=Attribute.ALWAYS,
    ),
    "queue_share": PointRule(_first, _wrong_share, attribute=Attribute.ALWAYS),
    "queue_outcomes": PointRule(_of_first_plugin, _wrong_outcomes),
    "surplus_weights": PointRule(_of_first_plugin, _wrong_weights, attribute=Attribute.IF_ASKED),
    "past_use_key": PointRule(
        _of_first_plugin,
        _must_be("a number", lambda key: isinstance(key, Real) and not isnan(key)),
        attribute=Attribute.IF_ASKED,
    ),
    "claim": PointRule(_of_first_plugin, _must_be("a Claim or Unfit", _is_claim)),
    "may_leave_together": PointRule(_decided_by(False), _BOOL, attribute=Attribute.IF_ASKED),
    "eviction_price": PointRule(
        _sum, _must_be("a finite number", isfinite), attribute=Attribute.IF_ASKED
    ),
    # Nodes
    "predicates": PointRule(
        _all,
        _must_be("a Predicate", _never),
        sound=Predicate,
        attribute=Attribute.LISTED,
        may_refuse=False,
    ),
    "node_scores": PointRule(_all, _wrong_score, may_refuse=False),
    "node_key": PointRule(
        _of_only_plugin,
        _must_be("a tuple of integers", _are_integers),
        attribute=Attribute.IF_ASKED,
    ),
    "node_key_signature": PointRule(_of_only_plugin, _HASHABLE, attribute=Attribute.IF_ASKED),
    "choose": PointRule(
        _each, _must_be("something that can be hashed, Unfit or None", _is_hashable)
    ),
    "choice_signature": PointRule(_each, _HASHABLE),
    "node_order_on_resource": PointRule(
        _sum,
        _must_be("a finite number", lambda score: isfinite(0.0 + score)),
        attribute=Attribute.ALWAYS,
        may_refuse=False,
    ),
    # Sets of nodes
    "candidate_nodes": PointRule(_functions, attribute=Attribute.LISTED),
    "second_try": PointRule(_functions, attribute=Attribute.LISTED),
    "domains": PointRule(
        _all, _must_be("a NodeSet", _never), sound=NodeSet, attribute=Attribute.ALWAYS
    ),
    "group_order_key": PointRule(_keys, _ORDERED, attribute=Attribute.ALWAYS),
    # Events
    "jobs_admitted": PointRule(_told, attribute=Attribute.ALWAYS),
    "on_turn_begin": _TOLD,
    "on_turn_end": _TOLD,
    "on_allocate": _HEARD,
    "on_deallocate": _HEARD,
    "close": PointRule(_all, _wrong_condition),
}
"""How answers are combined and checked; of verdicts, `batchsched.session.victims` says it."""

POINTS = (
    *RULES,
    *("preemptable", "reclaimable", "revocable", "verdict_reasons", "refused_until"),
    *("refused_by", "hints"),
)
"""The names of the extension points, which are the names of their methods."""


HINTS: tuple[str, ...] = tuple(field.name for field in fields(EvictionHints))
"""The names of the hints for verdicts."""


# Opening


class ConfiguredPlugin(NamedTuple):
    """A plugin with its options in a configuration."""

    name: str
    tier: int
    plugin: Plugin
    disabled: frozenset[str] = frozenset()
    """The disabled extension points, by method name; see `ENABLE_FLAGS`."""


class OpenedPlugin(NamedTuple):
    """The object that a plugin opened for a cycle, with its extension points."""

    name: str
    tier: int
    object: object
    points: frozenset[str]
    """Its enabled extension points, by method name."""
    hints: EvictionHints
    """Its performance hints."""


def open_plugin(configured: ConfiguredPlugin, view: SessionView) -> OpenedPlugin:
    """Open a plugin for a cycle; see `points_of`."""
    name = configured.name
    try:
        opened = configured.plugin.open(view)
    except SnapshotError:  # what it is given is wrong, not the plugin
        raise
    except Exception as error:
        raise plugin_error(name, "open", error) from error
    enabled = points_of(name, opened) - configured.disabled
    hints = EvictionHints()
    if "hints" in enabled:
        try:
            hints = cast("Hints", opened).hints()
        except Exception as error:
            raise plugin_error(name, "hints", error) from error
        if not isinstance(cast("object", hints), EvictionHints):
            raise PluginError(name, "hints", f"expected EvictionHints, got {shown(hints)}")
    return OpenedPlugin(name, configured.tier, opened, enabled, hints)


_SIGNED = (
    *(("node_key_signature", "node_key"), ("choice_signature", "choose")),
    ("job_order_shares", "job_order_key"),
)
"""Extension points that declare what others read."""


def points_of(plugin: str, opened: object) -> frozenset[str]:
    """Return the extension points of the object that a plugin's `open` returned.

    Raises:
        PluginError: it has none, has a method whose name is similar to one, has `on_allocate`
            without `on_deallocate` or a signature without its function, or has methods named like
            hints and no method `hints`.

    """
    if isinstance(opened, NothingToDo):
        return frozenset()
    kind = opened.__class__
    misspelt = _misspelt(cast("Hashable", kind))
    points = frozenset([point for point in POINTS if getattr(opened, point, None) is not None])
    lost = next((name for name in HINTS if hasattr(kind, name)), None)
    lonely = next((each for each in _SIGNED if each[0] in points and each[1] not in points), None)
    problem = ""
    if misspelt is not None:
        method, point = misspelt
        problem = f"unknown extension point {method!r}; did you mean {point!r}?"
    elif not points:
        known = ", ".join(POINTS)
        problem = f"expected an object with extension points ({known}), got {kind.__name__}"
    elif lonely is not None:
        problem = f"expected {lonely[1]} with {lonely[0]}, got only that in {kind.__name__}"
    elif "node_key_signature" in points and "node_key" not in points:
        problem = f"expected node_key with node_key_signature, got only that in {kind.__name__}"
    elif not {"domains", "group_order_key"}.isdisjoint(points) and "candidate_nodes" not in points:
        problem = f"expected candidate_nodes with what is asked for its sets in {kind.__name__}"
    elif "on_allocate" in points and "on_deallocate" not in points:
        problem = (
            f"expected on_allocate and on_deallocate, got only on_allocate in {kind.__name__}; "
            "what a placement adds must be subtracted when the placement is undone"
        )
    elif lost is not None and "hints" not in points:
        problem = f"{lost!r} is a hint, not an extension point; return it from hints()"
    if problem:
        raise PluginError(plugin, "open", problem)
    return points


@lru_cache(maxsize=256)
def _misspelt(kind: Hashable) -> tuple[str, str] | None:
    """Return a method whose name is similar to an extension point, and the extension point."""
    for method in dir(kind):
        if method.startswith("_") or method in POINTS or not callable(getattr(kind, method)):
            continue
        similar = similar_name(method, POINTS, similarity=0.85)
        if similar is not None:
            return method, similar
    return None


def takes_need(function: object) -> bool:
    """Return whether a `queue_order_key` takes a need in addition to the queue."""
    method = getattr(function, "__func__", None)
    if isinstance(method, FunctionType):
        return _required_by_method(method) > 1
    return _count_required(function) > 1


@lru_cache(maxsize=256)
def _required_by_method(method: FunctionType) -> int:
    # All plugins of a class have the same methods, and looking at a signature takes long.
    return _count_required(method) - 1  # without the object itself


def _count_required(function: object) -> int:
    try:
        parameters = signature(cast("Callable[[], object]", function)).parameters.values()
    except (TypeError, ValueError):  # built-in functions may have no signature
        return 0
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in positional and p.default is Parameter.empty]
    return len(required)
