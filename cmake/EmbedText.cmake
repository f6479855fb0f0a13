# Writes a text file as a C++ raw string literal: cmake -DFROM=a -DTO=b -P this.
# Compilers limit one literal, so the text is cut into several.
file(READ ${FROM} text)
string(LENGTH "${text}" length)
set(literals)
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 16000 piece)
  string(APPEND literals "R\"text(${piece})text\"\n")
  math(EXPR begin "${begin} + 16000")
endwhile()
file(WRITE ${TO} "${literals}")
