"""Arguments that a JSON Schema describes, as a model like that of any tool's: its fields, what is
wrong with a value and where, and exactly what was given, no more.
"""

from bot.tools.described.argument_models import arguments_of
from bot.tools.described.checking import UnfitSchemaError as SchemaError

__all__ = ["SchemaError", "arguments_of"]
