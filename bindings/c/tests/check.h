/* What the tests have in common: a check that says what it is of and where. C11 and C++17. */
#ifndef CHECK_H
#define CHECK_H

#include <groupcast_bus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gcb_error check_error;

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            fprintf(stderr, "%s:%d: %s: error %d %s %s\n", __FILE__, __LINE__,  \
                    #what, (int)check_error.code, check_error.word,             \
                    check_error.text);                                          \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* That a call, whose last argument is &check_error, ends with this code. */
#define GIVES(expected, call)                                                   \
    do {                                                                        \
        gcb_code given = (call);                                                \
        CHECK(given == (expected) && check_error.code == given);                \
    } while (0)

static inline int is(gcb_bytes bytes, const char *text, size_t len)
{
    return bytes.len == len && memcmp(bytes.data, text, len) == 0 && bytes.data[len] == '\0';
}

#define IS(bytes, literal) is((bytes), (literal), sizeof(literal) - 1)

#endif
