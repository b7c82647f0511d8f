# Every target makes what it needs; from a bare clone `make run` and `make test` are enough.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: run test check lint format bench docs wheel clean

run: $(INSTALLED)
	$(BIN)/boltzport train alanine-dipeptide --preset quick

test: $(INSTALLED) lint
	$(BIN)/pytest -n 2 --dist worksteal --durations=20

check: $(INSTALLED) lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/coordinates.py
	$(BIN)/boltzport bench flow
	$(BIN)/boltzport bench energy

docs: $(INSTALLED)
	$(BIN)/python docs/api.py
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

wheel: $(INSTALLED)
	rm -rf build/lib
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist

$(INSTALLED): pyproject.toml constraints.txt
	@echo "installing into .venv: a few minutes, once"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -qq --disable-pip-version-check --root-user-action=ignore -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
