"""Settings with which a molecule, or a toy, trains in seconds, in the place of a preset that takes minutes."""

METHOD = {
    "steps": 2,
    "gradient_steps": 3,
    "buffer_size": 300,
    "refine": 1,
    "refine_buffer": 300,
    "refine_steps": 2,
    "stiff_steps": 2,
    "stiff_batch": 50,
    "refine_stiff_steps": 2,
    "refine_stiff_batch": 50,
    "pool": 1,
}
FLOW = {"bins": 4, "torsion_hidden": (8,), "hidden": (16,), "pairs": 1}
CODE = f"method=bp.CMT(**{METHOD}), flow=bp.Molecular(**{FLOW})"
"""The same as arguments of `bp.train`."""
TOY = ("steps=2", "gradient_steps=1", "buffer_size=100", "batch_size=50", "pairs=1", "hidden=8", "average=0", "reuse=0")
"""Settings of a toy, as `--set` takes them."""
