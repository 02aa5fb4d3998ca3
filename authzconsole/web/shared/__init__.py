"""Helpers that several areas share: access checks, paging, links, breadcrumbs and cells.

A helper that only one area uses belongs to that area.
"""
