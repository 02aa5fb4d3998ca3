"""Helpers that several areas use: access checks, paging, links, breadcrumbs and privilege cells.

A helper that only one area uses belongs in the folder of that area.
"""
