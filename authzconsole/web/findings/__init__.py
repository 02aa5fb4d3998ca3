"""The inbox: stored findings for administrators and auditors, and for every account what waits for it."""
