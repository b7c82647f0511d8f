"""Speed of energies by tensors, compared with OpenMM on all cores: ``python benchmarks/energy.py [--json]``."""

import argparse
import json
import sys

from boltzport.bench.energy import benchmark_systems, benchmark_table


def main() -> None:
    """Measure the paper's systems and print a table, or JSON on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--seconds", type=float, default=1.0, help="approximate duration of one timing")
    parser.add_argument("systems", nargs="*")
    arguments = parser.parse_args()
    result = benchmark_systems(
        arguments.systems, seconds=arguments.seconds, report=lambda line: print(line, file=sys.stderr)
    )
    print(json.dumps(result) if arguments.json else benchmark_table(result))


if __name__ == "__main__":
    main()
