"""Dialects whose ops jaxlib makes or Heddle adds, but jaxlib has no module for.

jaxlib's bindings look for the module of an op's dialect. If there is none, they look
again for each op. The modules here are empty: ops of these dialects need no classes.
"""
