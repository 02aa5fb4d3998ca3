"""Validate the options of an analysis before a run is started."""

from collections.abc import Mapping

from analytics.analyses import Analysis, AnalysisError
from entities.address import Address, AddressError, address_of
from entities.models import Entity, State
from entities.vocabulary import clip
from grants.active_generation import active_generation
from grants.policies.catalogue import GENERATIONS, UnknownGeneration, generation_by_name

MAX_NAMES_IN_MESSAGE = 20


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


_CHECKS = {"generation": _generation, "to_generation": _to_generation, "namespace": _namespace}
