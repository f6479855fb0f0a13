// A part of the runtime for OpenPartTest.cpp: a table with a version alone.
const unsigned test_part_table = 7;
