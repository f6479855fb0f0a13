"""The ops of `tensor` have no classes."""
