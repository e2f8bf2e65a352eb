/* Sends every kind of item, and gets it from each of COUNT programs: every_kind ADDRESS COUNT */
#include "check.h"
#include <time.h>

static const char canonical[] =
    "(plus (|odd ) one| :key ()) -12345678901234567890123 2.5 \"a \\\"quoted\\\" \\\\ text\nin lines \303\274\" "
    "#u8(0 255 10) #\\a #\\Space #\\( 'x #(1 2) (1 2 . end))";

static void put(gcb_builder b, gcb_kind kind, const char *text, size_t len)
{
    GIVES(GCB_OK, gcb_put_atom(b, kind, text, len, &check_error));
}

#define PUT(b, kind, literal) put((b), (kind), (literal), sizeof(literal) - 1)

static gcb_list everything(void)
{
    gcb_builder b;
    gcb_list list;
    GIVES(GCB_OK, gcb_build(&b, &check_error));
    gcb_put_open(b, NULL);
    gcb_put_symbol(b, "plus", NULL);
    gcb_put_open(b, NULL);
    gcb_put_symbol(b, "|odd ) one|", NULL);
    gcb_put_symbol(b, ":key", NULL);
    gcb_put_open(b, NULL);
    gcb_put_close(b, NULL);
    gcb_put_close(b, NULL);
    PUT(b, GCB_KIND_INTEGER, "-12345678901234567890123");
    gcb_put_float(b, 2.5, NULL);
    gcb_put_string(b, "a \"quoted\" \\ text\nin lines \303\274", NULL);
    PUT(b, GCB_KIND_BYTES, "\0\377\n");
    PUT(b, GCB_KIND_CHARACTER, "a");
    PUT(b, GCB_KIND_CHARACTER, "Space");
    PUT(b, GCB_KIND_CHARACTER, "(");
    gcb_put_mark(b, "'", NULL);
    gcb_put_symbol(b, "x", NULL);
    gcb_put_mark(b, "#", NULL);
    gcb_put_open(b, NULL);
    gcb_put_integer(b, 1, NULL);
    gcb_put_integer(b, 2, NULL);
    gcb_put_close(b, NULL);
    gcb_put_open(b, NULL);
    gcb_put_integer(b, 1, NULL);
    gcb_put_integer(b, 2, NULL);
    gcb_put_dot(b, NULL);
    gcb_put_symbol(b, "end", NULL);
    gcb_put_close(b, NULL);
    gcb_put_close(b, NULL);
    GIVES(GCB_OK, gcb_finish(b, &list, &check_error));
    return list;
}

/* That a message is the list, in this program's own syntax, and that its items are of their kinds. */
static void compare(gcb_message message, const char *own, size_t own_len)
{
    static const gcb_kind kinds[] = {
        GCB_KIND_SYMBOL, GCB_KIND_LIST, GCB_KIND_INTEGER, GCB_KIND_FLOAT, GCB_KIND_STRING, GCB_KIND_BYTES,
        GCB_KIND_CHARACTER, GCB_KIND_CHARACTER, GCB_KIND_CHARACTER, GCB_KIND_QUOTED, GCB_KIND_QUOTED, GCB_KIND_LIST};
    gcb_list list;
    gcb_item at, item;
    gcb_syntax syntax;
    gcb_bytes data;
    char text[512];
    size_t len, count = 0;
    GIVES(GCB_OK, gcb_message_syntax(message, &syntax, &check_error));
    GIVES(GCB_OK, gcb_message_data(message, &data, &check_error));
    CHECK(syntax == GCB_CSTREAM && is(data, own, own_len));
    GIVES(GCB_OK, gcb_message_list(message, &list, &check_error));
    GIVES(GCB_OK, gcb_root(list, &at, &check_error));
    GIVES(GCB_OK, gcb_write(at, GCB_SEXP, text, sizeof text, &len, &check_error));
    CHECK(strcmp(text, canonical) == 0);
    for (; gcb_first(at, &item, NULL) == GCB_OK; gcb_rest(at, &at, NULL)) {
        gcb_kind kind;
        GIVES(GCB_OK, gcb_kind_of(item, &kind, &check_error));
        CHECK(count < 12 && kind == kinds[count++]);
    }
    CHECK(count == 12);
    gcb_list_free(list, NULL);
}

int main(int count, char **words)
{
    static const struct timespec pause = {0, 50000000};
    gcb_bus bus;
    gcb_list list = everything(), names;
    gcb_item root;
    char own[512];
    size_t len, wanted, others = 0;
    CHECK(count == 3);
    wanted = (size_t)atoi(words[2]);
    GIVES(GCB_OK, gcb_root(list, &root, &check_error));
    GIVES(GCB_OK, gcb_write(root, GCB_CSTREAM, own, sizeof own, &len, &check_error));
    GIVES(GCB_OK, gcb_connect(words[1], 10000, &bus, &check_error));
    GIVES(GCB_OK, gcb_command(bus, "syntax cstream", NULL, &check_error));
    GIVES(GCB_OK, gcb_accept_ring(bus, "*", "kinds", &check_error));
    while (others != wanted) {
        gcb_item all;
        GIVES(GCB_OK, gcb_ping(bus, "*", "kinds", &names, &check_error));
        gcb_root(names, &all, NULL);
        GIVES(GCB_OK, gcb_length(all, &others, &check_error));
        gcb_list_free(names, NULL);
        nanosleep(&pause, NULL);
    }
    GIVES(GCB_OK, gcb_send(bus, "c", "kinds", root, &check_error));
    for (size_t got = 0; got < wanted; got++) {
        gcb_message message;
        gcb_bytes tag;
        GIVES(GCB_OK, gcb_receive(bus, 30000, &message, &check_error));
        GIVES(GCB_OK, gcb_message_tag(message, &tag, &check_error));
        compare(message, own, len);
        printf("equal %s\n", tag.data);
        gcb_message_free(message, NULL);
    }
    gcb_list_free(list, NULL);
    GIVES(GCB_OK, gcb_close(bus, 10000, &check_error));
    return 0;
}
