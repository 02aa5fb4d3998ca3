"""What Python workers are told of the tenant to judge a plan: its targets, cut into parts, and the grants that count for them.

A grant is sent once, to where the granted entity is; only in a family that is too large for one unit it is sent to each block of
it, where it counts for everything inside. It is never multiplied by the entities. The rows are those of analytics.spark.units.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.counting import COUNTS, changes_counted
from analytics.spark.law import UNMET, HeldAnywhere, Plan, Requirement, lacking_plan
from analytics.spark.principals import users_placed
from analytics.spark.schemas import Tables
from analytics.spark.units import (
    ANYWHERE,
    COLUMNS,
    EVERYBODY,
    FACT,
    GRANT,
    INSTANCE_WIDE,
    KIND_BITS,
    MEMBER,
    NAMESPACE_WIDE,
    NOTHING,
    PRIVILEGE_BITS,
    TARGET,
    UNIT_ENTITIES,
    USER,
    FactForm,
)
from analytics.spark.verdicts import Law
from analytics.spark.whole import SENT, AllLive, Namespaces, PlainPlan
from entities.address import ancestor_kinds
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege
from grants.policies.grammar import Has, HasAtOrBelow, HasOnAllLive, Scope, UnknownExpression

PRIVILEGES = tuple(privilege.value for privilege in Privilege)
# what lies in no container is a family of its own
OUTSIDE = NOTHING


@dataclass(frozen=True)
class Asked:
    """A plan over the live entities of its kinds.

    container: whose contents are a family. is_together: kinds of the same rules are counted as one, each under a rule of any.
    namespaces: in which alone it is asked; None for the whole tenant.
    """

    tables: Tables
    plan: Plan
    container: str = "namespace"
    is_together: bool = False
    namespaces: Namespaces | None = None

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        # containers first, so that what counts for them is a short stretch of a unit; and kinds of the same rules side by side
        return tuple(sorted(self.plan.kinds, key=lambda kind: (kind not in CONTAINER_KINDS, repr(self._rules_of(kind)))))

    @cached_property
    def kind_numbers(self) -> dict[str, int]:
        numbers: dict = {}
        return {kind: numbers.setdefault(self._rules_of(kind) if self.is_together else kind, len(numbers)) for kind in self.kinds}

    def _rules_of(self, kind: str) -> tuple:
        return tuple((rule.operation, rule.before, rule.after) for rule in self.plan.rules if rule.kind == kind)

    @cached_property
    def law(self) -> Law:
        numbers, known = self.kind_numbers, set()
        rules = []
        for rule in self.plan.rules:
            told = numbers[rule.kind], rule.operation, rule.before, rule.after
            # a rule that was told for another kind has none to judge, and keeps its number
            rules.append((NOTHING if told in known else told[0], rule.before, rule.after))
            known.add(told)
        return Law(tuple(rules), tuple(_form(self.plan, number, numbers) for number in range(len(self.plan.facts))))


def _kinds_by_grants(asked: Asked) -> tuple[str, ...]:
    """Those of which nothing turns but what somebody holds a grant on: the grants themselves tell which entities there are."""
    facts = asked.law.facts
    return tuple(kind for kind in asked.kinds if all(
        rule.before == UNMET and _needs_own_grant(rule.after, facts) for rule in asked.plan.rules if rule.kind == kind))


def _needs_own_grant(requirement: Requirement, facts: tuple[FactForm, ...]) -> bool:
    word, parts = requirement
    if word == "held":
        return all(facts[number].form == "self" for number in parts)
    return (any if word == "all" else all)(_needs_own_grant(part, facts) for part in parts)


def _form(plan: Plan, number: int, kinds: dict[str, int]) -> FactForm:
    asking = frozenset(kinds[rule.kind] for rule in plan.rules if number in _asked(rule.before) | _asked(rule.after))
    match plan.facts[number]:
        case Has(privileges, scope) if scope in _SCOPES:
            return FactForm(_SCOPES[scope], _bits(privileges), asking)
        case HasAtOrBelow():
            return FactForm("below", _bits(Privilege), asking)
        case HeldAnywhere(privileges):
            # of a family as a whole it is what is held below it
            return FactForm("below" if asking == {kinds.get("namespace")} else "anywhere", _bits(privileges), asking)
        case HasOnAllLive():
            return FactForm("told", 0, asking)
    raise UnknownExpression(plan.facts[number])


_SCOPES = {Scope.SELF: "self", Scope.APPLICATION: "application", Scope.NAMESPACE: "namespace", Scope.INSTANCE: "instance"}


def _bits(privileges) -> int:
    return sum(1 << PRIVILEGES.index(privilege.value) for privilege in privileges)


def _asked(requirement: Requirement) -> set[int]:
    word, parts = requirement
    return set(parts) if word == "held" else set().union(*map(_asked, parts))


def parts(asked: Asked, *, with_names: bool = False) -> DataFrame:
    """COLUMNS, one part of the tenant in each partition. with_names: and `name`, the address of each target."""
    tables, count = asked.tables, partitions(asked.tables)
    placed = _placed(asked)
    by_grants = () if with_names else _kinds_by_grants(asked)
    targets = _targets(asked, placed, by_grants, with_names=with_names)
    inside = [targets, _grants(asked, placed, by_grants), *_wide(asked, placed), *_told(asked, placed)]
    in_part = F.pmod(F.xxhash64("family", "block"), F.lit(count)).cast("int").alias("part")
    rows = reduce(_union, inside).select("*", in_part)
    everywhere = _union(_users(tables), _members(tables)).crossJoin(every_part(tables, count))
    columns = [*COLUMNS, "name"] if with_names else COLUMNS
    return _union(rows, everywhere).repartitionById(count, "part").select(*columns)


def whole_tenant(tables: Tables) -> DataFrame:
    """What whole.SENT names of each table, in one partition; `table` says of which."""
    sent = [getattr(tables, name).select(F.lit(name).alias("table"), *columns) for name, columns in SENT.items()]
    return reduce(_union, sent).coalesce(1)


def plain_plan(asked: Asked) -> PlainPlan:
    """What a Python worker has to know to make the rows of `parts` of a tenant that is sent to it as it is."""
    facts = _of_all_live(asked)
    return PlainPlan(asked.law, asked.kind_numbers, PRIVILEGES, asked.container, asked.namespaces,
                     tuple(_all_live(asked.tables, facts, container) for container in CONTAINER_KINDS[1:] if facts))


def _of_all_live(asked: Asked) -> dict[int, HasOnAllLive]:
    return {number: fact for number, fact in enumerate(asked.plan.facts) if isinstance(fact, HasOnAllLive)}


def _all_live(tables: Tables, facts: dict[int, HasOnAllLive], container: str) -> AllLive:
    if (lacking := _lacking(tables, facts, container)) is None:
        return AllLive(container, tuple(facts))
    asked, facts_by_rule = lacking
    rules = {fact: tuple(rule for rule, found in enumerate(facts_by_rule) if fact in found) for fact in facts}
    return AllLive(container, tuple(facts), plain_plan(asked), rules)


def partitions(tables: Tables) -> int:
    return int(tables.users.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def every_part(tables: Tables, count: int) -> DataFrame:
    """part: from 0 on; to send something to each."""
    return tables.users.sparkSession.range(count).select(F.col("id").cast("int").alias("part"))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _row(frame: DataFrame, tag: int | str, **columns: Column | str) -> DataFrame:
    told = {"family": F.lit(NOTHING), "block": F.lit(0), "principal": F.lit(NOTHING), "what": F.lit(0), "entity": F.lit(NOTHING),
            "application": F.lit(NOTHING), **{name: F.col(c) if isinstance(c, str) else c for name, c in columns.items()}}
    return frame.select((F.col(tag) if isinstance(tag, str) else F.lit(tag)).cast("long").alias("tag"),
                        *[F.coalesce(told[name].cast("long"), F.lit(NOTHING)).alias(name) for name in COLUMNS[1:]],
                        *([F.col("name")] if "name" in frame.columns else []))


def _placed(asked: Asked) -> DataFrame:
    """id, kind, key, state, family, rank, application, block, blocks: of every entity.

    A family that is too large for a unit is cut into blocks, each application in one; the family's own entity is in the first.
    """
    application = F.when(F.col("kind") == "application", F.col("id")).otherwise(F.col("application_id"))
    family = F.coalesce(application if asked.container == "application" else F.col("namespace_id"), F.lit(OUTSIDE))
    entities = asked.tables.entities.select(
        "id", "kind", "key", "state", family.alias("family"), application.alias("application"))
    too_large = (
        entities.groupBy("family").count().where(F.col("count") > UNIT_ENTITIES)
        .select("family", F.ceil(F.col("count") / UNIT_ENTITIES).alias("blocks"))
    )
    of_its_own = F.pmod(F.xxhash64(F.coalesce("application", "id")), F.col("blocks"))
    block = F.when(F.col("blocks").isNull() | (F.col("id") == F.col("family")), 0).otherwise(of_its_own)
    ranks = ranked(namespaces_named(asked.tables, asked.namespaces)).select("family", "rank")
    return (
        entities.join(F.broadcast(ranks), on="family", how="left" if asked.namespaces is None else "inner")
        .join(F.broadcast(too_large), on="family", how="left")
        .withColumns({"block": block.cast("long"), "rank": F.coalesce("rank", F.lit(0))})
    )


def _targets(asked: Asked, placed: DataFrame, by_grants: tuple[str, ...], *, with_names: bool) -> DataFrame:
    others = [kind for kind in asked.kinds if kind not in by_grants]
    live = placed.where((F.col("state") == "live") & F.col("kind").isin(*others))
    if with_names:
        live = live.withColumn("name", F.concat_ws(":", "kind", "key"))
    return _row(live, TARGET, family="family", block="block", principal="rank", what=_kind_number(asked), entity="id",
                application="application")


def _kind_number(asked: Asked) -> Column:
    numbers = [F.lit(told) for kind_and_number in asked.kind_numbers.items() for told in kind_and_number]
    return F.create_map(*numbers)[F.col("kind")]


def namespaces_named(tables: Tables, chosen: Namespaces | None = None) -> DataFrame:
    """family, name: of those that are chosen, or of all."""
    found = tables.entities.where(F.col("kind") == "namespace")
    if chosen is not None:
        found = found.where(F.col("state") == "live")
    if chosen is not None and chosen.name:
        found = found.where(F.col("key") == chosen.name)
    return found.select(F.col("id").alias("family"), F.col("key").alias("name"))


def ranked(namespaces: DataFrame) -> DataFrame:
    """With rank: from 1 on by name; what lies outside of all has the rank 0 and no row."""
    return namespaces.withColumn("rank", F.row_number().over(Window.orderBy("name")).cast("long"))


def _principal() -> Column:
    # groups below everybody
    return F.when(F.col("principal_type") == "user", F.col("principal_id")).otherwise(EVERYBODY - 1 - F.col("principal_id"))


def _granted(asked: Asked) -> DataFrame:
    """principal, what (the privilege), entity: the grants that some fact looks at."""
    looked_at = reduce(int.__or__, (fact.privileges for fact in asked.law.facts), 0)
    meant = [privilege for number, privilege in enumerate(PRIVILEGES) if looked_at >> number & 1]
    number = F.array_position(F.array(*map(F.lit, PRIVILEGES)), F.col("privilege")) - 1
    return asked.tables.grants.where(F.col("privilege").isin(*meant)).select(
        _principal().alias("principal"), number.alias("what"), F.col("entity_id").alias("entity"))


def _found(asked: Asked, placed: DataFrame) -> DataFrame:
    """_granted, with what `_placed` says of each entity."""
    around = placed.withColumnRenamed("id", "entity").drop("key")
    return _granted(asked).join(around.hint("shuffle_hash"), on="entity", how="inner")


def _grants(asked: Asked, placed: DataFrame, by_grants: tuple[str, ...]) -> DataFrame:
    """GRANT, and ANYWHERE where a container asks what is held below it: the family's own entity is in another block."""
    is_target = (F.col("state") == "live") & F.col("kind").isin(*by_grants)
    kind = F.when(is_target, _kind_number(asked) + 1).otherwise(0) if by_grants else F.lit(0)
    what = F.col("what") + kind * (1 << PRIVILEGE_BITS) + F.col("rank") * (1 << PRIVILEGE_BITS + KIND_BITS)
    found = _found(asked, placed).withColumns({"told": F.array(F.lit(GRANT)), "all": what})
    if any(fact.form == "below" for fact in asked.law.facts):
        both = F.array(F.lit(GRANT), F.lit(ANYWHERE))
        found = found.withColumn("told", F.when(F.col("block") > 0, both).otherwise(F.col("told")))
    is_grant = F.col("tag") == GRANT
    return _row(found.withColumn("tag", F.explode("told")), "tag", family="family", principal="principal",
                block=F.when(is_grant, F.col("block")).otherwise(0), what=F.when(is_grant, F.col("all")).otherwise(F.col("what")),
                entity=F.when(is_grant, F.col("entity")), application=F.when(is_grant, F.col("application")))


