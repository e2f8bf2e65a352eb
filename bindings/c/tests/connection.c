/* A connection against a bus that a test plays: connection.c ADDRESS. */
#include "check.h"
#include <poll.h>

int main(int count, char **words)
{
    static const char *const domains[] = {"a", "b,c", "d e"};
    static const char *const broken[] = {"a", NULL};
    gcb_bus bus;
    gcb_list reply, list;
    gcb_item item;
    gcb_message message;
    gcb_event event;
    gcb_bytes bytes;
    gcb_syntax syntax;
    struct pollfd ready = {-1, POLLIN, 0};
    char text[64];
    size_t len;
    CHECK(count == 2);
    /* The first that answers is no bus. */
    GIVES(GCB_ADDRESS, gcb_connect(words[1], 5000, &bus, &check_error));
    GIVES(GCB_OK, gcb_connect(words[1], 5000, &bus, &check_error));
    GIVES(GCB_OK, gcb_name(bus, &bytes, &check_error));
    CHECK(IS(bytes, "c1@h1"));
    GIVES(GCB_OK, gcb_accept(bus, "*", "room", &check_error));
    GIVES(GCB_REFUSED, gcb_accept(bus, "(", "room", &check_error));
    CHECK(check_error.column == 8 && strcmp(check_error.word, "pattern") == 0);
    GIVES(GCB_OK, gcb_accept(bus, "x", "other", &check_error));
    GIVES(GCB_OK, gcb_reject(bus, "x", "other", &check_error));
    GIVES(GCB_OK, gcb_accept_ring(bus, "*", "wb.uiuc", &check_error));
    GIVES(GCB_OK, gcb_id(bus, "me \"too\"", &check_error));
    GIVES(GCB_OK, gcb_command(bus, "views on", NULL, &check_error));
    GIVES(GCB_ARGUMENT, gcb_command(bus, "views on\nquit", NULL, &check_error));
    GIVES(GCB_ARGUMENT, gcb_command(bus, "quit", NULL, &check_error));
    GIVES(GCB_ARGUMENT, gcb_command(bus, "", NULL, &check_error));
    GIVES(GCB_OK, gcb_command(bus, "clients", &reply, &check_error));
    GIVES(GCB_OK, gcb_root(reply, &item, &check_error));
    GIVES(GCB_OK, gcb_write(item, GCB_SEXP, text, sizeof text, &len, &check_error));
    CHECK(strcmp(text, "((\"2\") (\"c1@h1\" \"me\") (\"c2@h1\" \"\" \"room\"))") == 0);
    gcb_list_free(reply, NULL);
    GIVES(GCB_OK, gcb_ping(bus, "x", "room", &reply, &check_error));
    gcb_list_free(reply, NULL);
    /* No part of a message that is refused here is sent. */
    GIVES(GCB_ARGUMENT, gcb_send_data(bus, "t", broken, 2, GCB_RAW, "x", 1, &check_error));
    GIVES(GCB_ARGUMENT, gcb_send_data(bus, "t", domains, 0, GCB_RAW, "x", 1, &check_error));
    GIVES(GCB_ARGUMENT, gcb_send_data(bus, "t", domains, 3, GCB_ANY, "x", 1, &check_error));
    GIVES(GCB_OK, gcb_send_data(bus, "t", domains, 3, GCB_RAW, "x\ny", 3, &check_error));
    /* A reply that comes too late is not taken for the next one's. */
    GIVES(GCB_OK, gcb_set_timeout(bus, 50, &check_error));
    GIVES(GCB_TIMEOUT, gcb_command(bus, "info", NULL, &check_error));
    GIVES(GCB_OK, gcb_set_timeout(bus, 5000, &check_error));
    GIVES(GCB_OK, gcb_command(bus, "service safe", &reply, &check_error));
    gcb_list_free(reply, NULL);
    /* What came meanwhile, and what comes. */
    GIVES(GCB_OK, gcb_receive(bus, 0, &message, &check_error));
    GIVES(GCB_OK, gcb_message_event(message, &event, &check_error));
    CHECK(event == GCB_VIEW);
    GIVES(GCB_OK, gcb_message_words(message, &len, &check_error));
    GIVES(GCB_OK, gcb_message_word(message, 2, &bytes, &check_error));
    CHECK(len == 5 && IS(bytes, "join"));
    GIVES(GCB_RANGE, gcb_message_word(message, 5, &bytes, &check_error));
    GIVES(GCB_TYPE, gcb_message_list(message, &list, &check_error));
    gcb_message_free(message, NULL);
    GIVES(GCB_TIMEOUT, gcb_receive(bus, 0, &message, &check_error));
    CHECK(message.handle == 0);
    GIVES(GCB_OK, gcb_fd(bus, &ready.fd, &check_error));
    CHECK(poll(&ready, 1, 5000) == 1);
    GIVES(GCB_OK, gcb_receive(bus, 5000, &message, &check_error));
    GIVES(GCB_OK, gcb_message_syntax(message, &syntax, &check_error));
    GIVES(GCB_OK, gcb_message_tag(message, &bytes, &check_error));
    CHECK(syntax == GCB_RAW && IS(bytes, "draw it"));
    GIVES(GCB_OK, gcb_message_data(message, &bytes, &check_error));
    CHECK(IS(bytes, "a\0\nb"));
    GIVES(GCB_OK, gcb_message_sender(message, &bytes, &check_error));
    CHECK(IS(bytes, "c2@h1"));
    GIVES(GCB_TYPE, gcb_message_list(message, &list, &check_error));
    GIVES(GCB_OK, gcb_message_free(message, &check_error));
    GIVES(GCB_HANDLE, gcb_message_free(message, &check_error));
    GIVES(GCB_OK, gcb_receive(bus, 5000, &message, &check_error));
    GIVES(GCB_OK, gcb_message_list(message, &list, &check_error));
    gcb_message_free(message, NULL);
    /* The bus goes, and comes again: what was set is said anew. */
    GIVES(GCB_CLOSED, gcb_receive(bus, 5000, &message, &check_error));
    CHECK(strcmp(check_error.word, "stopping") == 0);
    GIVES(GCB_CLOSED, gcb_accept(bus, "*", "more", &check_error));
    GIVES(GCB_OK, gcb_reconnect(bus, 5000, &check_error));
    GIVES(GCB_OK, gcb_name(bus, &bytes, &check_error));
    CHECK(IS(bytes, "c7@h1"));
    GIVES(GCB_OK, gcb_root(list, &item, &check_error));
    GIVES(GCB_OK, gcb_send(bus, "t", "room", item, &check_error));
    GIVES(GCB_OK, gcb_first(item, &item, &check_error));
    GIVES(GCB_TYPE, gcb_send(bus, "t", "room", item, &check_error));
    gcb_list_free(list, NULL);
    GIVES(GCB_OK, gcb_close(bus, 5000, &check_error));
    GIVES(GCB_HANDLE, gcb_close(bus, 5000, &check_error));
    GIVES(GCB_HANDLE, gcb_receive(bus, 0, &message, &check_error));
    puts("connection: ok");
    return 0;
}
