"""The Spark code works in a process without Django. import-linter checks only the import statements."""

import os
import subprocess
import sys

from authzconsole.ops import ROOT

SCRIPT = """
import sys
from importlib import import_module
from pkgutil import walk_packages

# every import of Django, also inside a function, raises an ImportError
sys.modules["django"] = None
import analytics.spark

names = [module.name.removeprefix("analytics.spark.") for module in walk_packages(analytics.spark.__path__, "analytics.spark.")]
for name in names:
    import_module(f"analytics.spark.{name}")

from analytics.spark.engine.rules import generation_rules, impact_rules, namespace_deletion_requirement, visibility_rules
from grants.policies.catalogue import GENERATIONS

for generation in GENERATIONS:
    assert visibility_rules(generation).rules and generation_rules(generation).rules
    assert impact_rules("existing", generation) and namespace_deletion_requirement(generation)
print("without Django:", *names)
"""


def test_every_module_can_be_imported_and_every_rule_set_compiled_without_django():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO")}
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert completed.returncode == 0, completed.stderr[-3_000:]
    imported = set(completed.stdout.split())
    assert {
        "engine.rules",
        "engine.bits",
        "analyses.readiness",
        "analyses.visibility",
        "session",
    } <= imported
