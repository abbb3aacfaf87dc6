"""The built-in plugins, each in a module or folder."""
