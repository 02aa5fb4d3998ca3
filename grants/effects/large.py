"""Effects above the limits. A job evaluates them namespace by namespace, with the evaluator of small effects.

Everything is read in one transaction. The summary of the job has the figures, which count all changed
decisions. The changed decisions are stored as blocks of rows, up to RUN_DETAIL_ROWS_MOST.
"""

import hashlib
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction

from entities.address import parse_address
from grants.administrators import Stranded, Strandings
from grants.authority.transactions import administrator_transaction
from grants.bulk_rows import chunks
from grants.consistent_read import consistent_read
from grants.effects.changes import MAX_TIMES, EffectChange, changes_at, effect_times, next_limit
from grants.effects.effect import (
    NO_FILTER,
    Cell,
    Effect,
    EffectRow,
    Figures,
    KnownEffect,
    Levels,
    RowFilter,
    Tally,
    cells_of,
    figures_of,
)
from grants.effects.evaluate import evaluation_by_namespace
from grants.effects.masks import bits_of
from grants.effects.purposes import NamedChanges, Purpose
from grants.effects.strandings import strandings_of
from grants.errors import EffectTooLarge
from grants.jobs import JobContext, JobResult, request_job, retry_database
from grants.journal import Author, JournalEntry, append_to_journal
from grants.journal_queries import data_head, first_relevant_line_since
from grants.models import EFFECT_JOBS, EffectRows, Job, JobState
from grants.policies.catalogue import generation_by_name
from grants.policies.levels import LEVELS
from grants.policies.times import format_time, parse_time
from grants.roles.capabilities import Capability
from grants.validity import at_time, next_change_of_time, question_time

PLAN_EFFECT, CHANGE_EFFECT = EFFECT_JOBS
# how many of the most affected users and entities the figures name
MAX_TOP = 20
ROWS_PER_BLOCK = 10_000
BLOCKS_PER_READ = 10
# the flags of a row: the permission is given, and this is the purpose
GIVEN, INTENDED = 1, 2


def request_effect(
    job_type: str, options: Mapping[str, str], *, author: Author, requested_by: Any, capability: Capability
) -> Job:
    """Request the job that computes an effect. Return the one that is waiting or running already, if any.

    options: at least the name of a `generation`. Raise NotAdministrator.
    """
    job = newest_effect_job(job_type, options)
    if job is not None and not job.is_finished:
        return job
    with administrator_transaction(author, capability=capability) as head:
        job = request_job(Job(type=job_type, options=dict(options), requested_by=requested_by))
        append_to_journal(head, [JournalEntry("run-start", detail=job.description)], author=author)
    return job


def newest_effect_job(job_type: str, options: Mapping[str, str]) -> Job | None:
    """Return the newest job with exactly these options. Runs one query."""
    return Job.objects.filter(type=job_type, options=dict(options)).order_by("-pk").first()


def has_unfinished_effect_job(account: Any) -> bool:
    """Return whether a job that computes an effect for the account is waiting or running. Runs one query."""
    unfinished = JobState.WAITING, JobState.RUNNING
    return Job.objects.filter(type__in=EFFECT_JOBS, state__in=unfinished, requested_by=account).exists()


class Computed(NamedTuple):
    """What is known about the effect of changes.

    effect: None if it is not known for the current data. job: the newest one that computes it, if any.
    too_large: why it was not computed at once; None if it was, or if this was not tried because of the job.
    """

    effect: KnownEffect | None
    job: Job | None = None
    too_large: EffectTooLarge | None = None

    @property
    def is_large(self) -> bool:
        """Whether only a job computes the effect."""
        return not isinstance(self.effect, Effect)


def computed_effect(job: Job | None, compute: Callable[[], Effect]) -> Computed:
    """Return the effect that the job computed for the current data, or compute it now.

    It is not computed while the job is waiting or running, or above the limits of the settings. Runs the
    queries of `stored_effect`, and those of `compute`.
    """
    effect = stored_effect(job)
    if effect is not None or (job is not None and not job.is_finished):
        return Computed(effect, job)
    try:
        return Computed(compute(), job)
    except EffectTooLarge as error:
        return Computed(None, job, error)


