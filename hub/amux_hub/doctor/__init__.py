"""`amux-hub doctor`: small checks of a Hub and its host, one file a subject. docs/reference/doctor.md lists them.

Promises: nothing is opened for writing, no lock is taken, no link below the home is followed, nothing that stands in
a document is shown but a path that it names. A Hub that is stopped is not started by being looked at. Every check
ends within its time.
"""
