"""Monitoring of the running bot: its log, metrics, traces and health checks."""
