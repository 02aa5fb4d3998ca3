"""Code that pages, REST and AuthZEN share: callers, tokens, request ids, strict JSON, throttling.

Nothing here renders a page or depends on an endpoint.
"""
