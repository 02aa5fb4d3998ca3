"""Run the soak test and print its report: `python -m benchmarks.soak --minutes 30`.

Exit status 1: something was lost.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from authzconsole.ops.processes import interrupt_on_signals

from . import checks
from .console import Console, running_console
from .fault_counts import FaultCounts
from .faults import InjectedFault, faults_for
from .workload import Workload

# on average; 1,000 faults in 30 minutes, of which some find nothing to damage
FAULT_SECONDS = 1.0
FAULTS_AT_ONCE = 6
# all faults except those that need a run; then light ones and those that need a run, until the last one of
# these has hit
HEAVY_SECONDS, LIGHT_SECONDS = 15, 45
SETTLE_SECONDS = 300
# in a soak of this length, each kind of fault must hit at least once
ALL_KINDS_SECONDS = 600
SHOWN_VIOLATIONS = 30


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the choice of faults")
    options = parser.parse_args(arguments)
    interrupt_on_signals()
    print(f"== Soak test of {options.minutes:g} minutes, seed {options.seed}", flush=True)
    with running_console() as console:
        if not console.has_disks:
            print("No disk is filled: only root may mount the small file systems")
        violations = soak(console, options.minutes * 60, random.Random(options.seed))
    print(f"{len(violations)} violations", *violations[:SHOWN_VIOLATIONS], sep="\n  ")
    return 1 if violations else 0


def soak(
    console: Console, seconds: float, choose: random.Random, settle_seconds: float = SETTLE_SECONDS
) -> list[str]:
    """Damage the console for some seconds, then return the violations.

    Print counts of faults, requests and runs.
    """
    token = console.manage("create_token", "admin", "--scope", "read", "--scope", "administer").stdout.strip()
    workload = Workload(console.address.port, token)
    workload.start()
    try:
        faults = cause_faults(console, seconds, choose)
    finally:
        workload.stop()
    violations = checks.wait_until_settled(console, workload, settle_seconds)
    violations += checks.check_changes(console, workload.changes) + checks.check_runs(console, workload)
    states, errors = checks.run_states(console), checks.run_errors(console)
    violations += [f"the process {pid} is left" for pid in console.stop_programs()]
    violations += checks.check_journal(console) + checks.check_files(console) + console.notes
    if seconds >= ALL_KINDS_SECONDS:
        violations += [
            f"the fault `{name}` never hit, although it was attempted {faults.attempts[name]} times"
            for name in faults.never_hit()
        ]
    _print_report(faults, workload, states, errors)
    return violations


def cause_faults(console: Console, seconds: float, choose: random.Random) -> FaultCounts:
    """Cause random faults, and count how many of each kind found something to damage.

    Some last for seconds and overlap.
    """
    counts = FaultCounts(faults_for(console))
    ongoing: dict[str, Future[bool]] = {}
    end = time.monotonic() + seconds
    light_from = time.monotonic() + HEAVY_SECONDS
    with ThreadPoolExecutor(FAULTS_AT_ONCE) as pool:
        while (now := time.monotonic()) < end:
            for name in [name for name, result in ongoing.items() if result.done()]:
                counts.hits[name] += ongoing.pop(name).result()
            if now > light_from + LIGHT_SECONDS and not counts.is_waiting(ongoing):
                light_from = now + HEAVY_SECONDS
            fault = counts.choose(choose, ongoing, is_heavy_phase=now < light_from)
            if fault is not None and len(ongoing) < FAULTS_AT_ONCE:
                counts.attempts[fault.name] += 1
                ongoing[fault.name] = pool.submit(_cause, fault, console, random.Random(choose.random()))
            time.sleep(choose.expovariate(1 / FAULT_SECONDS))
    for name, result in ongoing.items():
        counts.hits[name] += result.result()
    return counts


def _cause(fault: InjectedFault, console: Console, choose: random.Random) -> bool:
    console.log_event(f"fault: {fault.name}")
    try:
        return fault.damage(console, choose)
    except OSError as error:
        console.log_event(f"{fault.name} could not be caused: {error}")
        return False


def _print_report(
    faults: FaultCounts, workload: Workload, states: dict[str, int], errors: dict[str, int]
) -> None:
    print(f"{faults.hits.total():,} faults of {faults.attempts.total():,} attempted")
    for name in sorted((fault.name for fault in faults.faults), key=lambda name: -faults.hits[name]):
        print(f"  {faults.hits[name]:6,} of {faults.attempts[name]:6,} {name}")
    acknowledged = sum(change.is_acknowledged for change in workload.changes)
    unknown = sum(not change.is_acknowledged and not change.is_refused for change in workload.changes)
    print(
        f"{len(workload.changes):,} change sets: {acknowledged:,} acknowledged, {unknown:,} with an unknown end"
    )
    for title, counts in (
        ("Requests by status", workload.statuses),
        ("Runs", states),
        ("Errors of failed runs", errors),
    ):
        print(title)
        for name, count in sorted(counts.items()):
            print(f"  {count:6,} {name}")


if __name__ == "__main__":
    sys.exit(main())
