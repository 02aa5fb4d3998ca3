"""The Spark code in a process that has no Django: what import-linter reads from the text holds when it runs."""

import os
import subprocess
import sys

from authzconsole.ops import ROOT

ALONE = """
import sys
from importlib import import_module
from pkgutil import walk_packages

# whoever imports it, now or when a function is called, gets an ImportError
sys.modules["django"] = None
import analytics.spark

names = [module.name.removeprefix("analytics.spark.") for module in walk_packages(analytics.spark.__path__, "analytics.spark.")]
for name in names:
    import_module(f"analytics.spark.{name}")

from analytics.spark.engine.rules import admin_needed_to_delete_namespace, generation_rules, impact_rules, visibility_rules
from grants.policies.catalogue import GENERATIONS

for generation in GENERATIONS:
    assert visibility_rules(generation).rules and generation_rules(generation).rules
    assert impact_rules("existing", generation) and admin_needed_to_delete_namespace(generation)
print("without Django:", *names)
"""


def test_every_module_is_imported_and_every_rule_set_compiled_where_there_is_no_django():
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO")}
    alone = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)
    assert alone.returncode == 0, alone.stderr[-3_000:]
    imported = set(alone.stdout.split())
    assert {"engine.rules", "engine.evaluate", "analyses.readiness", "analyses.visibility", "session"} <= imported
