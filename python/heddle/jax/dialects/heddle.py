"""The ops of `heddle` have no classes."""
