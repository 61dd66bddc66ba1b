/* How the program refuses: one line that says what, one that says what to do. */
#ifndef MET_FAILURE_H
#define MET_FAILURE_H

enum { FAILED = 1, WRONG_INPUT = 2 };

/* Prints `error: …` and `  = fix: …` to stderr and ends the program with the exit code. */
_Noreturn void refuse(int code, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
