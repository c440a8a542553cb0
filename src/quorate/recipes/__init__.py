"""Whole runs: functions that return a configuration, named after data and hardware."""
