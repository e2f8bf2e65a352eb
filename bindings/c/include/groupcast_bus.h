/* MBLib: groupcast's message bus and its lists, for C11 and C++17.
 *
 * docs/bus.md has the bus, docs/bus-c.md how a program is built with this library.
 *
 * Results. Every function returns a gcb_code, GCB_OK (0) where it did what it says. What it gives is written to the
 * places that it takes pointers to, which hold an empty value (a null handle, no bytes, 0) where it fails. The last
 * argument may be NULL, or a gcb_error that says more; it is overwritten by each call, also by one that succeeds.
 *
 * Memory. Connections, messages, lists and builders belong to the library. A program holds handles: numbers, of which
 * none is given twice. {0} is the null handle. Whoever gets a handle frees it, by the function that is named with it. A
 * handle that is null, was freed, or is of another kind is GCB_HANDLE, never anything else, also from another thread.
 * An item is a place in a list: it is not freed, and stays as long as its list.
 * gcb_bytes point into the object that they were asked of, and stay until it is freed (the name of a connection: until
 * it is closed or connected again). They are not to be changed. A NUL, which is not counted, follows them; they may
 * have other NULs in them.
 * What a program passes is copied before the function returns. A `const char *` must not be NULL, ends with NUL and is
 * UTF-8; data with a length may be NULL if the length is 0.
 *
 * Times are milliseconds; a negative one is as long as it takes, 0 does not wait.
 *
 * Threads. Every function may be called from every thread. Calls with one connection wait for each other, so a program
 * that waits in gcb_receive for as long as it takes does not send with that connection meanwhile. gcb_close ends what other
 * threads wait for with that connection: they get GCB_CLOSED.
 *
 * This interface may change before version 1.0 of groupcast.
 */
#ifndef GROUPCAST_BUS_H
#define GROUPCAST_BUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call went. */
typedef enum gcb_code {
    GCB_OK = 0,
    GCB_TIMEOUT = 1,    /* not in the time that was given */
    GCB_ARGUMENT = 2,   /* a pointer is null, a text is no UTF-8 or not what it should be, a value does not exist */
    GCB_HANDLE = 3,     /* a handle is null, was freed, or is of another kind */
    GCB_TYPE = 4,       /* the item or the message is of another kind */
    GCB_RANGE = 5,      /* a number does not fit, an index is too large, or memory too small */
    GCB_ADDRESS = 6,    /* the address is none, or no bus of this version listens there */
    GCB_CONNECTION = 7, /* the connection cannot be made, or is broken */
    GCB_CLOSED = 8,     /* the bus has ended the connection: `word` is its reason */
    GCB_REFUSED = 9,    /* the bus did not carry out the command: `word` and `column` are those of its reply */
    GCB_LIST = 10,      /* the text is no list: `column` is the byte of the text at fault, from 1 */
    GCB_FULL = 11       /* 64 MiB wait to be received: receive them before more is sent */
} gcb_code;

/* More about an error. */
typedef struct gcb_error {
    gcb_code code;
    size_t column;  /* the place at fault, counted from 1; 0 where none is */
    char word[32];  /* the bus's word for it (docs/bus.md, "Errors"), or "" */
    char text[216]; /* a text for people */
} gcb_error;

/* Handles. */
typedef struct gcb_bus { uint64_t handle; } gcb_bus;
typedef struct gcb_message { uint64_t handle; } gcb_message;
typedef struct gcb_list { uint64_t handle; } gcb_list;
typedef struct gcb_builder { uint64_t handle; } gcb_builder;

/* A place in a list: an item, or the rest of a list from one of its items on. What is in it is the library's. */
typedef struct gcb_item {
    uint64_t list;
    uint32_t place;
    uint32_t rest;
} gcb_item;

/* Bytes of the library. */
typedef struct gcb_bytes {
    const char *data; /* never NULL */
    size_t len;
} gcb_bytes;

/* How a message is written. */
typedef enum gcb_syntax {
    GCB_ANY = 0, /* only where a text is read: told by its first bytes */
    GCB_SEXP = 1,
    GCB_CSTREAM = 2,
    GCB_RAW = 3
} gcb_syntax;