def _wide(asked: Asked, placed: DataFrame) -> list[DataFrame]:
    """What counts beyond the block of the granted entity."""
    forms = {fact.form for fact in asked.law.facts}
    granted = _granted(asked)
    found = []
    if "namespace" in forms:
        others = _blocks(asked, placed).where(F.col("block") > 0)
        on_family = granted.join(others, on=F.col("entity") == F.col("family"), how="inner")
        found.append(_row(on_family, NAMESPACE_WIDE, family="family", block="block", principal="principal", what="what"))
    if "anywhere" in forms:
        inside = _found(asked, placed).where(F.col("blocks").isNotNull()).select("family", "principal", "what").distinct()
        reached = inside.join(F.broadcast(_blocks(asked, placed)), on="family", how="inner")
        found.append(_row(reached, ANYWHERE, family="family", block="block", principal="principal", what="what"))
    if "instance" in forms:
        instance = asked.tables.entities.where(F.col("kind") == "instance").select(F.col("id").alias("entity"))
        on_instance = granted.join(F.broadcast(instance), on="entity", how="left_semi").crossJoin(_blocks(asked, placed))
        found.append(_row(on_instance, INSTANCE_WIDE, family="family", block="block", principal="principal", what="what"))
    return found


def _blocks(asked: Asked, placed: DataFrame) -> DataFrame:
    """family, block: of all that is asked of."""
    return placed.where(F.col("kind").isin(*asked.kinds)).select("family", "block").distinct()


