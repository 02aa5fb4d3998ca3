"""The demo tenant, and the throwaway console in which every page is photographed.

Nothing here runs in production except the tenant document that `make run` imports.
"""
