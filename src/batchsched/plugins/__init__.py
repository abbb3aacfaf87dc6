"""The seven plugins, one module each (specification, section 6)."""
