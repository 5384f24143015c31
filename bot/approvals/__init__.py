"""Human approvals: policy applied to calls, people's decisions, reminders and expiry.

`call_checks`, `call_gates` and `call_state` say under what terms a call runs; `card_routing`,
`call_views` and `card_views` say where people are asked and what a card shows. The other modules
handle what people and the clock do: votes, edits, a request's own buttons, saved approvals, expiry
and reminders.
"""