/* What an item is. */
typedef enum gcb_kind {
    GCB_NONE = 0,
    GCB_KIND_LIST = 1,      /* a list, also a dotted one, an empty one, or the rest of one */
    GCB_KIND_SYMBOL = 2,    /* a symbol, a keyword, a ratio, all else; as it is written */
    GCB_KIND_STRING = 3,
    GCB_KIND_INTEGER = 4,   /* of any length */
    GCB_KIND_FLOAT = 5,
    GCB_KIND_CHARACTER = 6, /* by what follows #\: a, Space, ( */
    GCB_KIND_BYTES = 7,
    GCB_KIND_QUOTED = 8     /* an item with ' ` , ,@ #' or # before it */
} gcb_kind;

/* What was received. */
typedef enum gcb_event {
    GCB_EVENT_NONE = 0,
    GCB_DELIVERY = 1, /* a message */
    GCB_VIEW = 2,     /* a change of a domain; words: domain, kind, cause, who, members */
    GCB_LEFT = 3,     /* this client is out of a domain; words: domain, code, text */
    GCB_GAP = 4       /* messages of a bimodal domain are lost; words: domain, daemon, first, last */
} gcb_event;

/* ---- The connection ---- */

/* Connects to the bus at `address`, IP:PORT or unix:PATH, within `timeout_ms`, which also bounds the wait for its
 * greeting. Free the connection with gcb_close. GCB_ADDRESS, GCB_CONNECTION, GCB_TIMEOUT, GCB_CLOSED. */
gcb_code gcb_connect(const char *address, int timeout_ms, gcb_bus *bus, gcb_error *error);

/* Connects anew to the same address, trying until it succeeds or the time is over, and then says again what was
 * accepted and set (id, loop-back, service, syntax, views, from). The private name is another one. What was sent and not
 * answered with GCB_OK may or may not have been delivered; what others sent in between is lost to this client; what it
 * had received before can still be fetched. An attempt whose greeting does not come within 10 s, or a reply within the
 * time of gcb_set_timeout, is given up for the next one. After a failure gcb_reconnect may be called again. */
gcb_code gcb_reconnect(gcb_bus bus, int timeout_ms, gcb_error *error);

/* Leaves: waits until what was sent is carried out, `timeout_ms` at most. Frees the connection in any case, also with
 * what it received and nobody fetched; the error only says how the leaving went. */
gcb_code gcb_close(gcb_bus bus, int timeout_ms, gcb_error *error);

/* The file descriptor of the connection, to be polled for reading and used for nothing else; another one after
 * gcb_reconnect. The library reads ahead: call gcb_receive with the time 0 until it says GCB_TIMEOUT, then poll. */
gcb_code gcb_fd(gcb_bus bus, int *fd, gcb_error *error);

/* The private name, such as c1@h1. It stays until the connection is closed or connected again. */
gcb_code gcb_name(gcb_bus bus, gcb_bytes *name, gcb_error *error);

/* How long a command or a message waits for its reply: 30,000 ms at first. After GCB_TIMEOUT it may still be carried
 * out, and the connection can be used. */
gcb_code gcb_set_timeout(gcb_bus bus, int timeout_ms, gcb_error *error);

/* Messages to `domain` (or *.domain) whose tag matches the regular expression `tag`, or "*" for every tag, come to this
 * client from now on. GCB_REFUSED and the errors of the connection, here and below. */
gcb_code gcb_accept(gcb_bus bus, const char *tag, const char *domain, gcb_error *error);

/* The same with an order of its own for `domain` and all below it ("A domain with an order of its own" in docs/bus.md):
 * returns when the client is in it, which may take longer than other commands. gcb_reject takes it back. */
gcb_code gcb_accept_ring(gcb_bus bus, const char *tag, const char *domain, gcb_error *error);

/* Takes the identical gcb_accept back. */
gcb_code gcb_reject(gcb_bus bus, const char *tag, const char *domain, gcb_error *error);

/* Calls the client `name`: messages to that domain come to it. "" takes it back. */
gcb_code gcb_id(gcb_bus bus, const char *name, gcb_error *error);

