"""Read the report of the run that computed an effect, in the form of an `Effect`.

`analytics.runs.services` requests the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain

from analytics.analyses import CHANGE_EFFECT, PLAN_EFFECT
from analytics.models import AnalysisRun
from analytics.plan_effects.sources import SingleChangesSource
from analytics.results.query import EVERYTHING, ResultFilter
from analytics.results.read import result_page, result_stream, tables_left_out
from analytics.tables import PLAN_EFFECT_ROWS
from entities.address import Address, parse_address
from grants.active_generation import active_generation
from grants.administrators import Stranded, Strandings
from grants.effects.effect import NO_FILTER, EffectRow, RowFilter, Tally, summary_of
from grants.models import JobState, Plan
from grants.plans.permission_effect import ComputedEffect, generation_of_plan
from grants.plans.staleness import first_relevant_line_since
from grants.policies.times import parse_time
from grants.validity import question_time

ROWS_PER_READ = 1_000


@dataclass(frozen=True)
class StoredEffect:
    """The report of a finished run, with the members of `grants.effects.effect.Effect` that pages and REST
    read.

    number: None for the effect with all its times, of which the members are those at the first time with an
        effect; otherwise the number of one time, with the effect at only this time.
    """

    run: AnalysisRun
    number: int | None = None

    @property
    def _figures(self) -> dict:
        return self.run.summary if self.number is None else self.run.summary["times"][self.number]

    @property
    def _table(self) -> str:
        return self._figures.get("table", PLAN_EFFECT_ROWS.name)

    @property
    def generation(self) -> str:
        return self.run.summary["generation"]

    @property
    def digest(self) -> str:
        digest = f"run-{self.run.summary['digest']}"
        return digest if self.number is None else f"{digest}-{self.number}"

    @property
    def at(self) -> datetime:
        return parse_time(self._figures["at"])

    @property
    def tally(self) -> Tally:
        return Tally(*self._figures["tally"])

    @property
    def max_gained_beyond(self) -> int:
        return max(effect.tally.gained_beyond for effect in self.times or [self])

    @cached_property
    def times(self) -> Sequence["StoredEffect"]:
        count = len(self.run.summary.get("times", ())) if self.number is None else 0
        return [StoredEffect(self.run, number) for number in range(count)]

    @property
    def other_beginnings(self) -> int:
        return self.run.summary.get("other_beginnings", 0) if self.number is None else 0

    @property
    def last_beginning(self) -> datetime | None:
        return parse_time(self.run.summary["last_beginning"]) if self.other_beginnings else None

    @property
    def has_effect(self) -> bool:
        return bool(self.tally.total)

    @property
    def people(self) -> list[tuple[str, Tally]]:
        """The users with the most changes. `people_count` is the number of all users with changes."""
        return [(name, Tally(*tally)) for name, tally in self._figures["people"]]

    @property
    def people_count(self) -> int:
        return self._figures["people_count"]

    @property
    def entities(self) -> list[tuple[Address, Tally]]:
        """The entities with the most changes. `entity_count` is the number of all entities with changes."""
        return [(parse_address(address), Tally(*tally)) for address, tally in self._figures["entities"]]

    @property
    def entity_count(self) -> int:
        return self._figures["entity_count"]

    @cached_property
    def operations(self) -> list[tuple[str, str, Tally]]:
        return [(kind, operation, Tally(*tally)) for kind, operation, tally in self._figures["operations"]]

    @property
    def operation_names(self) -> list[str]:
        return sorted({operation for _, operation, _ in self.operations})

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        return summary_of(self.tally)

    @property
    def strandings(self) -> Strandings | None:
        """The entities that single changes strand, of which the report has the first; None for a plan, which
        has its own.
        """
        if (figures := self._figures.get("strandings")) is None:
            return None
        entities = [Stranded(parse_address(address), count) for address, count in figures["entities"]]
        return Strandings(figures["without_admin"], figures["one_admin"], entities)

    @property
    def has_rows(self) -> bool:
        """Whether the rows were written. They are not if there are more than the console keeps."""
        return self._table not in tables_left_out(self.run)

    def filtered_effect(self, where: RowFilter) -> None:
        """Return None, because the report has no totals for filters."""

    def row_count(self, where: RowFilter = NO_FILTER) -> int:
        return (
            result_page(self.run, self._table, where=_result_filter(where), max_rows=1).total_rows
            if self.has_rows
            else 0
        )

    def rows(self, where: RowFilter = NO_FILTER, first_row: int = 0) -> Iterator[EffectRow]:
        """Yield rows in the order of user, entity and operation.

        Raise AnalysisError or StorageError if they cannot be read.
        """
        if not first_row:
            batches = result_stream(self.run, self._table, where=_result_filter(where))
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        else:
            page = result_page(
                self.run,
                self._table,
                where=_result_filter(where),
                first_row=first_row,
                max_rows=ROWS_PER_READ,
            )
            rows = iter(page.rows)
        return (EffectRow(**row) for row in rows)


def _result_filter(where: RowFilter) -> ResultFilter:
    if where == NO_FILTER:
        return EVERYTHING
    equal: dict[str, str | int | bool] = {"operation": where.operation} if where.operation else {}
    if where.change:
        equal["after"] = where.change == "gained"
    if where.purpose:
        equal["intended"] = where.purpose == "for"
    return ResultFilter(
        equal=equal,
        containing={name: value for name, value in (("user", where.user), ("entity", where.entity)) if value},
    )


def latest_plan_run(plan: Plan, generation: str) -> AnalysisRun | None:
    """Return the newest run for the effect of the plan in a generation. Runs one query."""
    return newest_run(PLAN_EFFECT, {"plan": str(plan.pk), "generation": generation})


def newest_run(analysis: str, options: Mapping[str, str]) -> AnalysisRun | None:
    """Return the newest run of an analysis with exactly these options. Runs one query."""
    return AnalysisRun.objects.filter(type=analysis, options=options).order_by("-pk").first()


def change_effect_options(texts: Sequence[str], generation: str) -> dict[str, str]:
    """Return the options of a run for the effect of single changes. Runs one query, for the active
    generation.

    texts: see `grants.change_set.as_text`. generation: a name.
    """
    return {"changes": "\n".join(texts), "generation": generation, "active": active_generation().name}


def single_changes_source(run: AnalysisRun) -> SingleChangesSource:
    """Return the changes with these options."""
    return SingleChangesSource(
        tuple(run.options["changes"].split("\n")), run.options["generation"], run.options["active"]
    )


def latest_change_run(texts: Sequence[str], generation: str) -> AnalysisRun | None:
    """Return the newest run for the effect of single changes in a generation. Runs two queries."""
    return newest_run(CHANGE_EFFECT, change_effect_options(texts, generation))


def stored_change_effect(texts: Sequence[str], generation: str) -> StoredEffect | None:
    """Return the effect of single changes that a run computed for the current data; None if there is none.

    Runs three queries.
    """
    return stored_effect(latest_change_run(texts, generation))


def stored_effect(run: AnalysisRun | None) -> StoredEffect | None:
    """Return the effect that a run computed; None if it is not done, or if a decision may have changed since.

    Data may have changed, or a grant, a membership or an item of the plan may have begun or ended.
    Runs one query.
    """
    if run is None or run.state != JobState.DONE or run.result_removed_at is not None or run.revision is None:
        return None
    valid_until = run.summary.get("valid_until")
    if valid_until and parse_time(valid_until) <= question_time():
        return None
    return StoredEffect(run) if first_relevant_line_since(run.revision) is None else None


def computed_effect(plan: Plan) -> ComputedEffect | None:
    """Return what `apply_plan` needs to know about the effect that a run computed; None if there is no
    current one.
    """
    effect = stored_effect(latest_plan_run(plan, generation_of_plan(plan).name))
    if effect is None:
        return None
    return ComputedEffect(
        effect.digest, effect.summary | {"generation": effect.generation}, effect.max_gained_beyond
    )
