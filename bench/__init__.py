"""The figures: what Countersign costs on this machine. See docs/performance.md.

It uses `bot` and `storage` as they are and changes nothing of them; nothing imports it but its own
test.
"""
