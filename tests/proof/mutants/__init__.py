"""Mutants: small changes to the code that decides, each of which some test must notice.

changes     what is changed: one comparison, condition, constant, call or member at a time
planting    puts a change into the code of this process
session     a pytest session that collects once, and tries each change in a fork of its own
"""
