"""Rewrites of modules: each file changes one kind of op into what kernels do well."""
