"""The flow for molecules."""
