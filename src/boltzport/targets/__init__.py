"""Targets: densities to be sampled, without a word of molecules."""

from boltzport.targets.base import CallableTarget, CountedTarget, Evaluated, Ledger, Purpose, Target

__all__ = ["CallableTarget", "CountedTarget", "Evaluated", "Ledger", "Purpose", "Target"]
