"""Figures of what the data looked like, what was learned and how well it works."""
