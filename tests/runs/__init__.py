"""Tests of the loop, the worker and the executor, on real rows and threads, without Slack."""
