"""``ForceField``: energies and forces of batches of any size, in bounded memory, compiled if possible."""

import logging
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.energies.checks import check_positions
from boltzport.energies.differentiate import (
    BatchOfEnergies,
    EnergyAndForces,
    differentiable_energy,
)
from boltzport.energies.tensors.kernel import LARGEST_COORDINATE, EnergyAndGradient, Kernel
from boltzport.energies.tensors.parameters import Parameters, Term

_LOG = logging.getLogger(__name__)

# Configurations side by side in a tile: one AVX-512 register of float32. A tile of 75 atoms is then 14 kB,
# which stays in the L1 cache during the loop over its pairs. A GPU needs a warp or more.
_LANES = {"cpu": 16}
_LANES_ELSEWHERE = 128
# Pairs of atoms, summed over configurations, that are processed at once: intermediate results of the gradient's
# passes stay in the cache, all threads have work, and memory is bounded.
_COMPILED_BLOCK = {"cpu": 3_000_000}
_COMPILED_BLOCK_ELSEWHERE = 50_000_000
_EAGER_BLOCK = 1_000_000


class ForceField(torch.nn.Module):
    """An OpenMM force field as a torch module: energies and forces of a batch of configurations.

    Positions are (batch, atoms, 3) in nm; device and precision follow them, and memory does not grow with the batch.
    Energies can be differentiated once with respect to positions. The constants are not trainable: the module has no
    torch parameters.

    Args:
        constants: Parameters that ``extract`` reads from an OpenMM System.
        compiled: Whether to compile the kernels with ``torch.compile`` on first use (some seconds; cached on disk).
            Without a compiler, the same code runs uncompiled and a warning is logged.

    Example:
        >>> from boltzport.molecules import Molecule
        >>> molecule = Molecule("ACE-ALA-NME")
        >>> field = ForceField.from_system(molecule.system, compiled=False)
        >>> positions = torch.from_numpy(molecule.positions).expand(1000, -1, -1)
        >>> field(positions).shape, field.energy_and_forces(positions).forces.shape
        (torch.Size([1000]), torch.Size([1000, 22, 3]))
    """

    def __init__(self, constants: Parameters, *, compiled: bool = True) -> None:
        super().__init__()
        self.constants = constants
        self._compiled = compiled
        self._bound: dict[tuple[torch.device, torch.dtype], _Bound] = {}

    @classmethod
    def from_system(cls, system: Any, *, compiled: bool = True) -> "ForceField":
        """Translate the force field of an ``openmm.System``.

        Args:
            system: Any ``openmm.System`` without cutoff, in vacuum or in implicit solvent.
            compiled: Whether to compile the kernels on first use.

        Raises:
            InputError: A force cannot be translated; the message names it. ``OpenMMEnergy`` accepts any force.
        """
        # Imported here because it needs OpenMM, which is not needed if the constants are given.
        from boltzport.energies.tensors.extract import extract

        return cls(extract(system), compiled=compiled)

    @staticmethod
    def term_of(force: Any) -> Term | None:
        """The term to which an OpenMM force contributes; None if it has no energy."""
        from boltzport.energies.tensors.extract import term_of

        return term_of(force)

    @property
    def differentiable(self) -> bool:
        """Whether there are forces: always true."""
        return True

    @property
    def atoms(self) -> int:
        """Number of atoms."""
        return self.constants.atoms

    def forward(self, positions: Tensor) -> BatchOfEnergies:
        """Energies in kJ/mol of positions in nm; NaN where a position is NaN."""
        self._check(positions)
        if positions.requires_grad and torch.is_grad_enabled():
            return differentiable_energy(positions, self._energy_and_forces)
        return self._in_blocks("energy", positions.detach())[0]

    def energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        """Energies in kJ/mol and forces in kJ/mol/nm of positions in nm."""
        self._check(positions)
        return self._energy_and_forces(positions)

    def energy_terms(self, positions: Tensor) -> dict[Term, BatchOfEnergies]:
        """Energies in kJ/mol of each kind of term; they add up to the energy."""
        self._check(positions)
        columns = self._in_blocks("terms", positions.detach())
        return dict(zip(self.constants.terms, columns, strict=True))

    def _check(self, positions: Tensor) -> None:
        bonds = self.constants.bonds
        check_positions(
            positions,
            atoms=self.constants.atoms,
            bonds=torch.empty(0, 2, dtype=torch.long) if bonds is None else bonds.atoms,
            lengths=torch.empty(0, dtype=torch.float64) if bonds is None else bonds.length,
        )

    def _energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        energies, forces = self._in_blocks("energy_and_gradient", positions.detach())
        return EnergyAndForces(energies, forces)

    def _in_blocks(self, name: str, positions: Tensor) -> tuple[Tensor, ...]:
        """Evaluate a batch block by block.

        Args:
            name: name of a kernel function.
            positions: (batch, atoms, 3) in nm.

        Returns:
            Energies of the batch; with the gradient also forces; with the terms one column each.
        """
        # A compiled function around this one must not trace into it: it compiles its own kernels.
        columns: tuple[Tensor, ...] = torch.compiler.disable(self._blocks)(name, positions)  # type: ignore[no-untyped-call]
        return columns

    @torch.no_grad()
    def _blocks(self, name: str, positions: Tensor) -> tuple[Tensor, ...]:
        key = (positions.device, positions.dtype)
        if key not in self._bound:
            self._bound[key] = _Bound(self.constants, *key, compiled=self._compiled)
        bound = self._bound[key]
        batch, atoms = positions.shape[:2]
        count = len(self.constants.terms) if name == "terms" else 1
        outputs = [positions.new_empty(batch) for _ in range(count)]
        if name == "energy_and_gradient":
            outputs.append(torch.empty_like(positions, memory_format=torch.contiguous_format))
        block, lanes = bound.block(name, atoms)
        for start in range(0, batch, block):
            results = bound.evaluate(name, positions[start : start + block], lanes)
            for output, result in zip(outputs, results, strict=True):
                output[start : start + block] = result
        return tuple(outputs)


