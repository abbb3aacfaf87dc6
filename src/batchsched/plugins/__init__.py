"""The seven plugins, one module each."""
