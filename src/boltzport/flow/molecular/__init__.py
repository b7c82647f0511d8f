"""The flow made for molecules."""
