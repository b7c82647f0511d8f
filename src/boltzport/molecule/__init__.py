"""Molecules and their internal coordinates."""
