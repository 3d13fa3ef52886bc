"""Millrace for Python backends: which checkpoint serves a user, evaluated in this process."""
