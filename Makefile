PYTHON ?= python3
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-quick setup lock bench screenshots

# `ops` is started from inside authzconsole/, so that its package is imported without Django and Celery, which may not be here yet
OPS = cd authzconsole && exec $(PYTHON) -m ops

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run:  ## set up what is missing and start the console at http://127.0.0.1:8000 (PORT=8123 make run: elsewhere)
	@$(OPS).run

test:  ## set up what is missing and run every test, on SQLite and on PostgreSQL
	@$(OPS).suite

test-quick:  ## run in a minute what needs neither Spark, a browser nor a worker, on SQLite
	@$(OPS).suite --quick

setup:  ## only set up what is missing; then `.venv/bin/python manage.py ...` works
	@$(OPS).setup

lock:  ## pin and hash anew what pyproject.toml asks for (LOCK_OPTIONS=--upgrade: the newest versions)
	@$(OPS).lock $(LOCK_OPTIONS)

bench:  ## run the benchmarks; each prints its ratio against its reference
	@$(OPS).bench

screenshots:  ## take a picture of every page into docs/screens/, from a throwaway console with the demo tenant
	@$(OPS).screenshots
