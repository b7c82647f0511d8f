"""What this machine has and how fast it is, beside other libraries. Benchmarks time the parts of other packages."""
