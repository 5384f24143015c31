"""From what was proposed to calls with a verdict, stored and shown."""
