"""Makes a Pydantic argument model of a JSON Schema.

The model has typed fields, reports errors with their place, and keeps exactly what was given.
"""

from bot.tools.described.argument_models import build_argument_model
from bot.tools.described.checking import UnfitSchemaError as SchemaError

__all__ = ["SchemaError", "build_argument_model"]
