# Two commands: `make run` answers a prompt with the demo model, `make test` runs every check.
# Both need python3 (3.11 or newer), make and a C compiler, and put all that they install into .venv.
# `make bench` compares with llama.cpp and PyTorch, which it builds and installs into build/bench and .venv-bench.

PYTHON ?= python3
PROMPT ?= What is photosynthesis?
TOKENS ?= 256

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-slow bench bench-serve clean

run: .venv/ready-to-run
	$(BIN)/met fetch smollm2
	$(BIN)/met run smollm2 "$(PROMPT)" -n $(TOKENS)

# Tests start met as a process: without Python's cache of compiled modules, each compiles all that it imports.
test test-slow: export PYTHONDONTWRITEBYTECODE :=

test: .venv/ready-to-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

# Everything, with the demo model and its oracle too; takes long.
test-slow: .venv/ready-to-test
	$(BIN)/met fetch smollm2
	$(BIN)/pytest

# BENCH holds further words of `python -m bench.run`, such as BENCH='--quick --formats Q4_1'.
bench: .venv/ready-to-run .venv-bench/ready
	$(BIN)/met fetch smollm2
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench.models
	$(BIN)/python -m bench.run $(BENCH)

# met's server beside llama.cpp's own under load; SERVE holds further words of `python -m bench.serve`.
bench-serve: .venv/ready-to-run .venv-bench/ready
	$(BIN)/met fetch smollm2
	$(BIN)/python -m bench.peers --server
	$(BIN)/python -m bench.serve $(SERVE)

clean:
	rm -rf .venv .venv-bench build dist

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

# The versions that the figures in bench/results were made with.
.venv-bench/ready: bench/requirements.txt | .venv/bin/python
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
