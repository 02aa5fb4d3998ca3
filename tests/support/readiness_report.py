"""A fixed delete-readiness report, and readers of the pages that show it."""

ANALYSIS = "delete-readiness"
ROWS = {
    "rows": [
        ("hr", "dee", 2, 0, 2, False),
        ("sales", "dee", 6, 1, 5, False),
        ("sales", "ned", 6, 6, 0, True),
        ("sales", "zed", 6, 6, 0, True),
    ],
    "namespaces": [
        ("empty", 1, 0, 0, None, None, True),
        ("hr", 2, 1, 0, 2, "dee", True),
        ("sales", 6, 3, 2, 0, "ned", False),
    ],
    "detail": [
        ("hr", "dee", "dataset:hr.salaries"),
        ("hr", "dee", "namespace:hr"),
        ("sales", "dee", "application:sales.shop"),
    ],
}
SUMMARY = {
    "namespaces": 3,
    "namespaces_somebody_can_delete": 1,
    "namespaces_nobody_can_delete": 2,
    "pairs": 4,
    "pairs_ready": 2,
    "detail_rows": 3,
    "detail_is_written": True,
}

# the table of changes since an earlier report
CHANGES = [
    ("hr", "dee", "changed", 2, 2, 0, 0, 2, 2, False, True),
    ("sales", "ned", "added", None, 6, None, 6, None, 0, None, True),
    ("sales", "old", "removed", 1, None, 0, None, 1, None, False, None),
]


def readiness_rows(response) -> list[tuple]:
    """Return (namespace, user, missing) of the rows of a readiness page."""
    return [(row["namespace"], row["user"], row["missing"]) for row in response.context["table"]["rows"]]


def table_texts(response) -> list[list[str]]:
    """Return the cells of a table page as text, such as `no → yes` for a changed value."""
    return [
        [f"{cell.before.text} → {cell.text}" if cell.before else cell.text for cell in row["cells"]]
        for row in response.context["table"]["rows"]
    ]
