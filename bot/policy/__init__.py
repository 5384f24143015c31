"""The policy: which calls may run, which are denied, and who decides about the others.

Pure but for the look-ups passed to it.
"""
