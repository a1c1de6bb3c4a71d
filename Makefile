# Every target sets up what it needs; `make help` lists them.
# ARGS goes to pytest: make test ARGS="tests/worker -k seal"

PYTHON := .venv/bin/python
MEMBERS := migrations worker operator
ARGS ?=
KUBERNETES ?=
JOBS ?= 3000
BENCH ?=
MINUTES ?= 10
SOAK ?=

.DEFAULT_GOAL := help
.PHONY: help setup system-packages lock fmt lint types generate verify test test-fast test-field soak soak-kube bench bench-kube \
    demo build clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) \
	    | awk -F'|' '{ printf "  %-16s %s\n", $$1, $$2 }'

setup: ## make .venv: the locked dependencies and the three distributions, editable
	@tools/setup

system-packages: ## install what tests need of the system, or say what is missing
	@.ci/system-packages

lock: setup ## resolve the dependencies anew into requirements.lock
	tools/lock --upgrade
	$(PYTHON) tools/image_locks.py

fmt: setup ## format the code and apply safe fixes
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

lint: setup types verify ## every static check
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	.venv/bin/lint-imports --no-cache
	$(PYTHON) tools/check_sizes.py
	$(PYTHON) tools/check_content.py

types: setup ## mypy, strict
	$(PYTHON) -m mypy

generate: setup ## write every generated file anew
	$(PYTHON) tools/settings_page.py
	$(PYTHON) tools/metrics_page.py
	$(PYTHON) tools/cli_page.py
	$(PYTHON) -m awa.manifest docs/reference/queue.md
	$(PYTHON) -m awa.manifest --crd crds/queue.yaml
	$(PYTHON) -m awa.manifest --crd charts/awa-crds/templates/queue.yaml --keep
	$(PYTHON) tools/dashboards.py
	$(PYTHON) tools/values_page.py
	$(PYTHON) tools/operator_page.py
	$(PYTHON) tools/install_manifest.py

verify: setup ## fail when a generated file is stale
	tools/lock --check
	$(PYTHON) tools/image_locks.py --check
	$(PYTHON) tools/settings_page.py --check
	$(PYTHON) tools/metrics_page.py --check
	$(PYTHON) tools/cli_page.py --check
	$(PYTHON) -m awa.manifest --check docs/reference/queue.md
	$(PYTHON) -m awa.manifest --check --crd crds/queue.yaml
	$(PYTHON) -m awa.manifest --check --crd charts/awa-crds/templates/queue.yaml --keep
	$(PYTHON) tools/dashboards.py --check
	$(PYTHON) tools/values_page.py --check
	$(PYTHON) tools/operator_page.py --check
	$(PYTHON) -m awa_migrations.checksums

test: lint system-packages ## prove everything: static checks and all tests
	$(PYTHON) -m pytest -n auto $(ARGS)

test-fast: setup ## the tests that take no cluster and no minutes
	$(PYTHON) -m pytest -n auto -m "not kubernetes and not slow" $(ARGS)

test-kube: setup system-packages ## the tests on a cluster; KUBERNETES=1.34 takes that minor
	$(PYTHON) -m pytest -n auto -m kubernetes $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(ARGS)

test-field: setup system-packages ## field cases and pitfalls in the sizes of their recipes, which takes long
	AWA_TEST_FULL_SIZE=1 $(PYTHON) -m pytest tests/field tests/operator/pitfalls tests/worker/process/test_configuration.py $(ARGS)

soak: setup system-packages ## randomised proof of the queue for MINUTES=10; SOAK="--seed 7 --only fill_disk"
	$(PYTHON) -m bench.soak --minutes $(MINUTES) $(SOAK)

soak-kube: setup system-packages ## the same on a cluster: pods, API server, node and rollouts
	$(PYTHON) -m bench.soak_kube --minutes $(MINUTES)

bench: setup ## measure against the baseline; BENCH=throughput REPS=5; BENCH="--help"
	$(PYTHON) -m bench $(BENCH) $(if $(REPS),--reps $(REPS))

bench-kube: setup ## measure the operator on a cluster; BENCH="--queues 1,100"
	$(PYTHON) -m bench.kube $(BENCH)

demo: setup ## run the main job: thumbnails of a few hundred images, with an embedded PostgreSQL
	.venv/bin/awa demo

demo-kube: setup system-packages ## the same on a Kubernetes: images, charts, operator, JOBS=3000
	PYTHONPATH=tests $(PYTHON) -m cluster.demo --jobs $(JOBS) \
	    $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

build: setup ## wheels and source archives of the three distributions, in dist/
	@for member in $(MEMBERS); do (cd $$member && ../$(PYTHON) -m hatchling build -d ../dist) || exit; done

clean: ## remove everything that can be made again (data in .awa/ stays)
	rm -rf dist .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
