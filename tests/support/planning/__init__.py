"""A small cluster of plain values, for the planner's tests."""