@dataclass
class LargeEffect(KnownEffect):
    """The effect that a job computed, of which the figures name the first people and entities.

    rows_number: the number of its blocks of rows; None if its rows were not stored. strandings: None for a
    plan, which has its own.
    """

    job: Job
    generation: str
    digest: str
    at: datetime
    figures: Figures
    strandings: Strandings | None
    rows_number: int | None
    times: Sequence["LargeEffect"] = ()
    other_beginnings: int = 0
    last_beginning: datetime | None = None

    @property
    def has_rows(self) -> bool:
        return self.rows_number is not None

    def filtered_effect(self, where: RowFilter) -> None:
        """Return None, because there are no totals for filters."""

    def row_count(self, where: RowFilter = NO_FILTER) -> int:
        if where == NO_FILTER:
            return self.tally.total if self.has_rows else 0
        return sum(1 for _ in self.rows(where))

    def rows(self, where: RowFilter = NO_FILTER, first_row: int = 0) -> Iterator[EffectRow]:
        """Yield rows in the order of user, entity and operation."""
        blocks = EffectRows.objects.filter(job=self.job, number=self.rows_number).order_by("first_row")
        if where == NO_FILTER:
            blocks, first_row = (
                blocks.filter(first_row__gt=first_row - ROWS_PER_BLOCK),
                first_row % ROWS_PER_BLOCK,
            )
        contents = blocks.values_list("content", flat=True).iterator(chunk_size=BLOCKS_PER_READ)
        rows = chain.from_iterable(_selected_rows(content, where) for content in contents)
        return islice(rows, first_row, None)


def stored_effect(job: Job | None) -> LargeEffect | None:
    """Return the effect that a job computed; None if it is not done, or if a decision may have changed since.

    Data may have changed, or a grant, a membership or an item of the plan may have begun or ended.
    Runs one query.
    """
    if job is None or job.state != JobState.DONE or job.result_removed_at is not None or job.revision is None:
        return None
    valid_until = job.summary.get("valid_until")
    if valid_until and parse_time(valid_until) <= question_time():
        return None
    return large_effect(job) if first_relevant_line_since(job.revision) is None else None


def large_effect(job: Job) -> LargeEffect:
    """Return the effect in the summary of a job that is done."""
    summary, digest = job.summary, f"run-{job.summary['digest']}"
    times = [
        _effect_at_time(job, values, f"{digest}-{number}")
        for number, values in enumerate(summary.get("times", ()))
    ]
    effect = _effect_at_time(job, summary, digest)
    effect.times, effect.other_beginnings = times, summary.get("other_beginnings", 0)
    effect.last_beginning = parse_time(summary["last_beginning"]) if effect.other_beginnings else None
    return effect


def _effect_at_time(job: Job, values: Mapping[str, Any], digest: str) -> LargeEffect:
    stranded = values.get("strandings")
    return LargeEffect(
        job,
        job.summary["generation"],
        digest,
        parse_time(values["at"]),
        Figures(
            Tally(*values["tally"]),
            [(name, Tally(*tally)) for name, tally in values["people"]],
            values["people_count"],
            [(parse_address(address), Tally(*tally)) for address, tally in values["entities"]],
            values["entity_count"],
            [(kind, operation, Tally(*tally)) for kind, operation, tally in values["operations"]],
            # version 1.1 stored no levels
            _stored_levels(values.get("levels", {})),
            {name: _stored_levels(levels) for name, levels in values.get("levels_by_person", {}).items()},
            values.get("grantless", 0),
        ),
        Strandings(
            stranded["without_admin"],
            stranded["one_admin"],
            [Stranded(parse_address(address), count) for address, count in stranded["entities"]],
        )
        if stranded
        else None,
        # version 1.1 stored the rows in files and not their number
        values.get("rows_number"),
    )


