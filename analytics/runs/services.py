"""Request and cancel runs. `grants.jobs` executes them."""

import re
from collections.abc import Mapping

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics.analyses import (
    DEFAULT_SHARE,
    Analysis,
    AnalysisError,
    analysis_by_name,
)
from analytics.models import AnalysisRun
from entities.address import Address, AddressError, address_of
from entities.models import Entity, State
from entities.vocabulary import clip, quantity
from grants.active_generation import active_generation
from grants.authority.transactions import administrator_transaction
from grants.jobs import cancel_job, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.policies.catalogue import GENERATIONS, UnknownGeneration, generation_by_name
from grants.roles.capabilities import Capability
from grants.usage import first_day_of_use

MAX_NAMES_IN_MESSAGE = 20


def request_run(
    *,
    analysis: str,
    options: Mapping[str, str],
    requested_by,
    is_scheduled: bool = False,
    author: Author | None = None,
) -> AnalysisRun:
    """Store a waiting run and send it to the worker when the transaction commits.

    author: the author of the journal line; None for the first run of an analysis, which has no line. Raise
    AnalysisError for an unknown analysis or invalid options, NotAdministrator if the author may not write.
    """
    known_analysis = analysis_by_name(analysis)
    valid_options = validated_options(known_analysis, options)
    with (
        administrator_transaction(author, capability=Capability.RUN_ANALYSES)
        if author
        else transaction.atomic()
    ) as head:
        run = request_job(
            AnalysisRun(
                type=known_analysis.name,
                options=valid_options,
                requested_by=requested_by,
                is_scheduled=is_scheduled,
            )
        )
        if author:
            append_to_journal(head, [JournalEntry("run-start", detail=run.description)], author=author)
    return run


def cancel_run(*, run: AnalysisRun, author: Author | None = None) -> bool:
    """Cancel a waiting run at once, and a running run within seconds. Return False if the run was already
    finished.

    author: the author of the journal line; without an author, no line is written. Raise NotAdministrator if
    the author may not write.
    """
    if author is None:
        return cancel_job(run)
    with administrator_transaction(author, capability=Capability.RUN_ANALYSES) as head:
        is_cancelled = cancel_job(run)
        if is_cancelled:
            append_to_journal(head, [JournalEntry("run-cancel", detail=run.description)], author=author)
    return is_cancelled


def validated_options(analysis: Analysis, options: Mapping[str, str]) -> dict[str, str]:
    """Return a value for every option of the analysis, with defaults for missing ones.

    Raise AnalysisError for invalid ones.
    """
    non_empty = {name: value for name, value in options.items() if value}
    for name in non_empty:
        if name not in analysis.options:
            raise AnalysisError(
                f"{analysis.name} takes no {name}; it takes {', '.join(analysis.options)}", field=name
            )
    validated = {name: _CHECKS[name](non_empty.get(name, "")) for name in analysis.options}
    if "to_generation" in validated and validated["generation"] == validated["to_generation"]:
        raise AnalysisError(
            f"{analysis.name} compares two generations, and both are {validated['generation']}: "
            f"the generations are {', '.join(GENERATIONS)}",
            field="to_generation",
        )
    return validated


def _generation(name: str) -> str:
    try:
        return generation_by_name(name).name if name else active_generation().name
    except UnknownGeneration as error:
        raise AnalysisError(str(error), field="generation") from error


def _to_generation(name: str) -> str:
    if not name:
        raise AnalysisError(
            "the generation to compare with (to_generation, on the command line --to-generation) is missing: "
            f"the generations are {', '.join(GENERATIONS)}",
            field="to_generation",
        )
    return _generation(name)


def _namespace(name: str) -> str:
    """Return the name of a live namespace from a name or an address; empty means all namespaces."""
    if not name:
        return ""
    try:
        address = address_of("namespace", name.removeprefix("namespace:"))
    except AddressError as error:
        raise AnalysisError(str(error), field="namespace") from error
    state = Entity.objects.filter(kind="namespace", key=address.key).values_list("state", flat=True).first()
    if state != State.LIVE:
        raise AnalysisError(_unknown_namespace(address, state), field="namespace")
    return address.key


def _unknown_namespace(address: Address, state: str | None) -> str:
    live = (
        Entity.objects.filter(kind="namespace", state=State.LIVE)
        .order_by("key")
        .values_list("key", flat=True)
    )
    names = list(live[: MAX_NAMES_IN_MESSAGE + 1])
    live_names = ", ".join(names[:MAX_NAMES_IN_MESSAGE]) + (
        ", …" if len(names) > MAX_NAMES_IN_MESSAGE else ""
    )
    problem = f"is {state}, not live" if state else "is not registered"
    return f"{clip(address)} {problem}; the live namespaces are {live_names or 'none'}"


def _since(days: str) -> str:
    """Return the length of the window in days; empty for the default, which the records of each run cover.

    Raise AnalysisError for a window that the records do not cover: before them, nothing is known to be unused.
    """
    if not days:
        return ""
    first_day = first_day_of_use()
    covered = (timezone.now().date() - first_day).days if first_day else 0
    if not (days.isascii() and days.isdigit()) or not 1 <= int(days[:9]) <= settings.USAGE_KEPT_DAYS:
        raise AnalysisError(
            f"`{clip(days)}` is not a number of days (since, on the command line --since): enter one from 1 to "
            f"{settings.USAGE_KEPT_DAYS:,}, for which uses are kept (USAGE_KEPT_DAYS)",
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


def _share(text: str) -> str:
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


_CHECKS = {
    "generation": _generation,
    "to_generation": _to_generation,
    "namespace": _namespace,
    "since": _since,
    "share": _share,
}
