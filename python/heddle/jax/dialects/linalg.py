"""The ops of `linalg` have no classes."""
