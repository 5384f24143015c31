"""The benchmark: what Countersign costs on this machine. See docs/performance.md.

It uses `bot` and `storage` unchanged, and only its own tests import it.
"""
