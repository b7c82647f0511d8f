"""Constrained mass transport."""
