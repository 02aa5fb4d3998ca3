"""Check the options of analyses, and declare them for commands."""

import re
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Protocol

from analytics.analyses import (
    ANALYSES,
    DEFAULT_SHARE,
    DETAIL_ROWS_MOST,
    MAX_SURPLUS,
    OPTIONS,
    ROLES_OF_TEAMS,
    Analysis,
    AnalysisError,
)
from entities.address import Address, AddressError, address_of
from entities.vocabulary import clip, quantity
from grants.policies.catalogue import GENERATIONS, UnknownGeneration, generation_by_name

MAX_NAMES_IN_MESSAGE = 20
# the state of an entity
LIVE = "live"


class Facts(Protocol):
    """What the checks of options ask about the tenant."""

    @property
    def usage_kept_days(self) -> int:
        """The number of days for which uses are kept."""

    def today(self) -> date:
        """Return the day (UTC) of the data."""

    def active_generation(self) -> str:
        """Return the name of the active generation."""

    def first_day_of_use(self) -> date | None:
        """Return the first day with a recorded use; None if there is none."""

    def days_of_history(self) -> int:
        """Return the number of whole days since the first journal line; 0 without one."""

    def newest_revision(self) -> int:
        """Return the number of the newest journal line; 0 without one."""

    def namespace_state(self, key: str) -> str | None:
        """Return the state of the namespace; None if it is not registered."""

    def live_namespaces(self, count: int) -> list[str]:
        """Return the names of the first live namespaces, by name."""