class _Bound:
    """A kernel on one device in one precision, with its compiled functions."""

    def __init__(self, parameters: Parameters, device: torch.device, dtype: torch.dtype, *, compiled: bool) -> None:
        self.kernel = Kernel(parameters, device, dtype)
        self._compiled = compiled
        self._budget = _COMPILED_BLOCK.get(device.type, _COMPILED_BLOCK_ELSEWHERE)
        self._lanes = _LANES.get(device.type, _LANES_ELSEWHERE)
        self._compiled_kernel = Kernel(parameters, device, dtype)
        self._compiled_kernel.transform_stages(_compiled_stage)

    def _compiles(self, name: str) -> bool:
        # A breakdown is for inspection; it is not worth a compilation.
        return self._compiled and name != "terms"

    def block(self, name: str, atoms: int) -> tuple[int, int]:
        """Number of configurations in a block and in a tile."""
        if not self._compiles(name):
            block = max(1, _EAGER_BLOCK // atoms**2)
            return block, block
        return max(1, self._budget // atoms**2 // self._lanes) * self._lanes, self._lanes

    def evaluate(self, name: str, part: Float[Tensor, "batch atoms 3"], lanes: int) -> list[Tensor]:
        """Evaluate some configurations as tiles of ``lanes``."""
        count, atoms = part.shape[:2]
        # A single tile would be compiled as a special case.
        tiles = max(-(-count // lanes), 2) if self._compiles(name) else 1
        lanes = lanes if self._compiles(name) else count
        padded = part
        if tiles * lanes != count:
            padded = torch.cat([part, part[-1:].expand(tiles * lanes - count, atoms, 3)])
        laid_out = padded.reshape(tiles, lanes, atoms, 3).permute(0, 3, 2, 1).contiguous()
        result = self._run(name, laid_out.clamp_(-LARGEST_COORDINATE, LARGEST_COORDINATE))
        if isinstance(result, dict):
            return [column.reshape(-1)[:count] for column in result.values()]
        if isinstance(result, EnergyAndGradient):
            gradient = result.gradient.permute(0, 3, 2, 1).reshape(tiles * lanes, atoms, 3)[:count]
            # A clipped coordinate has no influence on the energy.
            forces = gradient.neg().masked_fill_(part.abs() > LARGEST_COORDINATE, 0.0)
            return [result.energy.reshape(-1)[:count], forces]
        return [result.reshape(-1)[:count]]

    def _run(self, name: str, tiles: Tensor) -> Any:
        """Call a function of the kernel, compiled if that works here."""
        if self._compiles(name):
            try:
                return getattr(self._compiled_kernel, name)(tiles)
            except Exception as error:  # a missing compiler raises one of a dozen types
                reason = str(error).strip().splitlines() or [type(error).__name__]
                _LOG.warning("the force field runs uncompiled, about ten times slower: %s", reason[0])
                self._compiled = False
        return getattr(self.kernel, name)(tiles)


def _compiled_stage(stage: Any) -> Callable[..., Any]:
    """A stage of a kernel, compiled on first use for any number of tiles."""
    # The number of threads is compiled in, but without this it is not part of the key of the cache on disk: a
    # kernel that was once compiled for one thread would always be used.
    options: dict[str, Any] = {"cpp.threads": torch.get_num_threads()}
    compiled = torch.compile(_with_own_code(stage), fullgraph=True, options=options)
    fresh = True

    def call(*arguments: Any) -> Any:
        nonlocal fresh
        if fresh:
            for tensor in torch.utils._pytree.tree_leaves(arguments):
                if isinstance(tensor, Tensor) and tensor.ndim > 2:
                    torch._dynamo.maybe_mark_dynamic(tensor, 0)
        result = compiled(*arguments)
        fresh = False
        return result

    return call


def _with_own_code(method: Any) -> Callable[[Tensor], Any]:
    """Copy a method with its own code object.

    ``torch.compile`` counts recompilations by code object and gives up after a few; a force field needs one.
    """
    code = method.__func__.__code__
    copy = FunctionType(code.replace(), method.__func__.__globals__, code.co_name, None, method.__func__.__closure__)
    return MethodType(copy, method.__self__)
