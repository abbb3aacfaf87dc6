"""Random workloads."""

from __future__ import annotations

from hypothesis import strategies as st

from batchsched.simulation import Job, Workload


@st.composite
def workloads(draw: st.DrawFn, *, most: int = 14, bounds: bool = True) -> Workload:
    """Draw jobs on a small machine, crowded so that many things happen at one instant."""
    processors = draw(st.integers(1, 6))
    # With two users and short times, ties are the rule.
    time = st.integers(0, 12)
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, most))):
        run = draw(time)
        more = draw(st.integers(0 if bounds else -5, 6))
        jobs.append(
            Job(
                id=number,
                submit=draw(time),
                run=run,
                processors=draw(st.integers(1, processors)),
                requested=max(1, run + more),
                user=draw(st.integers(0, 1)),
                queue=draw(st.sampled_from(["a", "b"])),
            )
        )
    return Workload(draw(st.permutations(jobs))).on(nodes=processors)
