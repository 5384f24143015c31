"""Human approvals: policy is applied to calls, people decide about them, and the clock reminds and
expires.

`call_checks`, `call_gates` and `call_state` say under what terms a call runs;
`card_routing`, `call_views` and `card_views` where people are asked and what a card shows; the
other modules are the acts: votes, edits, a request's own buttons, saved approvals, expiry and
reminders.
"""
