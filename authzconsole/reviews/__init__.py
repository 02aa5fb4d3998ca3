"""Prepare and finish access reviews in jobs, write their evidence bundles, and remind reviewers.

`grants.reviews` contains the rules; this package contains jobs, files and messages.
"""
