#!/bin/sh
echo no linker today >&2
exit 3
