"""`make test` and its relatives. Standard library alone: this runs before any virtual environment exists."""
