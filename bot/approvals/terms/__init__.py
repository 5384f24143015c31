"""Under what terms a call runs: what policy says of it, and what else lets it run or keeps it.

Reads rows and looks people up; asks nobody and tells nobody.
"""
