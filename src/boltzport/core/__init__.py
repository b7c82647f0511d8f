"""What every other package may use; each module is public."""