def _told(asked: Asked, placed: DataFrame) -> list[DataFrame]:
    facts = _of_all_live(asked)
    around = placed.select(F.col("id").alias("entity"), "family", "block")
    return [
        _row(_holding_all_live(asked.tables, facts, container).join(around, on="entity", how="inner"), FACT, family="family",
             block="block", principal="principal", what="fact", entity="entity")
        for container in CONTAINER_KINDS[1:] if facts
    ]


def _users(tables: Tables) -> DataFrame:
    return _row(users_placed(tables), USER, entity="user_id", what="place")


def _members(tables: Tables) -> DataFrame:
    return _row(tables.memberships, MEMBER, principal=EVERYBODY - 1 - F.col("group_id"), entity="user_id")


def _holding_all_live(tables: Tables, facts: dict[int, HasOnAllLive], container: str) -> DataFrame:
    """principal, entity, fact: each container of that kind, with everybody where there is nothing to hold, else with each user
    who holds all.

    How much a user lacks is counted like any other difference between two laws (law.lacking_plan).
    """
    lacking = _lacking(tables, facts, container)
    containing = tables.entities.where(F.col("kind") == container).select(
        F.col("id").alias("entity"), F.explode(F.array(*map(F.lit, facts))).alias("fact")
    )
    if lacking is None:
        return containing.select(F.lit(EVERYBODY).cast("long").alias("principal"), "entity", "fact")
    # the row of those who hold nothing says how many there are
    together = Window.partitionBy("entity", "fact")
    total = F.max(F.when(F.col("is_everybody"), F.col("lacking"))).over(together)
    is_vacuous = F.col("total").isNull()
    return (
        containing.join(_lacking_counted(*lacking), on=["entity", "fact"], how="left").withColumn("total", total)
        .where(is_vacuous | (~F.col("is_everybody") & (F.col("total") + F.col("lacking") == 0)))
        .select(F.when(is_vacuous, F.lit(EVERYBODY)).otherwise(F.col("user_id")).alias("principal"), "entity", "fact")
    )


