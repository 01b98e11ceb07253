"""The report: one HTML file that shows how the agents work, made from the gold tables."""
