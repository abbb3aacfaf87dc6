"""Shapes of tasks: several tasks of an example share one, so that they are equal."""

from __future__ import annotations

from attrs import frozen

from batchsched.model.cluster import ScoringRequest
from batchsched.model.resources import Resource
from batchsched.testing.drafts.features import Features
from batchsched.testing.drafts.pools import GIB, REQUESTS, with_devices

__all__ = ["SIMPLE", "Shape", "ShapeDraft", "shape_of"]

ShapeDraft = bytes
"""More to start and request, affinity and constraints, labels."""


@frozen(kw_only=True)
class Shape:
    """The requests of a task, and the positions of its constraints, affinities and labels."""

    resreq: Resource
    init_resreq: Resource | None
    scoring_request: ScoringRequest | None
    constraints: int
    affinity: int
    labels: int


def shape_of(draft: ShapeDraft, features: Features) -> Shape:
    """Return the shape that a draft describes, with the features that are on."""
    extra, request = divmod(draft[0], 16)
    affinity, constraints = divmod(draft[1], 16)
    labels = draft[2]
    pool = REQUESTS if features.best_effort else REQUESTS[:-2]
    resreq = pool[request % len(pool)]
    init_resreq: Resource | None = None
    scoring: ScoringRequest | None = None
    if features.scalars:
        resreq = with_devices(resreq, (0, 0, 0, 1, 2)[extra % 5], int(extra % 7 == 1))
    if features.init_requests:
        if extra % 4 == 1:
            more = Resource(milli_cpu=2000) if extra % 8 == 1 else Resource(memory=3 * GIB)
            init_resreq = resreq.max_with(more)
        if extra % 6 == 2:
            scoring = ScoringRequest(milli_cpu=100 * (extra % 3), memory=extra % 3 * GIB)
    return Shape(
        resreq=resreq,
        init_resreq=init_resreq,
        scoring_request=scoring,
        constraints=constraints if features.constraints else 0,
        affinity=affinity if features.affinity else 0,
        labels=labels if features.affinity else 0,
    )


SIMPLE = shape_of(bytes(3), Features())
"""The shape that requests one CPU and has no constraints."""
