# The developers' whole interface: `make` alone lists it.
MAKEFLAGS += --no-print-directory
PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup demo test check coverage bench campaign simulate docs lock clean

help:  ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup:  ## Make .venv with everything Parley needs to run
	@scripts/setup

demo: setup  ## Watch three agents and a person talk through a hub of their own
	@$(PY) -m scripts.demo

test: check  ## Run the checks and every test, in random order
	@$(PY) -m scripts.run_tests $(ARGS)

check:  ## Lint, formatting, types and import rules
	@scripts/setup --test
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet . || { echo "run: $(PY) -m ruff format ." >&2; exit 1; }
	@$(PY) -m pyright
	@.venv/bin/lint-imports --no-cache --no-logo

coverage:  ## Run every test and hold branch coverage above its floors
	@scripts/setup --test
	@$(PY) -m pytest -q -n 2 --dist loadgroup --cov --cov-report= $(ARGS)
	@$(PY) -m coverage report --fail-under=85
	@$(PY) -m coverage report --fail-under=95 --include='*/parley/core/*,*/parley/sqlite/*,*/parley/wire/*'
	@$(PY) -m coverage report --fail-under=95 --include='*/parley/broker/rules/*,*/parley/daemon/outbox/*,*/parley/daemon/inbox/*'

bench:  ## Measure the hub beside Redis Streams and NATS JetStream; prints JSON
	@scripts/setup --bench
	@$(PY) -m bench $(ARGS)

campaign:  ## The long crash, power-cut and full-disk runs
	@scripts/setup --test
	@$(PY) -m tests.campaign $(ARGS)

simulate:  ## Whole meshes under every kind of trouble, from SEEDS (such as 7 or 0-59)
	@scripts/setup --test
	@$(PY) -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

docs: setup  ## Write the generated parts of docs/ again
	@$(PY) -m scripts.docs

lock:  ## Resolve requirements/*.lock again (ARGS=--upgrade takes the newest)
	@scripts/lock $(ARGS)

clean:  ## Remove what the other targets made
	@rm -rf .venv build dist .coverage .coverage.* htmlcov .pytest_cache .ruff_cache .hypothesis .campaign
	@find src tests scripts bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
