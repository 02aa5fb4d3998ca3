"""The stages of the computation of a report."""

from enum import StrEnum


class RunStage(StrEnum):
    """The stages of a running run, in order."""

    label: str

    def __new__(cls, value: str, label: str) -> "RunStage":
        stage = str.__new__(cls, value)
        stage._value_, stage.label = value, label
        return stage

    SNAPSHOT = "snapshot", "Taking a snapshot"
    SPARK = "spark", "Starting Spark"
    COMPUTING = "computing", "Computing"
    WRITING = "writing", "Writing the report"
