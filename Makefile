# Every target sets up what it needs. `make help` lists them.
PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup lock fmt lint types test test-fast soak bench demo verify build clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  %-11s %s\n", $$1, $$2}'

setup: ## make .venv with the locked dependencies and the three members
	@tools/setup

lock: setup ## resolve the dependencies again into requirements.lock
	tools/lock

fmt: setup ## format the code and apply the safe lint fixes
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

lint: setup ## every static check: format, lint, types, import layers, sizes, words, lock
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	@$(MAKE) --no-print-directory types
	.venv/bin/lint-imports
	$(PYTHON) tools/check_sizes.py
	$(PYTHON) tools/check_words.py
	tools/lock --check

types: setup ## mypy, strict
	$(PYTHON) -m mypy

test: lint ## everything that proves the code (not soak, not bench)
	$(PYTHON) -m pytest -n auto

test-fast: setup ## tests that need no server and no cluster
	$(PYTHON) -m pytest -n auto -m "not postgres and not kubernetes and not slow"
