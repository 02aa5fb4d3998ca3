"""The console under its production server, with one more URL: the reference of the benchmark."""
