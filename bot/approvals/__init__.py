"""Human approvals: clicks become decisions, the clock reminds and expires.

`terms` says under what terms a call runs (the policy's word, sums, grants, limits, repeats, the
fingerprint); `cards` says where people are asked and what a card shows; the modules here are the
acts on top: votes, edits, a request's own buttons, expiry and reminders.
"""
