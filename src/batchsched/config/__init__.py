"""The configuration of a scheduler: tiers of plugins, actions, and their registry."""