/* The ids of all clients that such a message would be for, as a list of strings. Free it with gcb_list_free. */
gcb_code gcb_ping(gcb_bus bus, const char *tag, const char *domain, gcb_list *names, gcb_error *error);

/* Any command of docs/bus.md but msg and quit, as one line without its end: "views on", "service safe", "clients".
 * `reply`, if it is not NULL, gets a list of lists of strings: the words behind `ok`, then those of each line that
 * follows it. Free it with gcb_list_free. */
gcb_code gcb_command(gcb_bus bus, const char *line, gcb_list *reply, gcb_error *error);

/* Sends a list, or a part of one that is a list, and returns when it is accepted. It is written in the connection's
 * syntax: S-expressions, or CSTREAM after the command "syntax cstream". GCB_TYPE if the item is no list. */
gcb_code gcb_send(gcb_bus bus, const char *tag, const char *domain, gcb_item item, gcb_error *error);

/* Sends `len` bytes to `count` domains, once to each client: as a text in the syntax that is named, or GCB_RAW. More
 * bytes than `message-max` of the command "info" end the connection. */
gcb_code gcb_send_data(gcb_bus bus, const char *tag, const char *const *domains, size_t count, gcb_syntax syntax,
                       const void *data, size_t len, gcb_error *error);

/* The next message, view, gap, or end of being in a domain, in the order in which they came. GCB_TIMEOUT if there is none in
 * time. Free it with gcb_message_free. The bus lets a client go that takes nothing for 30 s. */
gcb_code gcb_receive(gcb_bus bus, int timeout_ms, gcb_message *message, gcb_error *error);

/* ---- What was received ---- */

/* What it is. */
gcb_code gcb_message_event(gcb_message message, gcb_event *event, gcb_error *error);

/* The tag of a delivery; GCB_TYPE for others, here and for the four that follow. */
gcb_code gcb_message_tag(gcb_message message, gcb_bytes *tag, gcb_error *error);

/* The id or private name of who sent it, after the command "from on"; otherwise empty. */
gcb_code gcb_message_sender(gcb_message message, gcb_bytes *sender, gcb_error *error);

/* The bytes of a delivery as they came. */
gcb_code gcb_message_data(gcb_message message, gcb_bytes *data, gcb_error *error);

/* The syntax of a delivery. */
gcb_code gcb_message_syntax(gcb_message message, gcb_syntax *syntax, gcb_error *error);

/* The list that a delivery is; GCB_TYPE if it is raw. The list is a copy: it stays when the message is freed. Free it
 * with gcb_list_free. */
gcb_code gcb_message_list(gcb_message message, gcb_list *list, gcb_error *error);

/* How many domains a delivery was sent to, or words a view, a gap or an end has. */
gcb_code gcb_message_words(gcb_message message, size_t *count, gcb_error *error);

/* One of them, counted from 0. GCB_RANGE. */
gcb_code gcb_message_word(gcb_message message, size_t index, gcb_bytes *word, gcb_error *error);

/* Frees a message. */
gcb_code gcb_message_free(gcb_message message, gcb_error *error);

/* ---- Reading lists ---- */

/* Reads a text that is one item, most often a list, and nothing else but blanks and comments. GCB_LIST with the column;
 * its word is `list`, `depth` (1,000 levels), `atoms` (1,000,000 items) or `too-long` (16 MiB). Free the list with
 * gcb_list_free. */
gcb_code gcb_parse(gcb_syntax syntax, const void *data, size_t len, gcb_list *list, gcb_error *error);

/* Frees a list; its items and their bytes go with it. */
gcb_code gcb_list_free(gcb_list list, gcb_error *error);

/* The list as an item. */
gcb_code gcb_root(gcb_list list, gcb_item *item, gcb_error *error);

/* What an item is. */
gcb_code gcb_kind_of(gcb_item item, gcb_kind *kind, gcb_error *error);

/* The first item of a list. GCB_TYPE for an empty list and for what is no list. */
gcb_code gcb_first(gcb_item item, gcb_item *first, gcb_error *error);

