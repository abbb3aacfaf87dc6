"""Build snapshots that are valid by construction from drawn bytes.

A draft consists of bytes only, which are fast to draw and shrink well: 0 is always the simplest
choice. To draw as little as possible, a byte holds two choices: the more important one is the
remainder modulo 16. Which bytes matter depends on the features of the example.
"""
