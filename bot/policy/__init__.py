"""What policy says about a call: gates, facts, rules, who may decide.

Pure but for the look-ups it is handed.
"""
