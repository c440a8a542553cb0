PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: run test test-all check docs clean

run: $(STAMP)  ## from nothing to a committee and its report: handwritten digits, in runs/digits
	$(BIN)/quorate run digits

test: $(STAMP)  ## everything that takes under 20 seconds each
	$(BIN)/python -m pytest -n 2 -m "not heavy" --durations=15

test-all: $(STAMP)
	$(BIN)/python -m pytest -n 2 --durations=15

check: $(STAMP)  ## format, lint, types, import contracts, documentation, examples
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python examples/digits_votes.py --check

docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv docs/_build build dist
