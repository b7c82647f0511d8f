"""Time the parts of a step of SOAP on the stiff half of a trained flow, with random gradients.

OMP_NUM_THREADS=1 python benchmarks/soap.py alanine-dipeptide
"""

import json
import sys
import time
from unittest import mock

import torch

from boltzport.core.files import RunDirectory
from boltzport.experiments import run_path
from boltzport.flows import HalvedFlow, load_flow
from boltzport.training import soap

NEVER, STEPS = 10**9, 40


def main() -> None:
    """Print one JSON object: milliseconds of processor time of a step."""
    flow = load_flow(RunDirectory(run_path(sys.argv[1])).flow, compiled=False)
    assert isinstance(flow, HalvedFlow)
    parameters, generator = list(flow.stiff_parameters), torch.Generator().manual_seed(0)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimiser = soap.Soap(parameters, lr=1e-4)
    optimiser.step()
    found = {}
    for name, look, every in (
        ("step", soap.LOOK, soap.EVERY),
        ("rotations and update", NEVER, NEVER),
        ("with second moments", soap.LOOK, NEVER),
        ("with eigenvectors", NEVER, soap.EVERY),
    ):
        with mock.patch.object(soap, "LOOK", look), mock.patch.object(soap, "EVERY", every):
            begin = time.process_time()
            for _ in range(STEPS):
                optimiser.step()
            found[name] = 1e3 * (time.process_time() - begin) / STEPS
    matrices = [tuple(parameter.shape) for parameter in parameters if parameter.ndim == 2]
    print(json.dumps({"matrices": len(matrices), "tensors": len(parameters), "milliseconds": found}, indent=2))


if __name__ == "__main__":
    main()
