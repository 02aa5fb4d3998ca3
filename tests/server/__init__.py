"""Tests of the web server: bodies, responses, proxies and logs, against the command of `make run`."""