/* A list without its first item: a list too, and in the end an empty one; where only what stands behind a dot is left,
 * that item. GCB_TYPE as gcb_first. It copies nothing. So all items of a list are
 *     for (; gcb_first(list, &item, NULL) == GCB_OK; gcb_rest(list, &list, NULL)) */
gcb_code gcb_rest(gcb_item item, gcb_item *rest, gcb_error *error);

/* How many items a list has, without the one behind a dot; its cost is the number. */
gcb_code gcb_length(gcb_item item, size_t *length, gcb_error *error);

/* The bytes of an atom: of a symbol or a number as it is written, of a string or bytes what is meant, of a character its
 * name. GCB_TYPE for lists and quoted items. */
gcb_code gcb_text(gcb_item item, gcb_bytes *text, gcb_error *error);

/* The value of an integer. GCB_RANGE if it has more than 64 bits: gcb_text has its digits. */
gcb_code gcb_integer(gcb_item item, int64_t *value, gcb_error *error);

/* The value of a float or an integer, to the nearest double. GCB_RANGE if there is none. */
gcb_code gcb_float(gcb_item item, double *value, gcb_error *error);

/* The mark of a quoted item (such as "'"), if `mark` is not NULL, and the item behind it. */
gcb_code gcb_quoted(gcb_item item, gcb_bytes *mark, gcb_item *inner, gcb_error *error);

/* Writes a list, an item or the rest of a list as a text with a NUL behind it: an S-expression in its canonical form, or
 * a CSTREAM. `length`, if it is not NULL, gets how many bytes that has, also where they do not fit: then the error is
 * GCB_RANGE and nothing is written. `buffer` may be NULL if `size` is 0. */
gcb_code gcb_write(gcb_item item, gcb_syntax syntax, char *buffer, size_t size, size_t *length, gcb_error *error);

/* ---- Writing lists ---- */

/* Begins to write a list. gcb_finish makes a list of it; gcb_builder_free forgets it. */
gcb_code gcb_build(gcb_builder *builder, gcb_error *error);

/* What is refused while a list is written would be missing in it: gcb_finish returns the first such error, and no list.
 * So a row of calls may be made, and only gcb_finish looked at. */

/* A list begins. That what is open is closed, and dots and marks stand where they may, is seen by gcb_finish. */
gcb_code gcb_put_open(gcb_builder builder, gcb_error *error);

/* The list that began last ends. */
gcb_code gcb_put_close(gcb_builder builder, gcb_error *error);

/* The last item of a dotted list follows. */
gcb_code gcb_put_dot(gcb_builder builder, gcb_error *error);

/* A mark for the item that follows: ' ` , ,@ #' or # (before a list only). */
gcb_code gcb_put_mark(gcb_builder builder, const char *mark, gcb_error *error);

/* An atom of any kind by its bytes, as gcb_text gives them. GCB_ARGUMENT where they would be read as something else, or
 * as more than one item: a symbol "a b", an integer "12x". */
gcb_code gcb_put_atom(gcb_builder builder, gcb_kind kind, const void *data, size_t len, gcb_error *error);

/* A symbol, as it is written. */
gcb_code gcb_put_symbol(gcb_builder builder, const char *name, gcb_error *error);

/* A string. */
gcb_code gcb_put_string(gcb_builder builder, const char *text, gcb_error *error);

/* An integer. */
gcb_code gcb_put_integer(gcb_builder builder, int64_t value, gcb_error *error);

/* A float, with as many digits as it takes to read the same. GCB_ARGUMENT if it is infinite or no number. */
gcb_code gcb_put_float(gcb_builder builder, double value, gcb_error *error);

/* A copy of an item of a list. */
gcb_code gcb_put_item(gcb_builder builder, gcb_item item, gcb_error *error);

/* The list that was written. The builder is freed in any case. The first error of what was put; GCB_LIST where it is not
 * well-formed. */
gcb_code gcb_finish(gcb_builder builder, gcb_list *list, gcb_error *error);

/* Frees a builder. */
gcb_code gcb_builder_free(gcb_builder builder, gcb_error *error);

#ifdef __cplusplus
}
#endif

#endif
