"""Examples run as they are, and show what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_annealing_paths_show_what_the_papers_caption_says(tmp_path: Path) -> None:
    picture = tmp_path / "paths.png"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    command = [sys.executable, str(EXAMPLES / "annealing_paths.py"), str(picture)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout
    assert picture.stat().st_size > 20_000
    pattern = r"(.*): (\d+) steps, largest ([\d.]+) nats, least mass of the far mode ([\d.e+-]+)"
    found = {title: (float(largest), float(least)) for title, _, largest, least in re.findall(pattern, printed)}
    start = found["both"][1]
    # The trust region evens the steps out, but gives up the far mode, which then comes back from nowhere.
    assert found["trust region"][0] < 0.11 < found["linear schedule"][0]
    assert found["trust region"][1] < start / 10
    # The entropy constraint keeps it, at the price of a first step that nothing overlaps with.
    assert found["entropy"][0] > 3.0
    # Both together keep it with small steps: its mass never falls below what the initial density has there.
    assert found["both"][0] < 0.11
    assert found["entropy"][1] == start > 1e-4
