"""The application that the workers of the web server run: ASGI in front, the WSGI application of the console
behind it.

The event loop receives request bodies and sends long responses, so a slow client occupies no thread. Threads
run only the WSGI application, when the body of the request is complete.
"""
