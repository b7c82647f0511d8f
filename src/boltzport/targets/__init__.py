"""Targets: densities to be sampled, and the layouts of their spaces."""

from boltzport.targets.layout import informed_layout, paper_layout

__all__ = ["informed_layout", "paper_layout"]
