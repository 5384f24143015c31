"""One SQL statement: its text, its tokens, its tree, and what of it is allowed. PURE."""

from typing import Literal

Dialect = Literal["sqlite", "postgres"]
