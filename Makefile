# Two commands: `make run` answers a prompt with the demo model, `make test` runs every check.
# Both need python3 (3.11 or newer), make and a C compiler, and put all that they install into .venv.

PYTHON ?= python3
PROMPT ?= What is photosynthesis?
TOKENS ?= 256

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-slow clean

run: .venv/ready-to-run
	$(BIN)/met fetch smollm2
	$(BIN)/met run smollm2 "$(PROMPT)" -n $(TOKENS)

test: .venv/ready-to-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

# Everything, with the demo model and its oracle too; takes long.
test-slow: .venv/ready-to-test
	$(BIN)/met fetch smollm2
	$(BIN)/pytest

clean:
	rm -rf .venv build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than 3.11"; echo "  = fix: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/ready-to-run: pyproject.toml | .venv/bin/python
	$(PIP) -e .
	@touch $@

# torch comes first: its CPU build, where one is at hand, satisfies every later requirement.
.venv/ready-to-test: pyproject.toml | .venv/bin/python
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev,oracle]'
	@touch $@ .venv/ready-to-run