def _stored_levels(values: Mapping[str, Sequence[int]]) -> Levels:
    # PostgreSQL does not keep the order of the members of a JSON object
    return {level: Tally(*values[level]) for level in LEVELS if level in values}


def compute_effect(
    context: JobContext,
    read_changes: Callable[[], list[EffectChange]],
    purpose_of: Callable[[Sequence[EffectChange]], Purpose] = NamedChanges,
    *,
    counts_strandings: bool,
) -> JobResult:
    """Compute the effect of changes in the generation that the job names, and store its rows.

    The effect is evaluated at the same times as by `grants.effects.effect.effect_of`. The rows of a time are
    left out if they and those of the earlier times are more than RUN_DETAIL_ROWS_MOST.
    read_changes: called in the transaction that reads the data. purpose_of: returns the purpose of the
    changes that count at one time.
    counts_strandings: whether the result names the entities that the changes strand. A plan stores them
    already. Raise the exceptions of `read_changes` and of `context.check`.
    """
    context.begin_stage("computing")
    revision, summary, blocks = retry_database(
        lambda: _computed_effect(context, read_changes, purpose_of, counts_strandings), check=context.check
    )

    def store_rows() -> None:
        with transaction.atomic():
            context.confirm_claim()
            EffectRows.objects.filter(job=context.job).delete()
            EffectRows.objects.bulk_create(blocks, batch_size=BLOCKS_PER_READ)

    retry_database(store_rows, check=context.check)
    return JobResult(summary, revision)


def _computed_effect(
    context: JobContext,
    read_changes: Callable[[], list[EffectChange]],
    purpose_of: Callable[[Sequence[EffectChange]], Purpose],
    counts_strandings: bool,
) -> tuple[int, dict, list[EffectRows]]:
    """Return the revision of the data, the summary and the blocks of rows."""
    generation = generation_by_name(context.job.options["generation"])
    effects: list[dict] = []
    blocks: list[EffectRows] = []
    free_rows = settings.RUN_DETAIL_ROWS_MOST

    def on_progress(done: int, total: int) -> None:
        context.show_progress(done, total)
        context.check()

    with consistent_read(), at_time() as now:
        head, all_changes = data_head(), read_changes()
        times = effect_times(all_changes)
        for number, at in enumerate(times[:MAX_TIMES]):
            with at_time(at):
                changes = changes_at(all_changes, question_time())
                purpose = purpose_of(changes)
                evaluation = evaluation_by_namespace(changes, generation, purpose.reference, on_progress)
                names, rows = evaluation.affected.names, _RowCollector(free_rows)
                values = _as_json(
                    figures_of(
                        rows.collect(cells_of(evaluation, purpose)), names, generation, max_top=MAX_TOP
                    )
                )
                if counts_strandings:
                    stranded = strandings_of(changes, MAX_TOP, evaluation.affected)
                    values["strandings"] = {
                        "without_admin": stranded.without_admin_count,
                        "one_admin": stranded.one_admin_count,
                        "entities": [[str(row.address), row.admin_count] for row in stranded.entities],
                    }
            effects.append(values)
            values["rows_number"] = number if rows.is_complete else None
            if rows.is_complete:
                free_rows -= rows.count
                for position, part in enumerate(chunks(rows.rows(names), ROWS_PER_BLOCK)):
                    context.check()
                    blocks.append(
                        EffectRows(
                            job_id=context.job.pk,
                            number=number,
                            first_row=position * ROWS_PER_BLOCK,
                            content=_packed_rows(part),
                        )
                    )
        limits = [
            limit for limit in (next_limit(all_changes, now), next_change_of_time(now)) if limit is not None
        ]
    # The digest follows from the changes and the data. Without the present time, it is that of a repeated job.
    content = json.dumps([sorted(context.job.options.items()), head.hash, effects])
    for values, at in zip(effects, times, strict=False):
        values["at"] = format_time(at)
    main = next((values for values in effects if any(values["tally"])), effects[0])
    summary = main | {
        "generation": generation.name,
        "digest": hashlib.sha256(content.encode()).hexdigest()[:32],
        "times": effects if len(effects) > 1 else [],
        "detail_rows": sum(sum(values["tally"]) for values in effects),
        "other_beginnings": len(times[MAX_TIMES:]),
        "last_beginning": format_time(times[-1]) if times[MAX_TIMES:] else "",
        "valid_until": format_time(min(limits)) if limits else "",
    }
    return head.revision, summary, blocks


