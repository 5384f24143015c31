"""Many steps from a seed: the real core and outbox in virtual time, one thing at a time.

fibers      threads that take turns, chosen by the seed
waiting     what the product waits on, in virtual time
wire        a Slack that loses answers, limits and repeats
model       a model that makes mistakes
directory   look-ups that take time, and fail
people      who click on what they see, late, twice and together
process     one life of the product on the database
record      what must be true, checked after each commit
world       all of them, and what happens next
workspace   the workspace of a world
hosted      two worlds in one process
"""
