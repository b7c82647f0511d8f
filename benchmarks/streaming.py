"""Memory of sampling: peak memory of each mode for n frames and for a tenth of them, in one process.

RUN is a run directory, a system whose flow ships, or a toy, whose flow is then trained for seconds only. Run:
OMP_NUM_THREADS=1 python benchmarks/streaming.py RUN [RUN] [-n N] [--modes plain,defensive,...]
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boltzport as bp
from boltzport.experiments import Model, load
from boltzport.targets import TOYS

MODES = {
    "plain": {},
    "defensive": {"defensive": 0.05},
    "resampled": {"mode": "resampled"},
    "annealed": {"anneal": 1},
    "chain": {"mode": "chain"},
}


@contextmanager
def watched() -> Iterator[list[float]]:
    """Resident memory in MB, many times a second."""
    seen, done = [], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            seen.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def measure(model: Model, n: int, options: dict) -> dict[str, float]:
    """Peak memory in MB, processor time in seconds and size of the files in MB."""
    with tempfile.TemporaryDirectory() as folder, watched() as seen:
        path = Path(folder) / ("frames.npz" if model.molecule is None else "frames.dcd")
        start = time.process_time()
        model.write(path, n, seed=0, **options)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        seconds = time.process_time() - start
    return {"peak_mb": round(max(seen)), "seconds": round(seconds, 1), "files_mb": round(size, 1)}


def opened(run: str, seed: int) -> Model:
    """A trained model; that of a toy is hardly trained, which does not change its memory."""
    if run not in TOYS:
        return load(run)
    settings = bp.CMT(steps=4, gradient_steps=50, buffer_size=4000, batch_size=500)
    return bp.train(run, method=settings, preset="quick", seed=seed, progress=False)


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+")
    parser.add_argument("-n", type=float, default=1e6)
    parser.add_argument("--modes", default=",".join([*MODES, "mixed"]))
    arguments = parser.parse_args()
    models = [opened(run, seed) for seed, run in enumerate([arguments.runs[0], arguments.runs[-1]])]
    model, n, found = models[0], int(arguments.n), {}
    mixed = bp.mix(*models, shares="equal")
    for mode in arguments.modes.split(","):
        used = mixed if mode == "mixed" else model
        sizes = [max(n // 100, 100), n // 10, n]
        found[mode] = {f"{size:g}": measure(used, size, MODES.get(mode, {})) for size in sizes}
        print(mode, json.dumps(found[mode]), flush=True)


if __name__ == "__main__":
    main()
