"""How many nats closer to the target the informed layout starts than the paper's.

Samples come from a short OpenMM simulation at the training temperature, which is long enough for the stiff coordinates
that the two layouts treat differently. The mean of log q_informed - log q_paper over them is the difference of the two
Kullback-Leibler divergences KL(p || q_0). Run: python benchmarks/layout.py [--json] [SYSTEM ...]
"""

import argparse
import json
import sys

import numpy as np
import openmm
import openmm.unit
import torch

from boltzport.core.layout import Layout
from boltzport.energies import ForceField, RegularisedEnergy, extract
from boltzport.flows import LAPTOP, CouplingFlow, Flow
from boltzport.molecules import SYSTEMS, Molecule
from boltzport.targets.boltzmann import informed_layout, paper_layout


def simulate(molecule: Molecule, *, frames: int, every: int = 200, seed: int = 1) -> torch.Tensor:
    """Positions in nm of frames of Langevin dynamics, `every` femtoseconds apart, after some equilibration."""
    integrator = openmm.LangevinMiddleIntegrator(molecule.temperature, 1.0, 0.001)
    integrator.setRandomNumberSeed(seed)
    context = openmm.Context(molecule.system, integrator, openmm.Platform.getPlatform("CPU"), {"Threads": "1"})
    context.setPositions(molecule.positions)
    context.setVelocitiesToTemperature(molecule.temperature, seed)
    integrator.step(20 * every)
    positions = []
    for _ in range(frames):
        integrator.step(every)
        state = context.getState(positions=True)
        positions.append(state.getPositions(asNumpy=True).value_in_unit(openmm.unit.nanometer))
    return torch.from_numpy(np.array(positions, dtype=np.float64))


def base(layout: Layout) -> Flow:
    """A new flow, which is its base density."""
    return CouplingFlow(layout, LAPTOP, generator=torch.Generator().manual_seed(0), compiled=False).double()


def measure(molecule: Molecule, *, frames: int) -> dict[str, object]:
    """Compare the two layouts of one molecule."""
    energy = ForceField(extract(molecule.system), compiled=False)
    reduced = RegularisedEnergy(energy, temperature=molecule.temperature)
    flows = {"paper": base(paper_layout(molecule)), "informed": base(informed_layout(molecule, energy))}
    coordinates = molecule.coordinates.to_internal(simulate(molecule, frames=frames)).coordinates
    result: dict[str, object] = {"system": molecule.name, "frames": frames}
    means = {}
    with torch.no_grad():
        for name, flow in flows.items():
            log_q = flow.log_prob(coordinates)
            inside = log_q.isfinite()
            means[name] = float(log_q[inside].mean())
            drawn = flow.sample(2000, generator=torch.Generator().manual_seed(2))
            energies = reduced(molecule.coordinates.to_cartesian(drawn).positions)
            result[f"outside_{name}"] = int((~inside).sum())
            result[f"median_reduced_energy_{name}"] = round(float(energies.median()), 1)
    result["nats_closer"] = round(means["informed"] - means["paper"], 1)
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=[entry.name for entry in SYSTEMS])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--frames", type=int, default=500)
    options = parser.parse_args()
    rows = [measure(Molecule(name), frames=options.frames) for name in options.systems]
    if options.json:
        sys.stdout.write(json.dumps({"systems": rows}, indent=2) + "\n")
        return
    for row in rows:
        print(
            f"{row['system']:22s} starts {row['nats_closer']} nats closer; median reduced energy of the base "
            f"{row['median_reduced_energy_informed']:g} kT instead of {row['median_reduced_energy_paper']:g} "
            f"(frames outside the box: {row['outside_informed']} and {row['outside_paper']} of {row['frames']})"
        )


if __name__ == "__main__":
    main()
