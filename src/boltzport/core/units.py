"""The one unit system: nm, kJ/mol, K, radian, elementary charge, dalton."""

BOLTZMANN = 0.00831446261815324
"""Molar gas constant in kJ/mol/K (exact in the SI of 2019)."""


def thermal_energy(temperature: float) -> float:
    """Thermal energy kT in kJ/mol at a temperature in K.

    Example:
        >>> round(thermal_energy(300.0), 4)
        2.4943
    """
    return BOLTZMANN * temperature
