"""Reference ensembles."""