def _as_json(figures: Figures) -> dict[str, Any]:
    return figures._asdict() | {"entities": [[str(address), tally] for address, tally in figures.entities]}


class _RowCollector:
    """Collect the changed decisions of cells, by user, as long as there are at most `max_rows`.

    A decision is a number: that of its cell, and two bits for its flags.
    """

    def __init__(self, max_rows: int):
        self.max_rows, self.count = max_rows, 0
        self._cells: list[tuple[str, str]] = []
        self._decisions: dict[int, array] = {}

    @property
    def is_complete(self) -> bool:
        return self.count <= self.max_rows

    def collect(self, cells: Iterable[Cell]) -> Iterator[Cell]:
        """Yield the cells, and collect their decisions."""
        for cell in cells:
            self.count += sum(mask.bit_count() for mask in cell.masks)
            if self.is_complete:
                self._add(cell)
            else:
                self._cells, self._decisions = [], {}
            yield cell

    def _add(self, cell: Cell) -> None:
        number = len(self._cells) << 2
        self._cells.append((str(cell.address), cell.operation))
        for flags, mask in zip((GIVEN | INTENDED, INTENDED, GIVEN, 0), cell.masks, strict=True):
            for bit in bits_of(mask) if mask else ():
                self._decisions.setdefault(bit, array("Q")).append(number | flags)

    def rows(self, names: Sequence[str]) -> Iterator[EffectRow]:
        """Yield the rows by user, entity and operation."""
        ranks = array("Q", bytes(8 * len(self._cells)))
        for rank, number in enumerate(sorted(range(len(self._cells)), key=self._cells.__getitem__)):
            ranks[number] = rank
        for bit in sorted(self._decisions, key=names.__getitem__):
            for decision in sorted(self._decisions[bit], key=lambda decision: ranks[decision >> 2]):
                yield _row(names[bit], self._cells[decision >> 2], decision)


def _row(user: str, cell: Sequence[str], flags: int) -> EffectRow:
    is_given = bool(flags & GIVEN)
    return EffectRow(user, cell[0], cell[1], not is_given, is_given, bool(flags & INTENDED))


def _packed_rows(rows: Iterable[EffectRow]) -> bytes:
    """Return rows as compressed JSON: the users, the cells, and of each row the user, the cell and the flags."""
    users: dict[str, int] = {}
    cells: dict[tuple[str, str], int] = {}
    numbers = [
        (
            users.setdefault(row.user, len(users)),
            cells.setdefault((row.entity, row.operation), len(cells)),
            GIVEN * row.after | INTENDED * row.intended,
        )
        for row in rows
    ]
    return zlib.compress(json.dumps([list(users), list(cells), numbers]).encode())


def _selected_rows(content: bytes, where: RowFilter) -> Iterator[EffectRow]:
    """Yield the rows of a block that a filter selects."""
    users, cells, numbers = json.loads(zlib.decompress(content))
    is_user = [where.user.lower() in name.lower() for name in users]
    is_cell = [
        where.entity.lower() in entity.lower() and where.operation in ("", operation)
        for entity, operation in cells
    ]
    is_flags = [
        where.change in ("", "gained" if flags & GIVEN else "lost")
        and where.part in ("", "for" if flags & INTENDED else "beyond")
        for flags in range(4)
    ]
    for user, cell, flags in numbers:
        if is_user[user] and is_cell[cell] and is_flags[flags]:
            yield _row(users[user], cells[cell], flags)
