"""The parts of packaging/build_deb.py: suites, wheels, the tree, the man pages, the control files."""
