"""From drawn numbers to a snapshot that is valid by construction.

A draft holds nothing but bytes, which is quick to draw and shrinks well: 0 is always the simplest
choice. A byte of a draft holds two choices, to draw as little as possible: the one that matters
most is the remainder by 16. Which of the numbers mean anything depends on the features that the
example uses.
"""
