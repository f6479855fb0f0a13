"""Prints a fenced code block of a Markdown file.
usage: code_block.py FILE LANGUAGE [NUMBER]   (the first is 0)"""
import re
import sys

file, language = sys.argv[1:3]
number = int(sys.argv[3]) if len(sys.argv) > 3 else 0
text = open(file, encoding="utf-8").read()
blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
sys.stdout.write([body for name, body in blocks if name == language][number])
