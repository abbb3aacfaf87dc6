"""The action plan: starts that are planned by what is expected to end when."""
