PYTHON ?= python3
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-quick setup lock bench screenshots

# authzconsole/ops is started as the top-level package `ops`, because authzconsole imports Django, which may be missing yet
OPS = cd authzconsole && exec $(PYTHON) -m ops

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run:  ## install what is missing and start the console at http://127.0.0.1:8000 (PORT=8123 make run: elsewhere)
	@$(OPS).run

test:  ## install what is missing and run every test, on SQLite and on PostgreSQL
	@$(OPS).suite

test-quick:  ## run in a minute what needs neither Spark, a browser nor a worker, on SQLite
	@$(OPS).suite --quick

setup:  ## only install what is missing; then `.venv/bin/python manage.py ...` works
	@$(OPS).setup

# A `uv.lock` would record the addresses of the package index; these locks work with every mirror.
COMPILE = .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet \
	--custom-compile-command "make lock" $(LOCK_OPTIONS)

lock:  ## write requirements/ from pyproject.toml (LOCK_OPTIONS=--upgrade: the newest versions)
	@test -x .venv/bin/uv || $(MAKE) --no-print-directory setup
	@$(COMPILE) --group uv -o requirements/uv.txt >/dev/null
	@$(COMPILE) --group build -o requirements/build.txt >/dev/null
	@$(COMPILE) --group dev pyproject.toml -o requirements/dev.txt >/dev/null
	@$(COMPILE) --constraints requirements/dev.txt pyproject.toml -o requirements/run.txt >/dev/null
	@echo "requirements/ is up to date. make setup installs what changed."

bench:  ## run the benchmarks; each prints its ratio against its reference
	@$(OPS).bench

screenshots:  ## take a picture of every page into docs/screens/, from a throwaway console with the demo tenant
	@$(OPS).screenshots
