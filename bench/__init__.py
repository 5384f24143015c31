"""The figures: what Countersign costs on this machine. `make bench`, or `python -m bench --help`; see docs/performance.md.

It uses `bot` and `storage` as they are and changes nothing of them; nothing imports it but its own test.
"""
