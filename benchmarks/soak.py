"""A long training in short steps: its memory and its open files after each hundredth of it.

python benchmarks/soak.py 2000
"""

import gc
import resource
import sys
import tempfile
from pathlib import Path

from boltzport.core.files import RunDirectory
from boltzport.experiments import launch, request, run_training
from boltzport.training import Training

SHORT = ("gradient_steps=2", "buffer_size=200", "batch_size=50", "pairs=1", "hidden=8", "average=0", "reuse=0")


def soak(steps: int, folder: Path) -> None:
    """Train, and print the memory in MB and the number of open files as the steps pass."""
    keep, every = launch.keep_step, max(1, steps // 20)

    def measured(training: Training, directory: RunDirectory) -> None:
        keep(training, directory)
        if training.state.step % every == 0:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            files = len(list(Path("/proc/self/fd").iterdir()))
            print(
                f"{training.state.step:6d} {1e-6 * pages * resource.getpagesize():8.1f} MB {files:4d} files", flush=True
            )

    vars(launch)["keep_step"] = measured
    settings = [*SHORT, f"steps={steps}", "trust_region=0.05"]
    run_training(request("gmm-2d", preset="quick", settings=settings), folder / "run", silent=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        soak(int(sys.argv[1]), Path(made))