def _lacking(tables: Tables, facts: dict[int, HasOnAllLive], container: str) -> tuple[Asked, list[list[int]]] | None:
    """What of all in a container somebody lacks, and the facts that each rule counts for; None where nothing lies in one."""
    inside = [kind for kind in KINDS if container in ancestor_kinds(kind)]
    needed = [(kind, fact.privilege, number) for number, fact in facts.items()
              for kind in inside if fact.kind in (None, kind)]
    if not needed:
        return None
    plan = lacking_plan(dict.fromkeys((kind, privilege) for kind, privilege, _ in needed))
    facts_by_rule = [[number for kind, privilege, number in needed if (kind, privilege.value) == (rule.kind, rule.operation)]
                     for rule in plan.rules]
    return Asked(tables, plan, container), facts_by_rule


def _lacking_counted(asked: Asked, facts_by_rule: list[list[int]]) -> DataFrame:
    """entity, fact, is_everybody, user_id, lacking: by container; of a user the difference to those who hold nothing."""
    numbers = F.array(*[F.array(*map(F.lit, found)) for found in facts_by_rule])
    return (
        parts(asked).mapInArrow(changes_counted(asked.law), COUNTS)
        .select(F.col("family").alias("entity"), "is_everybody", "user_id", "lost",
                F.explode(numbers[F.col("rule")]).alias("fact"))
        .groupBy("entity", "fact", "is_everybody", "user_id").agg(F.sum("lost").alias("lacking"))
    )
