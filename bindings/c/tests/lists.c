/* Lists without a bus: reading, walking, writing, and everything that a program can do wrong. */
#include "check.h"
#include <math.h>

static gcb_list read_text(gcb_syntax syntax, const char *text)
{
    gcb_list list;
    GIVES(GCB_OK, gcb_parse(syntax, text, strlen(text), &list, &check_error));
    return list;
}

static gcb_item root_of(gcb_list list)
{
    gcb_item root;
    GIVES(GCB_OK, gcb_root(list, &root, &check_error));
    return root;
}

static int writes(gcb_item item, gcb_syntax syntax, const char *expected)
{
    char text[256];
    size_t len = 0;
    GIVES(GCB_OK, gcb_write(item, syntax, text, sizeof text, &len, &check_error));
    if (strcmp(text, expected) != 0 || len != strlen(expected))
        fprintf(stderr, "written: %s\n", text);
    return strcmp(text, expected) == 0 && len == strlen(expected);
}

static void both_syntaxes(void)
{
    static const char sexp[] = "(plus |a b| -12345678901234567890123 2.5 \"x \\\"y\\\"\" #u8(0 255) #\\Space 'q (1 . 2))";
    static const char stream[] = "cs[y4:plusy5:|a b|i24:-12345678901234567890123f3:2.5s5:x \"y\"b2:\0\377c5:Spaceq1:'y1:q[i1:1.i1:2]]";
    char text[256];
    size_t len;
    gcb_list one = read_text(GCB_ANY, sexp), other;
    CHECK(writes(root_of(one), GCB_SEXP, sexp));
    GIVES(GCB_OK, gcb_write(root_of(one), GCB_CSTREAM, text, sizeof text, &len, &check_error));
    CHECK(len == sizeof stream - 1 && memcmp(text, stream, len) == 0);
    GIVES(GCB_OK, gcb_parse(GCB_CSTREAM, stream, sizeof stream - 1, &other, &check_error));
    CHECK(writes(root_of(other), GCB_SEXP, sexp));
    GIVES(GCB_OK, gcb_list_free(one, &check_error));
    GIVES(GCB_OK, gcb_list_free(other, &check_error));
}

static void first_and_rest(void)
{
    gcb_list list = read_text(GCB_SEXP, " ; a comment\n(a (b c) . d) ");
    gcb_item a = root_of(list), item, part, none;
    gcb_kind kind;
    size_t count = 0;
    GIVES(GCB_OK, gcb_length(a, &count, &check_error));
    CHECK(count == 2);
    GIVES(GCB_OK, gcb_first(a, &item, &check_error));
    CHECK(writes(item, GCB_SEXP, "a"));
    GIVES(GCB_OK, gcb_rest(a, &a, &check_error));
    CHECK(writes(a, GCB_SEXP, "((b c) . d)") && writes(a, GCB_CSTREAM, "cs[[y1:by1:c].y1:d]"));
    GIVES(GCB_OK, gcb_first(a, &part, &check_error));
    GIVES(GCB_OK, gcb_rest(part, &part, &check_error));
    CHECK(writes(part, GCB_SEXP, "(c)"));
    GIVES(GCB_OK, gcb_rest(part, &part, &check_error));
    CHECK(writes(part, GCB_SEXP, "()"));
    GIVES(GCB_OK, gcb_length(part, &count, &check_error));
    CHECK(count == 0);
    GIVES(GCB_TYPE, gcb_first(part, &none, &check_error));
    GIVES(GCB_TYPE, gcb_rest(part, &none, &check_error));
    CHECK(none.list == 0);
    GIVES(GCB_OK, gcb_rest(a, &a, &check_error));
    GIVES(GCB_OK, gcb_kind_of(a, &kind, &check_error));
    CHECK(kind == GCB_KIND_SYMBOL && writes(a, GCB_SEXP, "d"));
    GIVES(GCB_TYPE, gcb_rest(a, &a, &check_error));
    gcb_list_free(list, NULL);
}

