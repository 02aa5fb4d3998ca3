"""One module for each analysis: which rules it evaluates, and what its tables hold. How rules are evaluated is in `engine`."""
