"""Answers to questions: by button, by form, by a plain reply."""
