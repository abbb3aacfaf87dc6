"""What a scheduler is configured with: tiers of plugins, actions, and their registry."""