static void values(void)
{
    gcb_list list = read_text(GCB_SEXP, "(42 99999999999999999999 1.5d3 1e999 \"a\\\\b\" #\\( #u8(0 7) #(1) 12.)");
    gcb_item at = root_of(list), items[9], inner;
    gcb_bytes text, mark;
    gcb_kind kind;
    int64_t whole;
    double real;
    size_t count = 0;
    for (gcb_item each; gcb_first(at, &each, NULL) == GCB_OK; gcb_rest(at, &at, NULL))
        items[count++] = each;
    CHECK(count == 9);
    GIVES(GCB_OK, gcb_integer(items[0], &whole, &check_error));
    CHECK(whole == 42);
    GIVES(GCB_RANGE, gcb_integer(items[1], &whole, &check_error));
    GIVES(GCB_OK, gcb_text(items[1], &text, &check_error));
    CHECK(IS(text, "99999999999999999999"));
    GIVES(GCB_OK, gcb_float(items[1], &real, &check_error));
    CHECK(real > 9.9e19 && real < 1.1e20);
    GIVES(GCB_OK, gcb_float(items[2], &real, &check_error));
    CHECK(real > 1499 && real < 1501);
    GIVES(GCB_RANGE, gcb_float(items[3], &real, &check_error));
    GIVES(GCB_TYPE, gcb_integer(items[2], &whole, &check_error));
    GIVES(GCB_TYPE, gcb_float(items[4], &real, &check_error));
    GIVES(GCB_OK, gcb_text(items[4], &text, &check_error));
    CHECK(IS(text, "a\\b"));
    GIVES(GCB_OK, gcb_text(items[5], &text, &check_error));
    CHECK(IS(text, "("));
    GIVES(GCB_OK, gcb_text(items[6], &text, &check_error));
    CHECK(IS(text, "\0\7"));
    GIVES(GCB_TYPE, gcb_text(items[7], &text, &check_error));
    CHECK(text.data != NULL && text.len == 0);
    GIVES(GCB_OK, gcb_quoted(items[7], &mark, &inner, &check_error));
    CHECK(IS(mark, "#") && writes(inner, GCB_SEXP, "(1)"));
    GIVES(GCB_OK, gcb_quoted(items[7], NULL, &inner, &check_error));
    GIVES(GCB_TYPE, gcb_quoted(items[6], &mark, &inner, &check_error));
    GIVES(GCB_OK, gcb_kind_of(items[7], &kind, &check_error));
    CHECK(kind == GCB_KIND_QUOTED);
    GIVES(GCB_OK, gcb_integer(items[8], &whole, &check_error));
    CHECK(whole == 12);
    gcb_list_free(list, NULL);
}

static void what_is_no_list(void)
{
    gcb_list list;
    GIVES(GCB_LIST, gcb_parse(GCB_SEXP, "(a ')", 5, &list, &check_error));
    CHECK(check_error.column == 5 && strcmp(check_error.word, "list") == 0 && list.handle == 0);
    GIVES(GCB_LIST, gcb_parse(GCB_SEXP, "(a", 2, &list, &check_error));
    GIVES(GCB_LIST, gcb_parse(GCB_CSTREAM, "(a)", 3, &list, &check_error));
    GIVES(GCB_LIST, gcb_parse(GCB_ANY, NULL, 0, &list, &check_error));
    GIVES(GCB_TYPE, gcb_parse(GCB_RAW, "(a)", 3, &list, &check_error));
    char *deep = (char *)malloc(1000000);
    CHECK(deep != NULL);
    memset(deep, '(', 1000000);
    GIVES(GCB_LIST, gcb_parse(GCB_SEXP, deep, 1000000, &list, &check_error));
    CHECK(check_error.column == 1001 && strcmp(check_error.word, "depth") == 0);
    free(deep);
}

/* What is refused would be missing in the list: there is none, whatever was put behind it. */
#define REFUSES(put) \
    do { \
        CHECK(gcb_build(&builder, NULL) == GCB_OK); \
        CHECK(gcb_put_open(builder, NULL) == GCB_OK); \
        GIVES(GCB_ARGUMENT, put); \
        gcb_put_symbol(builder, "more", NULL); \
        gcb_put_mark(builder, "no mark", NULL); \
        CHECK(gcb_put_close(builder, NULL) == GCB_OK); \
        CHECK(gcb_finish(builder, &list, &again) == GCB_ARGUMENT); \
        CHECK(list.handle == 0 && strcmp(again.text, check_error.text) == 0); \
    } while (0)

