"""Laws for plugins: rules that every plugin must follow, whatever it decides.

`check_plugin` opens sessions with your plugin on drawn snapshots, calls all its methods, changes
the session, calls them again, rolls the changes back, and calls them once more. A violation is
reported with the smallest example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from warnings import warn

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.config.registry import PluginFactory
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import PluginError
from batchsched.model.snapshot import Snapshot
from batchsched.plugin.arguments import ArgumentValue
from batchsched.plugin.extension_points import Plugin
from batchsched.testing.drawing.pools import Switches
from batchsched.testing.drawing.snapshots import given_or_default, same_each_time, snapshots
from batchsched.testing.laws.asking import ANSWERS
from batchsched.testing.laws.cycles import (
    AnswersSeen,
    VacuityWarning,
    check_isolation,
)
from batchsched.testing.laws.rules import CHECKS, check_stability
from batchsched.testing.laws.trial import KINDS, LawViolation, Move, Subject

__all__ = ["LawViolation", "VacuityWarning", "check_plugin", "default_examples"]


_NONE: Mapping[str, ArgumentValue] = {}


def check_plugin(
    plugin: Plugin | PluginFactory | type[Plugin],
    *,
    name: str = "under-test",
    arguments: Mapping[str, ArgumentValue] = _NONE,
    examples: SearchStrategy[Snapshot] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    config: SchedulerConfig | None = None,
    max_examples: int = 100,
    shrink: bool = True,
) -> None:
    """Run a plugin through generated sessions, and report the first law that it breaks.

    The laws: its methods return what their extension points require, and never raise. Equal
    calls return equal answers, and calls change nothing. Keys of jobs and queues depend only on the
    job or queue; keys of tasks are constant. Predicates and scores respect their declared scope
    (`Reads`) and agree with their `signature`, and so do choices where a cycle would ask for them;
    `normalise` depends only on its arguments. Verdicts
    agree with `claimant_key` (and then read only the permitted accounts) and `shielded`. After a
    statement is discarded, every answer but that key is as before. No state leaks from cycle to
    cycle: neither answers nor results depend on earlier cycles. The other hints, and state that is
    kept on purpose (`resume`), are for `check_plain`.

    The examples are the same in every run.

    Args:
        plugin: a configured plugin, or a factory (a function of `Arguments`, or a class) as given
            to `Registry.register_plugin`. A configured plugin is copied (`copy.deepcopy`) before it
            is opened, if possible, to run cycles with one that has not seen any. If your plugin
            cannot be copied, a factory finds more leaks.
        name: the name of the plugin in the report.
        arguments: the arguments of the plugin, if a factory is given.
        examples: the snapshots to try; by default small ones with all features of `snapshots()`,
            half of them without constraints, so that more tasks are placed and evicted.
        labels: keys and values of labels for the default examples (see `snapshots`). None: those
            that the plugin or its class declares as a mapping ``reads_labels``.
        config: the configuration to use; it must name the plugin. By default the plugin is in a
            tier before those of the default configuration.
        max_examples: the number of examples to try.
        shrink: whether to search for the smallest example; if not, the first one is reported,
            which takes a tenth of the time.

    Raises:
        LawViolation: the plugin breaks a law; Hypothesis adds the example as a note.
        ValueError: `config` does not name the plugin; or both labels and examples are given (use
            ``examples=snapshots(labels=...)``).

    Warns:
        VacuityWarning: no law was broken, but a predicate, score, key, choice, limit or verdict was
            the same in all examples, because what it reads never varied. The warning names the
            arguments to pass. There is none for fewer than twenty different examples.

    >>> from batchsched.plugins.drf import DrfPlugin
    >>> check_plugin(DrfPlugin(), max_examples=5)
    """
    subject = Subject(plugin, name, arguments, config)
    if examples is None and labels is None:
        labels = subject.declared_labels()
    drawn = given_or_default(examples, labels, default_examples)
    seen = AnswersSeen()
    one_move = st.builds(Move, st.integers(0, KINDS - 1), st.integers(0, 15))
    moves = st.lists(one_move, min_size=1, max_size=5)

    @same_each_time(max_examples, shrink=shrink)
    @given(snapshot=drawn, other=drawn, moves=moves, is_repeated=st.booleans())
    def keeps_the_laws(
        snapshot: Snapshot, other: Snapshot, moves: list[Move], is_repeated: bool
    ) -> None:
        try:
            trial = subject.open(snapshot)
            answers = check_stability(trial)
            for check in CHECKS:
                check(trial, moves)
            seen.note(trial, answers)
            # This runs several cycles, which takes much longer than everything else.
            if is_repeated:
                check_isolation(subject, trial, snapshot, other)
        except PluginError as error:
            raise LawViolation(
                subject.name, error.extension_point, ANSWERS, error.problem, snapshot
            ) from error

    keeps_the_laws()
    for text in seen.vacuous(name):
        warn(text, VacuityWarning, stacklevel=2)


SIMPLE: Switches = {
    "invalid_jobs": False,
    "constraints": False,
    "affinity": False,
    "scalars": False,
    "init_requests": False,
    "reservations": False,
    "groups": False,
}
"""The switches of `snapshots` for clusters without constraints."""


def default_examples(labels: Mapping[str, Sequence[str]] | None) -> SearchStrategy[Snapshot]:
    """Draw small snapshots with all features, half of them without constraints."""
    simple = snapshots(max_nodes=3, max_jobs=4, max_tasks=3, labels=labels, **SIMPLE)
    return st.one_of(snapshots(max_nodes=3, max_jobs=4, max_tasks=3, labels=labels), simple)
