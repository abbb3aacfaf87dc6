"""The placement engine on arrays (extra ``fast``): the only place where NumPy is used."""
