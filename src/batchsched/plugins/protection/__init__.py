"""The plugin protection: who must not be evicted, or not yet, and how many may be.

`plugin` asks one rule after the other; `rules` has what belongs to a job, its queue and the clock,
and what is never lent; `counted` what is counted over all that leave: budgets and limits.
"""
