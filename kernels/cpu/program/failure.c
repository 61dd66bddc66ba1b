#include "failure.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void refuse(int code, const char *fix, const char *format, ...) {
  va_list arguments;
  fflush(stdout);
  fputs("error: ", stderr);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n  = fix: %s\n", fix);
  exit(code);
}
