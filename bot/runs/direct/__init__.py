"""Requests without a model: the calls come from a form, and people are told what became of them."""
