"""Dialects whose ops jaxlib makes or Heddle adds, but jaxlib has no module for.

Its bindings look for the module of each op's dialect, anew for each op if there is
none. The modules here are empty: ops of these dialects need no classes.
"""
