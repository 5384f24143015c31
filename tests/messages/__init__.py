"""Tests of cards, dialogs, forms and sentences."""
