"""amux-pam: root's answer to one question of the memory Hub: does the host let this UID in today?

Read in this order: `server` (who may ask, one forked child a verdict, all limits), `child` (what that child gives
up), `judge` (a UID becomes a verdict), `names` and `libpam` (libc and libpam through ctypes), `service_file` (when
not to ask at all), `audit` and `manager` (what the journal and systemd are told).

It trusts nobody: neither the Hub, nor what a PAM module did to the child that ran it. It sees no password. The
standard library alone, nothing of the Hub. docs/reference/amux-pam.md is the contract.
"""
