"""The checks after the faults.

Each returns sentences about violations; an empty list means that nothing was lost.
"""

import json
import re
import time
from collections import defaultdict

from .console import Console
from .workload import SentChange, Workload

# two reports of the same revision may differ in these figures: the report before, and the time that the
# report is about
FIGURES_OF_A_RUN = ("at", "changes", "snapshot_fault")
# what the console would do later: the hourly clean-up after all grace periods, and the next run
CLEAN = """
from datetime import timedelta
from django.conf import settings
from analytics import folders
from analytics.runs import retention
from analytics.snapshots import snapshot
retention.ABANDONED_AFTER = retention.READER_GRACE_PERIOD = snapshot.ABANDONED_AFTER = timedelta(0)
folders.LOCK_SECONDS = 0
settings.SNAPSHOTS_KEPT = 1
retention.clean_results()
with snapshot.lease_snapshot(), folders.scratch_folder(settings.TEMP_DIR):
    pass
"""


def wait_until_settled(console: Console, workload: Workload, seconds: float) -> list[str]:
    """Wait until the console accepts a change and no run is unfinished; then let it finish one more run."""
    deadline = time.monotonic() + seconds
    number = 0
    while not workload.send_change(
        f"soak-last-{number}", [("user:ana.pereira", f"dataset:finance.last_{number}", "READ")], []
    ).is_acknowledged:
        number += 1
        if time.monotonic() > deadline:
            return [
                f"the console accepts no change {seconds:.0f} s after the last fault: {workload.changes[-1].body[:200]}"
            ]
        time.sleep(0.5)
    while workload.unfinished_runs():
        if time.monotonic() > deadline:
            rows = console.query(
                "SELECT id, state, stage, attempt, heartbeat_at, process FROM grants_job "
                "WHERE state IN ('waiting', 'running')"
            )
            return [f"runs are unfinished {seconds:.0f} s after the last fault: {rows}"]
        time.sleep(0.5)
    status, text = workload.request("POST", "runs", {"analysis": "stranded"})
    if status != 202:
        return [f"the last run could not be started: {status} {text[:200]}"]
    run = json.loads(text)["number"]
    while (state := console.query("SELECT state, error FROM grants_job WHERE id = %s", (run,))[0])[
        0
    ] != "done":
        if state[0] in ("failed", "cancelled") or time.monotonic() > deadline:
            return [f"the last run, after all faults, is {state[0]}: {state[1]}"]
        time.sleep(0.2)
    return []


def check_changes(console: Console, changes: list[SentChange]) -> list[str]:
    """Check that each acknowledged change set was applied once, each refused one never, and each unanswered
    one once or never.
    """
    lines: dict[str, list[tuple]] = defaultdict(list)
    for request_id, *line in console.query(
        "SELECT caller_request_id, action, principal, entity, privilege FROM grants_journalline "
        "WHERE caller_request_id LIKE 'soak-%%' AND action IN ('grant', 'revoke')"
    ):
        lines[request_id].append(tuple(line))
    violations = []
    for change in changes:
        found = lines.pop(change.request_id, [])
        if found and (len(found) != len(change.lines) or set(found) != change.lines):
            violations.append(
                f"{change.request_id} was applied in part or twice: {sorted(found)} of {sorted(change.lines)}"
            )
        elif change.is_acknowledged and not found:
            violations.append(f"{change.request_id} was acknowledged and is lost")
        elif change.is_refused and found:
            violations.append(f"{change.request_id} was refused with {change.status} and applied")
    return violations + [f"{request_id} was applied and never sent" for request_id in lines]


def check_runs(console: Console, workload: Workload) -> list[str]:
    """Check that each started run has finished, and that all reports of one revision with the same options
    are equal.
    """
    rows = console.query(
        "SELECT id, state, type, options::text, revision, summary FROM grants_job ORDER BY id"
    )
    numbers = {row[0] for row in rows}
    violations = [
        f"run {number} was accepted and is lost" for number in workload.started_runs if number not in numbers
    ]
    violations += [f"run {row[0]} is still {row[1]}" for row in rows if row[1] in ("waiting", "running")]
    reports: dict[tuple, dict] = {}
    for number, state, analysis, options, revision, summary in rows:
        if state != "done":
            continue
        figures = {name: value for name, value in _as_dict(summary).items() if name not in FIGURES_OF_A_RUN}
        first = reports.setdefault((analysis, options, revision), figures)
        if figures != first:
            violations.append(
                f"run {number} ({analysis} at revision {revision}) has {figures}, an equal run had {first}"
            )
        status, text = workload.request("GET", f"runs/{number}/tables/rows?limit=1")
        if status not in (200, 410):
            violations.append(f"the report of run {number} cannot be read: {status} {text[:200]}")
    return violations


def _as_dict(value: object) -> dict:
    return json.loads(value) if isinstance(value, str) else dict(value)


def run_states(console: Console) -> dict[str, int]:
    return dict(
        console.query("SELECT state || ' at attempt ' || attempt, count(*) FROM grants_job GROUP BY 1")
    )


def run_errors(console: Console) -> dict[str, int]:
    """Return how many failed runs have each error; numbers are replaced, so that equal errors are counted
    together.
    """
    errors: dict[str, int] = defaultdict(int)
    for (error,) in console.query("SELECT error FROM grants_job WHERE state = 'failed'"):
        errors[re.sub(r"/\S+|\d+", "…", error)[:150]] += 1
    return dict(errors)


def check_journal(console: Console) -> list[str]:
    """Check that the journal is intact and that the tables contain what it says."""
    outputs = [console.manage(command, check=False) for command in ("verify_journal", "verify_grants")]
    return [output.stderr.strip() or output.stdout.strip() for output in outputs if output.returncode]


def check_files(console: Console) -> list[str]:
    """Clean as the console does after its grace periods, and check that only reports, snapshots and the state
    remain.
    """
    cleaning = console.manage("shell", "-c", CLEAN, check=False)
    if cleaning.returncode:
        return [f"the cleaning failed: {cleaning.stderr[-500:]}"]
    storage = console.state / "snapshots"
    reports = {
        folder for (folder,) in console.query("SELECT result_path FROM grants_job WHERE result_path <> ''")
    }
    folders = {str(path.relative_to(storage)) for path in storage.glob("results/*/*")}
    violations = [f"the folder {name} belongs to no report" for name in sorted(folders - reports)]
    violations += [f"the files of the report in {name} are gone" for name in sorted(reports - folders)]
    temporary = [path for path in (console.state / "tmp").iterdir() if not path.name.startswith("hsperfdata")]
    temporary += [
        path for pattern in ("**/_temporary", "**/*.tmp", "**/_LEASE-*") for path in storage.glob(pattern)
    ]
    return violations + [
        f"the temporary file {path.relative_to(console.state)} remains" for path in temporary
    ]
