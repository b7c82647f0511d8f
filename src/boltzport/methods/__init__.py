"""Methods: ways to train a flow on a target."""
