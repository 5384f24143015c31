"""A million steps from a seed: the real core and outbox in virtual time, one thing at a time.

fibers      threads that take turns, by the seed's choice
waiting     what the product waits on, in virtual time
wire        a Slack that loses answers, limits and repeats
model       a model that errs
directory   look-ups that take their time, and fail
people      who click on what they see, late, twice and together
process     one life of the product on the database
record      what has to be true, looked at after each commit
world       all of them, and what happens next
workspace   which workspace a world is
hosted      two worlds at one process
"""
