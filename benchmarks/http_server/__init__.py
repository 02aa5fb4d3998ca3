"""The console under its production server, with one more URL: the baseline of the benchmark."""
