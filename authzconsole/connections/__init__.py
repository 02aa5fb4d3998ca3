"""Connect the console to the platform and to the systems that enforce its permissions.

Each system has a package. What it reads, matches and evaluates imports no framework; commands and pages are
above it.
"""
