"""Run the tests in several passes: on SQLite, on PostgreSQL, with Spark and with a browser."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import ROOT, VENV_PYTHON, machine
from .postgres import FAST_SETTINGS, postgresql
from .processes import die_with_parent, exit_status, run_command
from .setup import setup, spark_environment

REPORTS = ROOT / "var" / "test"
# the tables of a test live too short for a vacuum, and tests that need statistics run ANALYZE
TEST_SETTINGS = {**FAST_SETTINGS, "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0"}
# tests ignore these settings of a real console, and the files that contain them: with them, tests would use
# its servers and files, or behave like it
CONSOLE_SETTINGS = (
    "ALLOWED_HOSTS",
    "DATABASE_PASSWORD",
    "DATABASE_URL",
    "DEBUG",
    "DEFAULT_GENERATION",
    "DOCS_ROOT",
    "HOST",
    "INSTANCE_NAME",
    "JOURNAL_ANCHOR",
    "JOURNAL_KEYS",
    "KINDS_FILE",
    "METRICS_TOKEN",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "PORT",
    "PRODUCTION",
    "PUBLIC_URL",
    "RATE_LIMIT_DECISIONS_PER_ACCOUNT",
    "RATE_LIMIT_DECISIONS_PER_TOKEN",
    "RATE_LIMIT_PER_ACCOUNT",
    "RATE_LIMIT_PER_TOKEN",
    "REDIS_PASSWORD",
    "REDIS_URL",
    "SECRET_KEY",
    "SECURITY_EVENTS_FILE",
    "SECURITY_EVENTS_FORMAT",
    "SECURITY_EVENTS_SYSLOG",
    "SENTRY_DSN",
    "SNAPSHOT_URI",
    "STATE_DIR",
    "STATIC_ROOT",
)


@dataclass(frozen=True)
class Pass:
    """One run of pytest on one database. processes: of pytest-xdist, 0 for none."""

    name: str
    database: str
    marks: str = ""
    paths: tuple[str, ...] = ()
    processes: int = 0
    measures_coverage: bool = False

    @property
    def report(self) -> Path:
        return REPORTS / f"{self.name}.xml"

    @property
    def log(self) -> Path:
        return REPORTS / f"{self.name}.log"


# The rules, the addresses, the changes of grants and their effects, reviews and requests, the past, and one
# page of each area: a minute on two cores. tests/passes.py marks them `quick`, except those that start
# processes or take long.
QUICK_PATHS = (
    "tests/entities",
    "tests/grants/authority",
    "tests/grants/changes",
    "tests/grants/effects",
    "tests/grants/evidence",
    "tests/grants/history",
    "tests/grants/policies",
    "tests/grants/principals",
    "tests/grants/requests",
    "tests/grants/reviews",
    "tests/grants/stewards",
    "tests/grants/usage",
    "tests/grants/tenant/test_tenant_import.py",
    "tests/grants/test_active_generation.py",
    "tests/grants/test_journal.py",
    "tests/web/test_areas.py",
    "tests/web/accounts/test_sign_in.py",
    "tests/web/policies",
    "tests/api/test_token_fast_path.py",
    "tests/rest/test_grants.py",
    "tests/ops/test_architecture.py",
    "tests/ops/test_settings.py",
    "tests/ops/test_suite.py",
)
# The product stores data in PostgreSQL; SQLite is for trying it out. Tests that use the database therefore run on
# PostgreSQL, in three passes by folder. On SQLite run the quick tests, those of the SQL that evaluates the rules
# (tests/passes.py marks them `sqlite`), those with Spark, and all tests without a database. The pass `sqlite`
# collects all tests, so that one of them can check that each test belongs to a pass (tests/ops/test_passes.py).
# Passes with paths collect less, because collecting all takes 15 seconds.
QUICK = Pass("quick", "sqlite", "quick", QUICK_PATHS)
ON_POSTGRESQL = "database and not spark and not browser"
SERVICE_FOLDERS = tuple(
    f"tests/{name}"
    for name in ("analytics", "benchmarks", "demo", "deploy", "entities", "grants", "ops", "server")
)
INTERFACE_FOLDERS = tuple(
    f"tests/{name}"
    for name in ("api", "cdap_api", "connections", "directory", "observability", "rest", "scim")
)
# also the tests of the worker: on PostgreSQL, it would read tables while the end of a test empties them
SPARK_FOLDERS = tuple(f"tests/{name}" for name in ("analytics", "browser", "connections", "demo", "grants"))
# the longest pass first, so that the last ones end at about the same time
FULL = (
    Pass("postgresql", "postgresql", ON_POSTGRESQL, SERVICE_FOLDERS),
    Pass("spark", "sqlite", "spark", SPARK_FOLDERS),
    Pass("pages", "postgresql", ON_POSTGRESQL, ("tests/web",)),
    Pass("browser", "postgresql", "browser and not spark", ("tests/browser",)),
    Pass("interfaces", "postgresql", ON_POSTGRESQL, INTERFACE_FOLDERS),
    Pass("sqlite", "sqlite", "(sqlite or not database) and not spark and not browser and not quick"),
    QUICK,
)
QUICK_IN_PARALLEL = replace(QUICK, processes=2)
MEASURED = replace(QUICK, measures_coverage=True)
# more than the cores of a small machine, because many tests wait for servers and their deadlines
PARALLEL_PASSES = 3
POLL_SECONDS = 0.2


def executed_test_count(report: Path) -> int:
    """Return the number of tests in a JUnit report that were not skipped; 0 if there is no report."""
    if not report.is_file():
        return 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    return sum(int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) for suite in suites)


def remove_console_settings() -> None:
    """Remove the settings of a real console from the environment of this process, also those in files."""
    for name in CONSOLE_SETTINGS:
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)


@contextlib.contextmanager
def database_url(database: str) -> Iterator[str]:
    if database == "sqlite":
        # tests/settings.py creates the file in the folder of the test run
        yield ""
        return
    with postgresql(TEST_SETTINGS) as url:
        yield url


def _environment(url: str) -> dict[str, str]:
    environment = {**os.environ, **spark_environment()}
    # otherwise pytest and every process that tests start compile all modules again
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if url:
        environment["DATABASE_URL"] = url
    if browser := machine.chromium():
        environment["CHROMIUM"] = str(browser)
    return environment


def run_pass(test_pass: Pass, options: list[str]) -> bool:
    print(
        f"== {test_pass.name}: tests on {test_pass.database}{f' ({test_pass.marks})' if test_pass.marks else ''}",
        flush=True,
    )
    test_pass.report.parent.mkdir(parents=True, exist_ok=True)
    test_pass.report.unlink(missing_ok=True)
    coverage = ["-m", "coverage", "run"] if test_pass.measures_coverage else []
    command = [VENV_PYTHON, *coverage, "-m", "pytest", f"--junitxml={test_pass.report}", *options]
    if test_pass.marks:
        command += ["-m", test_pass.marks]
    if test_pass.processes:
        command += ["--numprocesses", str(test_pass.processes), "--dist", "loadfile"]
    command += test_pass.paths
    with database_url(test_pass.database) as url:
        code = run_command(command, cwd=ROOT, env=_environment(url))
    if code == 0 and executed_test_count(test_pass.report) == 0:
        print(f"No test ran in the pass {test_pass.name}.", file=sys.stderr)
    return code == 0 and executed_test_count(test_pass.report) > 0


def run_in_parallel(passes: Sequence[Pass], options: Sequence[str]) -> bool:
    """Run the passes in processes, PARALLEL_PASSES at a time. Return whether all passed. All run to their
    end.

    The output of a pass is in its log, and is printed when the pass ends.
    """
    waiting, running, results = list(passes), {}, []
    with contextlib.ExitStack() as stack:
        while waiting or running:
            while waiting and len(running) < PARALLEL_PASSES:
                test_pass = waiting.pop(0)
                running[test_pass] = stack.enter_context(background_pass(test_pass, options))
            ended = [test_pass for test_pass, process in running.items() if process.poll() is not None]
            for test_pass in ended:
                results.append(running.pop(test_pass).returncode == 0)
                print(test_pass.log.read_text(), end="", flush=True)
            if not ended:
                time.sleep(POLL_SECONDS)
    return all(results)


@contextlib.contextmanager
def background_pass(test_pass: Pass, options: Sequence[str]) -> Iterator[subprocess.Popen]:
    """Run a pass in a separate process that writes to the log of the pass.

    Interrupt it if it still runs at the end.
    """
    test_pass.log.parent.mkdir(parents=True, exist_ok=True)
    print(f"== {test_pass.name} begins; its output is in {test_pass.log.relative_to(ROOT)}", flush=True)
    with test_pass.log.open("w") as log:
        selection = ["--coverage"] if test_pass.measures_coverage else ["--only", test_pass.name]
        command = [sys.executable, "-m", "ops.suite", *selection, *options]
        process = subprocess.Popen(
            command,
            cwd=ROOT / "authzconsole",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGINT),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="SQLite only, without Spark, browser and worker")
    parser.add_argument(
        "--coverage", action="store_true", help="the quick tests, in one process that measures coverage"
    )
    parser.add_argument(
        "--with-coverage", action="store_true", help="every test; the quick tests measure coverage"
    )
    parser.add_argument("--only", choices=[test_pass.name for test_pass in FULL], help="this pass alone")
    arguments, options = parser.parse_known_args()
    remove_console_settings()
    setup("quick" if arguments.quick or arguments.coverage else "test")
    if arguments.coverage:
        is_success = run_pass(MEASURED, options)
    elif arguments.quick:
        is_success = run_pass(QUICK_IN_PARALLEL, options)
    elif arguments.only:
        is_success = run_pass(
            next(test_pass for test_pass in FULL if test_pass.name == arguments.only), options
        )
    else:
        is_success = run_in_parallel([*FULL[:-1], MEASURED] if arguments.with_coverage else FULL, options)
    return 0 if is_success else 1


if __name__ == "__main__":
    sys.exit(exit_status(main))
