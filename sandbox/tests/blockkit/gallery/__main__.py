"""Prints the gallery as JSON."""

from __future__ import annotations

import json
import sys

from sandbox.tests.blockkit.gallery import gallery

json.dump(gallery(), sys.stdout, indent=1, ensure_ascii=False)
