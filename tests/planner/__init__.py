"""The offline stand-in planner, driven by the real OpenAI client."""