static void refused(void)
{
    gcb_builder builder;
    gcb_list list;
    gcb_item none = {0, 0, 0};
    gcb_error again;
    REFUSES(gcb_put_symbol(builder, "a b", &check_error));
    REFUSES(gcb_put_symbol(builder, "12", &check_error));
    REFUSES(gcb_put_symbol(builder, "", &check_error));
    REFUSES(gcb_put_symbol(builder, "\377", &check_error));
    REFUSES(gcb_put_float(builder, HUGE_VAL, &check_error));
    REFUSES(gcb_put_atom(builder, GCB_KIND_INTEGER, "12x", 3, &check_error));
    REFUSES(gcb_put_atom(builder, GCB_KIND_LIST, "()", 2, &check_error));
    REFUSES(gcb_put_atom(builder, (gcb_kind)77, "x", 1, &check_error));
    REFUSES(gcb_put_atom(builder, GCB_KIND_STRING, NULL, 1, &check_error));
    REFUSES(gcb_put_mark(builder, "''", &check_error));
    CHECK(gcb_build(&builder, NULL) == GCB_OK);
    CHECK(gcb_put_item(builder, none, NULL) == GCB_HANDLE);
    CHECK(gcb_finish(builder, &list, &again) == GCB_HANDLE);
    /* The place for the result is emptied, and the builder freed, in any case. */
    list.handle = 77;
    CHECK(gcb_finish(builder, &list, &again) == GCB_HANDLE);
    CHECK(list.handle == 0);
    CHECK(gcb_build(&builder, NULL) == GCB_OK);
    CHECK(gcb_finish(builder, NULL, &again) == GCB_ARGUMENT);
    CHECK(gcb_builder_free(builder, &again) == GCB_HANDLE);
}

static void written_by_hand(void)
{
    gcb_builder builder, broken;
    gcb_list list, copy;
    GIVES(GCB_OK, gcb_build(&builder, &check_error));
    GIVES(GCB_OK, gcb_put_open(builder, &check_error));
    GIVES(GCB_OK, gcb_put_symbol(builder, "a", &check_error));
    GIVES(GCB_OK, gcb_put_string(builder, "b\"c", &check_error));
    GIVES(GCB_OK, gcb_put_integer(builder, INT64_MIN, &check_error));
    GIVES(GCB_OK, gcb_put_float(builder, 0.1, &check_error));
    GIVES(GCB_OK, gcb_put_float(builder, 1e300, &check_error));
    GIVES(GCB_OK, gcb_put_atom(builder, GCB_KIND_INTEGER, "123456789012345678901", 21, &check_error));
    GIVES(GCB_OK, gcb_put_atom(builder, GCB_KIND_BYTES, NULL, 0, &check_error));
    GIVES(GCB_OK, gcb_put_mark(builder, "'", &check_error));
    GIVES(GCB_OK, gcb_put_atom(builder, GCB_KIND_CHARACTER, "Space", 5, &check_error));
    GIVES(GCB_OK, gcb_put_dot(builder, &check_error));
    GIVES(GCB_OK, gcb_put_symbol(builder, ":end", &check_error));
    GIVES(GCB_OK, gcb_put_close(builder, &check_error));
    GIVES(GCB_OK, gcb_finish(builder, &list, &check_error));
    CHECK(writes(root_of(list), GCB_SEXP,
                 "(a \"b\\\"c\" -9223372036854775808 0.1 1e300 123456789012345678901 #u8() '#\\Space . :end)"));
    GIVES(GCB_HANDLE, gcb_put_open(builder, &check_error));
    GIVES(GCB_OK, gcb_build(&builder, &check_error));
    GIVES(GCB_OK, gcb_put_open(builder, &check_error));
    GIVES(GCB_OK, gcb_put_item(builder, root_of(list), &check_error));
    GIVES(GCB_OK, gcb_put_close(builder, &check_error));
    GIVES(GCB_OK, gcb_finish(builder, &copy, &check_error));
    gcb_list_free(copy, NULL);
    gcb_list_free(list, NULL);
    GIVES(GCB_OK, gcb_build(&broken, &check_error));
    GIVES(GCB_OK, gcb_put_open(broken, &check_error));
    GIVES(GCB_LIST, gcb_finish(broken, &list, &check_error));
    CHECK(list.handle == 0);
    GIVES(GCB_HANDLE, gcb_finish(broken, &list, &check_error));
    GIVES(GCB_OK, gcb_build(&broken, &check_error));
    GIVES(GCB_OK, gcb_builder_free(broken, &check_error));
    GIVES(GCB_HANDLE, gcb_builder_free(broken, &check_error));
}

