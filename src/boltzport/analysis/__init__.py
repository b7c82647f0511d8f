"""What a model is worth: `metrics` of arrays, and `evaluation` of a flow on its target."""