def add_analysis_arguments(parser: ArgumentParser) -> None:
    """Add the arguments NAME, of an analysis, and one for each option of analyses."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="; ".join(f"{analysis.name}: {analysis.question}" for analysis in ANALYSES.values()),
    )
    for option in OPTIONS.values():
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            metavar=option.metavar,
            help=f"{option.help} ({option.analyses} only)",
        )


def add_force_argument(parser: ArgumentParser) -> None:
    """Add the argument that lifts the limit of detail tables."""
    parser.add_argument(
        "--force",
        action="store_true",
        help=f"write a detail table with more than {DETAIL_ROWS_MOST:,} rows too",
    )


def checked_options(analysis: Analysis, options: Mapping[str, str | None], facts: Facts) -> dict[str, str]:
    """Return a value for every option of the analysis, with defaults for missing ones.

    Raise AnalysisError for invalid ones.
    """
    non_empty = {name: value for name, value in options.items() if value}
    for name in non_empty:
        if name not in analysis.options:
            raise AnalysisError(
                f"{analysis.name} takes no {name}; it takes {', '.join(analysis.options)}", field=name
            )
    validated = {name: _CHECKS[name](non_empty.get(name, ""), facts) for name in analysis.options}
    first, last = (int(validated.get(name) or 0) for name in ("from_revision", "to_revision"))
    if last and first >= last:
        raise AnalysisError(
            f"revision {first:,} is not before revision {last:,}: enter an earlier one to compare from",
            field="from_revision",
        )
    for name in ("stable_days", "surplus"):
        if validated.get(name) and not validated["prefer"]:
            raise AnalysisError(
                f"{name} is for roles of teams: set prefer to {ROLES_OF_TEAMS}, or leave it out", field=name
            )
    if "to_generation" in validated and validated["generation"] == validated["to_generation"]:
        raise AnalysisError(
            f"{analysis.name} compares two generations, and both are {validated['generation']}: "
            f"the generations are {', '.join(GENERATIONS)}",
            field="to_generation",
        )
    return validated


def _generation(name: str, facts: Facts) -> str:
    try:
        return generation_by_name(name).name if name else facts.active_generation()
    except UnknownGeneration as error:
        raise AnalysisError(str(error), field="generation") from error


def _to_generation(name: str, facts: Facts) -> str:
    if not name:
        raise AnalysisError(
            "the generation to compare with (to_generation, on the command line --to-generation) is missing: "
            f"the generations are {', '.join(GENERATIONS)}",
            field="to_generation",
        )
    return _generation(name, facts)


def _namespace(name: str, facts: Facts) -> str:
    """Return the name of a live namespace from a name or an address; empty means all namespaces."""
    if not name:
        return ""
    try:
        address = address_of("namespace", name.removeprefix("namespace:"))
    except AddressError as error:
        raise AnalysisError(str(error), field="namespace") from error
    state = facts.namespace_state(address.key)
    if state != LIVE:
        raise AnalysisError(_unknown_namespace(address, state, facts), field="namespace")
    return address.key


def _unknown_namespace(address: Address, state: str | None, facts: Facts) -> str:
    names = facts.live_namespaces(MAX_NAMES_IN_MESSAGE + 1)
    live_names = ", ".join(names[:MAX_NAMES_IN_MESSAGE]) + (
        ", …" if len(names) > MAX_NAMES_IN_MESSAGE else ""
    )
    problem = f"is {state}, not live" if state else "is not registered"
    return f"{clip(address)} {problem}; the live namespaces are {live_names or 'none'}"


def _since(days: str, facts: Facts) -> str:
    """Return the length of the window in days; empty for the default, which the records of each run cover.

    Raise AnalysisError for a window that the records do not cover: before them, nothing is known to be unused.
    """
    if not days:
        return ""
    first_day = facts.first_day_of_use()
    covered = (facts.today() - first_day).days if first_day else 0
    if not (days.isascii() and days.isdigit()) or not 1 <= int(days[:9]) <= facts.usage_kept_days:
        raise AnalysisError(
            f"`{clip(days)}` is not a number of days (since, on the command line --since): enter one from 1 to "
            f"{facts.usage_kept_days:,}, for which uses are kept (USAGE_KEPT_DAYS)",
            field="since",
        )
    if first_day is None:
        raise AnalysisError(
            "no use is recorded, so nothing is known to be unused: import uses with manage.py import_usage, or leave "
            "since out",
            field="since",
        )
    if int(days) > covered:
        raise AnalysisError(
            f"uses are recorded since {first_day}, which is {quantity(covered, 'day', 'days')}, so nothing is known to be "
            f"unused for {int(days):,}: enter at most {covered:,}, or leave since out",
            field="since",
        )
    return str(int(days))


def _share(text: str, facts: Facts) -> str:
    """Return the largest share of the members of a group. Raise AnalysisError if it is not above 0 and up to 1."""
    if not text:
        return str(DEFAULT_SHARE)
    if not re.fullmatch(r"\d{0,9}\.?\d{1,9}", text, re.ASCII) or not 0 < float(text) <= 1:
        raise AnalysisError(
            f"`{clip(text)}` is not a share (share, on the command line --share): enter a number above 0 and up to 1, "
            f"such as {DEFAULT_SHARE}",
            field="share",
        )
    return str(float(text))


def _prefer(text: str, facts: Facts) -> str:
    """Return the preference; empty for the default."""
    if text not in ("", "fewest", ROLES_OF_TEAMS):
        raise AnalysisError(
            f"`{clip(text)}` is not a preference (prefer, on the command line --prefer): enter fewest or {ROLES_OF_TEAMS}",
            field="prefer",
        )
    return text.removeprefix("fewest")


def _stable_days(text: str, facts: Facts) -> str:
    """Return the number of days; empty for the default.

    Raise AnalysisError for more days than the journal covers: before its first line, nothing is known to be held.
    """
    if not text or text == "0":
        return ""
    covered, days = facts.days_of_history(), _number(text)
    if not 1 <= days <= covered:
        raise AnalysisError(
            f"`{clip(text)}` is not a number of days that the journal covers (stable_days, on the command line "
            f"--stable-days): enter one from 1 to {covered:,}, or leave it out"
            if covered
            else "the journal is less than a day old, so it does not know what was held before: leave stable_days out",
            field="stable_days",
        )
    return str(days)


def _number(text: str) -> int:
    """Return a number of at most 18 digits; 0 for other texts."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _surplus(text: str, facts: Facts) -> str:
    """Return the largest surplus; empty for none. Raise AnalysisError if it is above MAX_SURPLUS."""
    if not text:
        return ""
    if not re.fullmatch(r"\d{0,9}\.?\d{1,9}", text, re.ASCII) or float(text) > MAX_SURPLUS:
        raise AnalysisError(
            f"`{clip(text)}` is not a share (surplus, on the command line --surplus): enter a number from 0 to {MAX_SURPLUS}, "
            "such as 0.1",
            field="surplus",
        )
    return str(float(text)) if float(text) else ""


def _revision(name: str, text: str, facts: Facts) -> str:
    """Return the number of a journal line; empty for the default, which the history of each run knows."""
    if not text:
        return ""
    newest, revision = facts.newest_revision(), _number(text)
    option = f"{name}, on the command line --{name.replace('_', '-')}"
    if not 1 <= revision <= newest:
        what_to_do = (
            f"enter the number of a journal line, from 1 to {newest:,}"
            if newest
            else "the journal has no lines yet, so leave it empty"
        )
        raise AnalysisError(f"`{clip(text)}` is not a revision ({option}): {what_to_do}", field=name)
    return str(revision)


_CHECKS: Mapping[str, Callable[[str, Facts], str]] = {
    "generation": _generation,
    "to_generation": _to_generation,
    "namespace": _namespace,
    "since": _since,
    "share": _share,
    "prefer": _prefer,
    "stable_days": _stable_days,
    "surplus": _surplus,
    "from_revision": partial(_revision, "from_revision"),
    "to_revision": partial(_revision, "to_revision"),
}