static void handles_that_are_none(void)
{
    gcb_list list = read_text(GCB_SEXP, "(a b)"), null = {0}, taken;
    gcb_item root = root_of(list), invented = root, none = {0, 0, 0}, item;
    gcb_message message = {list.handle};
    gcb_bus bus = {list.handle};
    gcb_bytes bytes;
    char text[4];
    size_t len;
    GIVES(GCB_HANDLE, gcb_root(null, &item, &check_error));
    GIVES(GCB_HANDLE, gcb_first(none, &item, &check_error));
    GIVES(GCB_ARGUMENT, gcb_root(list, NULL, &check_error));
    GIVES(GCB_ARGUMENT, gcb_parse(GCB_SEXP, "()", 2, NULL, &check_error));
    GIVES(GCB_ARGUMENT, gcb_parse(GCB_SEXP, NULL, 2, &taken, &check_error));
    GIVES(GCB_ARGUMENT, gcb_parse((gcb_syntax)9, "()", 2, &taken, &check_error));
    /* A handle of another kind. */
    GIVES(GCB_HANDLE, gcb_message_tag(message, &bytes, &check_error));
    GIVES(GCB_HANDLE, gcb_message_free(message, &check_error));
    GIVES(GCB_HANDLE, gcb_accept(bus, "*", "d", &check_error));
    GIVES(GCB_HANDLE, gcb_close(bus, 0, &check_error));
    /* Places that are none, or the inside of something. */
    for (uint32_t place = 0; place < 8; place++)
        for (uint32_t rest = 0; rest < 2; rest++) {
            invented.place = place;
            invented.rest = rest;
            gcb_first(invented, &item, &check_error);
            gcb_rest(invented, &item, &check_error);
            gcb_text(invented, &bytes, &check_error);
            gcb_length(invented, &len, &check_error);
            gcb_write(invented, GCB_SEXP, text, sizeof text, &len, &check_error);
        }
    invented.place = UINT32_MAX;
    GIVES(GCB_HANDLE, gcb_first(invented, &item, &check_error));
    /* Memory that is too small. */
    GIVES(GCB_RANGE, gcb_write(root, GCB_SEXP, text, 4, &len, &check_error));
    CHECK(len == 5);
    GIVES(GCB_RANGE, gcb_write(root, GCB_SEXP, NULL, 0, &len, &check_error));
    GIVES(GCB_ARGUMENT, gcb_write(root, GCB_RAW, text, 4, &len, &check_error));
    CHECK(gcb_write(root, GCB_SEXP, NULL, 0, NULL, NULL) == GCB_RANGE);
    /* Freed, once and again. */
    GIVES(GCB_OK, gcb_list_free(list, &check_error));
    GIVES(GCB_HANDLE, gcb_list_free(list, &check_error));
    GIVES(GCB_HANDLE, gcb_first(root, &item, &check_error));
    taken = read_text(GCB_SEXP, "(new)");
    GIVES(GCB_HANDLE, gcb_first(root, &item, &check_error));
    gcb_list_free(taken, NULL);
    /* No bus. */
    GIVES(GCB_ADDRESS, gcb_connect("nowhere", 100, &bus, &check_error));
    GIVES(GCB_CONNECTION, gcb_connect("unix:/no/such/socket", 100, &bus, &check_error));
    GIVES(GCB_ARGUMENT, gcb_connect(NULL, 100, &bus, &check_error));
    CHECK(bus.handle == 0);
}

int main(void)
{
    both_syntaxes();
    first_and_rest();
    values();
    what_is_no_list();
    refused();
    written_by_hand();
    handles_that_are_none();
    puts("lists: ok");
    return 0;
}
