"""The packages follow the import contracts of pyproject.toml."""

import logging.config
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
CONTRACTS = [
    contract["id"] for contract in tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_packages_follow_the_import_contracts(contract, capsys, monkeypatch):
    # Import Linter configures logging and thereby disables all loggers that exist
    monkeypatch.setattr(logging.config, "dictConfig", lambda configuration: None)
    status = lint_imports(config_filename=str(PYPROJECT), limit_to_contracts=(contract,), no_cache=True)
    assert status == 0, capsys.readouterr().out
