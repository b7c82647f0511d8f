"""Boltzmann ensembles of molecules by constrained mass transport."""

__version__ = "0.1.0"

__all__ = ["__version__"]
