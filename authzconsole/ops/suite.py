"""Run the tests in several passes: on SQLite, on PostgreSQL, with Spark and with a browser."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import ROOT, VENV_PYTHON, Refusal, machine
from .postgres import postgresql
from .processes import die_with_parent, interrupt_on_signals, run_command
from .setup import setup, spark_environment

REPORTS = ROOT / "var" / "test"
# tests ignore these settings of a real console: with them, tests would use its servers and files, or behave like it
CONSOLE_SETTINGS = ("ALLOWED_HOSTS", "DATABASE_PASSWORD", "DATABASE_PASSWORD_FILE", "DATABASE_URL", "DATABASE_URL_FILE",
                    "DEBUG", "DEFAULT_GENERATION", "HOST", "INSTANCE_NAME", "JOURNAL_ANCHOR", "JOURNAL_KEYS",
                    "JOURNAL_KEYS_FILE", "KINDS_FILE", "METRICS_TOKEN", "METRICS_TOKEN_FILE", "OTEL_EXPORTER_OTLP_ENDPOINT",
                    "PORT", "PRODUCTION", "PUBLIC_URL", "RATE_LIMIT_DECISIONS_PER_ACCOUNT", "RATE_LIMIT_DECISIONS_PER_TOKEN",
                    "RATE_LIMIT_PER_ACCOUNT", "RATE_LIMIT_PER_TOKEN", "REDIS_PASSWORD", "REDIS_PASSWORD_FILE", "REDIS_URL",
                    "REDIS_URL_FILE", "SECRET_KEY", "SECRET_KEY_FILE", "SECURITY_EVENTS_FILE", "SECURITY_EVENTS_FORMAT",
                    "SECURITY_EVENTS_SYSLOG", "SENTRY_DSN", "SENTRY_DSN_FILE", "SNAPSHOT_URI", "STATE_DIR", "STATIC_ROOT")


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


# Tests with Spark or a browser use the database through the same code as the others. Spark tests therefore run on SQLite only,
# and browser tests on PostgreSQL only. Tests without a database run once, in the pass `sqlite`.
FULL = (
    Pass("sqlite", "sqlite", "not spark and not browser"),
    Pass("postgresql", "postgresql", "database and not spark and not browser"),
    Pass("spark", "sqlite", "spark"),
    Pass("browser", "postgresql", "browser and not spark"),
)
# The lanes run in parallel, the passes of a lane one after the other. On two cores, the lanes take about the same time.
LANES = (FULL[:1], FULL[1:2], FULL[2:])
# The rules, the addresses, the changes of grants and their effects, the past, and one page of each area: a minute on two cores.
QUICK = (Pass("quick", "sqlite", "not spark and not browser and not worker and not slow", paths=(
    "tests/entities", "tests/grants/changes", "tests/grants/effects", "tests/grants/evidence", "tests/grants/history",
    "tests/grants/policies", "tests/grants/principals",
    "tests/grants/tenant/test_tenant_import.py", "tests/grants/test_active_generation.py", "tests/grants/test_journal.py",
    "tests/web/test_areas.py", "tests/web/accounts/test_sign_in.py", "tests/web/policies", "tests/api/test_token_fast_path.py",
    "tests/rest/test_grants.py", "tests/ops/test_architecture.py", "tests/ops/test_settings.py", "tests/ops/test_suite.py",
), processes=2),)


def executed_test_count(report: Path) -> int:
    """Return the number of tests in a JUnit report that were not skipped; 0 if there is no report."""
    if not report.is_file():
        return 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    return sum(int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) for suite in suites)


@contextlib.contextmanager
def database_url(database: str) -> Iterator[str]:
    if database == "sqlite":
        # tests/settings.py creates the file in the folder of the test run
        yield ""
        return
    with postgresql() as url:
        yield url


def _environment(url: str) -> dict[str, str]:
    environment = {**os.environ, **spark_environment()}
    for name in CONSOLE_SETTINGS:
        environment.pop(name, None)
    if url:
        environment["DATABASE_URL"] = url
    if browser := machine.chromium():
        environment["CHROMIUM"] = str(browser)
    return environment


def run_pass(test_pass: Pass, options: list[str]) -> bool:
    print(f"== {test_pass.name}: tests on {test_pass.database}{f' ({test_pass.marks})' if test_pass.marks else ''}", flush=True)
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


def run_lane(lane: Sequence[Pass], options: Sequence[str]) -> bool:
    """Run the passes one after the other. Return whether all passed. All run, so that the output is complete."""
    results = [run_pass(test_pass, list(options)) for test_pass in lane]
    return all(results)


@contextlib.contextmanager
def background_lane(lane: Sequence[Pass], options: Sequence[str]) -> Iterator[Callable[[], bool]]:
    """Run a lane in a separate process. Yield a function that waits for it, prints its output and returns whether it passed."""
    log_path = lane[0].log
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("w+") as log:
        selection = [argument for test_pass in lane for argument in ("--only", test_pass.name)]
        command = [sys.executable, "-m", "ops.suite", *selection, *options]
        process = subprocess.Popen(command, cwd=ROOT / "authzconsole", stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent(signal.SIGINT))

        def wait_for_result() -> bool:
            code = process.wait()
            print(log_path.read_text(), end="", flush=True)
            return code == 0

        try:
            yield wait_for_result
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()


def run_lanes(lanes: Sequence[Sequence[Pass]], options: Sequence[str]) -> bool:
    """Run the first lane in this process and the others in parallel. Return whether all passed. All run to their end."""
    with contextlib.ExitStack() as stack:
        wait_functions = [stack.enter_context(background_lane(lane, options)) for lane in lanes[1:]]
        return all([run_lane(lanes[0], options), *(wait() for wait in wait_functions)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="SQLite only, without Spark, browser and worker")
    parser.add_argument("--coverage", action="store_true", help="the quick tests, in one process that measures coverage")
    parser.add_argument("--only", action="append", choices=[test_pass.name for test_pass in FULL], help="these passes alone")
    arguments, options = parser.parse_known_args()
    interrupt_on_signals()
    try:
        is_quick = arguments.quick or arguments.coverage
        setup("quick" if is_quick else "test")
        if arguments.coverage:
            lanes = [[replace(test_pass, processes=0, measures_coverage=True) for test_pass in QUICK]]
        elif is_quick:
            lanes = [QUICK]
        else:
            lanes = [[test_pass for test_pass in FULL if test_pass.name in arguments.only]] if arguments.only else LANES
        is_success = run_lanes(lanes, options)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if is_success else 1


if __name__ == "__main__":
    sys.exit(main())
