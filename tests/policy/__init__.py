"""Policy: gates, rules, conditions, who may decide."""
