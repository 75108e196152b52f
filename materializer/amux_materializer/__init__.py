"""amux-materializer: root's hands for one thing: the run directory of a launch, made for whoever asks.

Read in this order: `server` (who may ask, one forked child a launch, the limits, the sweep), `place` (all that root
does in the file system), `child` (the child becomes the caller, and only then reads), `become` (how), `request` (what
may stand in one), `waiter` (what a launch leaves behind goes away), `audit` and `manager` (what the journal and
systemd are told).

It trusts nobody: no field of a request names a person or a path, the Hub has no part in it, and what a child says is
data for a record. The standard library alone, nothing of the Hub. docs/reference/amux-materializer.md is the contract.
"""
