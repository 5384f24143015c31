"""For all tests: random ones try fewer examples than Hypothesis would, and none is failed for a
slow machine.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", max_examples=50, deadline=None)
settings.load_profile("suite")
